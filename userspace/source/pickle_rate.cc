// The sample is pickled once in each process that is started, as a program does that starts a worker: a second time is
// several times as fast, since the memory is there. It is unpickled from a pipe, as a worker does it. Objects that were
// made in the order in which they are pickled are pickled up to three times as fast as those of a shuffled list, whose
// memory and whose entries in the memo miss the caches. Which of both the program has can't be told without much
// reading.
#include "source/pickle_rate.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "model/format.h"
#include "posix/clock.h"
#include "posix/fd.h"
#include "posix/rights.h"
#include "posix/safe_path.h"

namespace cowprof {
namespace {

// Whether a run's objects lie in memory in another order than that in which they are pickled.
constexpr bool kScattered[] = {false, true, false};
constexpr int kCannotExec = 126, kCannotBecome = 125;
constexpr size_t kMostOutput = 256;

constexpr char kProgram[] = R"(
import os, sys, threading, time
from pickle import load
from multiprocessing.reduction import ForkingPickler

(numbers, floats, texts, text_bytes, wide, again, lists, tuples, dicts, sets, instances, reduced, arrays,
 array_bytes) = map(int, sys.argv[1:15])
scattered = sys.argv[15] == "1"

class Instance:
    pass

class Reduced:
    def __reduce__(self):
        return Reduced, ()

class Array:  # pickled by way of a copy, and copied from it, as numpy does
    def __init__(self, size):
        self.buffer = bytes(size)
    def __reduce__(self):
        return bytearray, (self.buffer[:-1] + b"x",)

def in_turn(counts):
    left = [0] * len(counts)
    total = sum(counts)
    for _ in range(total):
        for kind, count in enumerate(counts):
            left[kind] += count
        kind = left.index(max(left))
        left[kind] -= total
        yield kind

def in_memory_order_or_not(items):
    if scattered:
        items[:] = [items[i] for i in sorted(range(len(items)), key=lambda i: i * 2654435761 % 4294967296)]
    return items

def text(i):
    name = "%d" % i
    if i % 1000 < 1000 * wide // texts:
        return name.ljust(max(text_bytes // texts // 2, 1), "\xe4")
    return name.ljust(text_bytes // texts, "x") if text_bytes // texts < 4096 else (name + "x" * (text_bytes // texts - len(name)))

make = [lambda i: i * 257, lambda i: i * 0.5, text, lambda i: Reduced(), lambda i: Array(max(array_bytes // arrays, 1))]
leaves = in_memory_order_or_not([make[kind](i) for i, kind in enumerate(in_turn([numbers, floats, texts, reduced, arrays]))])
names = ["name%d" % i for i in range(256)]  # of attributes, and keys: each is sent once
kinds = [lists, tuples, dicts, sets, instances]
data = leaves
if sum(kinds) > 1:
    data, begin = [], 0
    for i, kind in enumerate(in_turn(kinds)):
        end = len(leaves) * (i + 1) // sum(kinds)
        part, begin = leaves[begin:end], end
        if kind == 1:
            part = tuple(part)
        elif kind == 2:
            part = dict(zip(names, part))
        elif kind == 3:
            part = set(part)
        elif kind == 4:
            values, part = part, Instance()
            part.__dict__.update(zip(names, values))
        data.append(part)
    data = in_memory_order_or_not(data)
    data.append([None] * max(again - len(leaves), 0))

begin = time.thread_time()
pickled = ForkingPickler.dumps(data)
pickling = time.thread_time() - begin
readable, writable = os.pipe()

def send():
    with os.fdopen(writable, "wb") as file:
        file.write(pickled)

threading.Thread(target=send).start()
begin = time.thread_time()
with os.fdopen(readable, "rb") as file:
    data = load(file)
print(pickling, time.thread_time() - begin, flush=True)
os._exit(0)
)";

absl::Status Refuse(absl::string_view why) { return absl::FailedPreconditionError(why); }

// "python", "python3", "python3.11", "python3.11d".
bool IsPython(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "python")) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isdigit(c) || c == '.' || c == 'd'; });
}

std::string LinkOf(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), text, sizeof(text));
  return length > 0 ? std::string(text, length) : "";
}

// The second figure of a line such as "Uid: 1000 1000 1000 1000": the effective one.
bool EffectiveId(absl::string_view status, absl::string_view key, uint32_t* id) {
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::StartsWith(line, key)) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    return words.size() > 2 && absl::SimpleAtoi(words[2], id);
  }
  return false;
}

// In the child.
[[noreturn]] void Exec(const RunnableInterpreter& interpreter, char** words, int output, int null) {
  setsid();  // no terminal to type into, and a group that can be killed
  if (dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(null, 2) < 0) _exit(kCannotExec);
  close_range(3, ~0u, 0);
  if (chdir("/") != 0) _exit(kCannotExec);
  for (const auto& [what, most] : {std::pair<int, rlim_t>{RLIMIT_CORE, 0}, {RLIMIT_AS, rlim_t{4} << 30}}) {
    const rlimit limit = {most, most};
    setrlimit(static_cast<__rlimit_resource>(what), &limit);
  }
  const absl::StatusOr<std::string> gave_up = GiveUpRights({interpreter.uid, interpreter.gid}, 0);
  if (!gave_up.ok() || !gave_up->empty() || geteuid() != interpreter.uid) _exit(kCannotBecome);
  char path[] = "PATH=/usr/bin:/bin", locale[] = "LC_ALL=C.UTF-8";
  char* environment[] = {path, locale, nullptr};
  execve(interpreter.path.c_str(), words, environment);
  _exit(kCannotExec);
}

// What the child writes until it ends or the time is over.
std::string ReadUntil(int fd, absl::Duration end) {
  std::string text;
  while (text.size() < kMostOutput) {
    pollfd news = {fd, POLLIN, 0};
    const absl::Duration left = end - BootTime();
    if (left <= absl::ZeroDuration()) break;
    const int ready = poll(&news, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    char piece[kMostOutput];
    const ssize_t got = read(fd, piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece, got);
  }
  return text;
}

absl::StatusOr<PickleRun> RunOnce(const RunnableInterpreter& interpreter, std::vector<char*> words, int null,
                                  absl::Duration most) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "create a pipe");
  Fd ours(ends[0]), theirs(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork a process for the interpreter");
  if (pid == 0) Exec(interpreter, words.data(), theirs.fd(), null);
  theirs.Close();
  const std::string text = ReadUntil(ours.fd(), BootTime() + most);
  kill(-pid, SIGKILL);  // it has said all, or its time is up
  kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  PickleRun run;
  const std::vector<absl::string_view> figures = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const bool good = figures.size() == 2 && absl::SimpleAtod(figures[0], &run.pickle_seconds) &&
                    absl::SimpleAtod(figures[1], &run.unpickle_seconds) && run.pickle_seconds > 0 &&
                    run.unpickle_seconds > 0 && run.pickle_seconds < 1e6 && run.unpickle_seconds < 1e6;
  if (good) return run;
  const std::string who = absl::StrCat(Printable(interpreter.path), ", run as user ", interpreter.uid, ", ");
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotExec) return Refuse(absl::StrCat(who, "could not be started"));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotBecome)
    return Refuse(absl::StrCat("cowprof could not become user ", interpreter.uid, ", as whom the process runs"));
  return Refuse(WIFSIGNALED(status) && text.empty() ? absl::StrCat(who, "did not end in time")
                                                    : absl::StrCat(who, "did not pickle the sample"));
}

}  // namespace

absl::StatusOr<RunnableInterpreter> FindRunnable(const ProcFs& proc, pid_t pid, const std::string& version) {
  RunnableInterpreter found = {.path = proc.ReadExecutable(pid)};
  const absl::StatusOr<std::string> status = proc.ReadFile(pid, "status");
  if (found.path.empty() || !status.ok()) return Refuse("the path of its interpreter can't be read");
  const std::string path = Printable(found.path);
  if (absl::EndsWith(found.path, " (deleted)")) return Refuse(absl::StrCat("its interpreter was replaced: ", path));
  const std::string ours = LinkOf(absl::StrCat(proc.root(), "/self/ns/mnt"));
  if (ours.empty() || LinkOf(proc.PathOf(pid, "ns/mnt")) != ours || LinkOf(proc.PathOf(pid, "root")) != "/")
    return Refuse("it sees other files than cowprof, as in a container; run cowprof there");
  const size_t name = found.path.rfind('/') + 1;
  if (!IsPython(absl::string_view(found.path).substr(name)))
    return Refuse(absl::StrCat("its program is not a python that could be run: ", path));
  found.uid = geteuid();
  found.gid = getegid();
  if (found.uid == 0 && (!EffectiveId(*status, "Uid:", &found.uid) || !EffectiveId(*status, "Gid:", &found.gid)))
    return Refuse("its user is not known");
  if (std::string weakness = WeaknessOfPath(found.path, found.uid); !weakness.empty())
    return Refuse(absl::StrCat("its interpreter is not run: ", Printable(weakness, 300)));
  if (found.uid != 0) return found;
  // Root runs no code that anybody else could have put there: not the library, either.
  const std::string prefix = found.path.substr(0, found.path.rfind('/', name - 2));
  struct stat file;
  if (stat(absl::StrCat(prefix, "/pyvenv.cfg").c_str(), &file) == 0 ||
      stat(absl::StrCat(found.path.substr(0, name), "pyvenv.cfg").c_str(), &file) == 0)
    return Refuse(absl::StrCat(path, " is that of a venv, and root runs nothing that was not checked"));
  const std::vector<absl::string_view> numbers = absl::StrSplit(version, '.');
  const std::string library =
      numbers.size() < 2 ? "" : absl::StrCat(prefix, "/lib/python", numbers[0], ".", numbers[1]);
  if (library.empty() || stat(absl::StrCat(library, "/pickle.py").c_str(), &file) != 0)
    return Refuse(
        absl::StrCat("its library was not found beside ", path, ", and root runs nothing that was not checked"));
  if (std::string weakness = WeaknessOfTree(library, 0, {"site-packages", "dist-packages", "test", "tests"});
      !weakness.empty())
    return Refuse(absl::StrCat("its interpreter is not run as root: ", Printable(weakness, 300)));
  return found;
}

absl::StatusOr<std::vector<PickleRun>> MeasurePickle(const RunnableInterpreter& interpreter, const PickleMix& sample,
                                                     absl::Duration most) {
  std::vector<std::string> words = {interpreter.path, "-I", "-S", "-c", kProgram};
  for (const uint64_t count :
       {sample.numbers, sample.floats, sample.texts, sample.text_bytes, sample.wide_texts, sample.again, sample.lists,
        sample.tuples, sample.dicts, sample.sets, sample.instances, sample.reduced, sample.arrays, sample.array_bytes})
    words.push_back(absl::StrCat(count));
  words.emplace_back("0");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.ok()) return absl::ErrnoToStatus(errno, "open /dev/null");
  std::vector<PickleRun> runs;
  for (const bool scattered : kScattered) {
    words.back()[0] = scattered ? '1' : '0';
    absl::StatusOr<PickleRun> run = RunOnce(interpreter, pointers, null.fd(), most);
    if (!run.ok()) return run.status();
    runs.push_back(*run);
  }
  return runs;
}

}  // namespace cowprof
