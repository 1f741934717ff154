// Copy sites, copied pages and programs from rows that a made-up source of faults hands out, for real processes: forked
// children of this program, which is not Python, and one interpreter.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "attribution/copied_page_runs.h"
#include "attribution_setting.h"
#include "fixture_tree.h"
#include "skip.h"

namespace cowprof {
namespace {

// A CPython that waits, and what it printed: its own words, separated by blanks. pid 0: there is none on this host.
class PythonProcess {
 public:
  explicit PythonProcess(const std::string& script) {
    int out[2];
    REQUIRE(pipe(out) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(out[1], STDOUT_FILENO);
      close(out[0]);
      close(out[1]);
      execl("/usr/bin/python3", "python3", "-S", "-c", script.c_str(), nullptr);
      _exit(127);
    }
    close(out[1]);
    std::string line;
    for (char c = 0; read(out[0], &c, 1) == 1 && c != '\n';) line += c;
    close(out[0]);
    words_ = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words_.empty()) End();
  }
  ~PythonProcess() { End(); }
  pid_t pid() const { return pid_; }
  const std::string& word(size_t i) const { return words_.at(i); }
  uint64_t number(size_t i) const {
    uint64_t number = 0;
    REQUIRE(absl::SimpleAtoi(words_.at(i), &number));
    return number;
  }

 private:
  void End() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid_ = 0;
  std::vector<std::string> words_;
};

// Its version, a forked child, the addresses of two types and of a function's code.
constexpr char kScript[] = R"(
import os, sys, time
class Local: pass
def work():
    return 1
end, keep = os.pipe()
child = os.fork()
if child == 0:
    os.close(keep)
    os.read(end, 1)  # until its parent ends
    os._exit(0)
print('%d.%d.%d' % sys.version_info[:3], child, id(dict), id(Local), id(work.__code__), flush=True)
time.sleep(600)
)";

}  // namespace

// ---- Places ----

TEST_CASE("attribution: places are named once, and told when they change") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.Learn();
  const uint64_t ip = reinterpret_cast<uint64_t>(&getenv);
  setting.faults.copy_sites = {
      {.serial = 1, .image = 1, .shape = COWPROF_SHAPE_REFCOUNT, .ip = ip, .copies = 10, .samples = 2, .squares = 60},
      // Another address in the same function, so that it is the same place; and another shape of the same cause.
      {.serial = 1,
       .image = 1,
       .shape = COWPROF_SHAPE_REFCOUNT,
       .ip = ip + 1,
       .copies = 5,
       .samples = 1,
       .squares = 25},
      {.serial = 1, .image = 1, .shape = COWPROF_SHAPE_COLLECTION, .ip = ip, .copies = 3, .samples = 3, .squares = 3}};
  const Sample first = setting.ToldCopySites();
  REQUIRE(first.new_copy_sites.size() == 2);
  CHECK(first.new_copy_sites[0].cause == Cause::kRefcount);
  CHECK(absl::StartsWith(first.new_copy_sites[0].module, "libc"));
  CHECK(first.new_copy_sites[0].symbol == "getenv");
  CHECK(first.new_copy_sites[0].type.empty());
  CHECK(first.new_copy_sites[1].cause == Cause::kGcHeader);
  CHECK(first.copy_sites == std::vector<CopySiteCount>{{0, 0, 15, 3, 85}, {0, 1, 3, 3, 3}});
  CHECK(setting.ToldCopySites() == Sample{});
  setting.faults.copy_sites[2].copies = 4;
  const Sample second = setting.ToldCopySites();
  CHECK(second.new_copy_sites.empty());
  CHECK(second.copy_sites == std::vector<CopySiteCount>{{0, 1, 4, 3, 3}});
}

// As an extension module that is imported later.
TEST_CASE("attribution: code that was mapped after the first look has its file's name") {
  FixtureTree tree;
  tree.Write("/late.so", std::string(4096, '\x90'));
  int go[2], done[2];
  REQUIRE((pipe(go) == 0 && pipe(done) == 0));
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char c;
    if (read(go[0], &c, 1) != 1) _exit(1);
    void* code = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE,
                      open((tree.root() + "/late.so").c_str(), O_RDONLY | O_CLOEXEC), 0);
    if (write(done[1], &code, sizeof(code)) != sizeof(code)) _exit(1);
    while (true) pause();
  }
  Setting setting;
  setting.Follow(1, pid);
  const auto module_of = [&](uint64_t ip) {
    setting.faults.copy_sites = {{.serial = 1, .image = 1, .shape = COWPROF_SHAPE_OUTSIDE, .ip = ip, .copies = 1}};
    const Sample sample = setting.ToldCopySites();
    return sample.new_copy_sites.empty() ? "" : sample.new_copy_sites[0].module;
  };
  CHECK_FALSE(module_of(At(kStore)).empty());
  uint64_t late = 0;
  CHECK(write(go[1], "x", 1) == 1);
  CHECK(read(done[0], &late, sizeof(late)) == sizeof(late));
  CHECK(module_of(late) == "late.so");
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  for (const int fd : {go[0], go[1], done[0], done[1]}) close(fd);
}

// As parent and worker that import different modules after the fork.
TEST_CASE("attribution: code that processes map at one address is named by each one's file") {
  const FixtureTree tree;
  constexpr uint64_t kAt = 0x200000000000;
  const auto mapped = [&tree](const std::string& name, char code) {
    tree.Write(name, std::string(4096, code));
    return [path = tree.root() + name] {
      const void* at = mmap(reinterpret_cast<void*>(kAt), 4096, PROT_READ | PROT_EXEC,
                            MAP_PRIVATE | MAP_FIXED_NOREPLACE, open(path.c_str(), O_RDONLY | O_CLOEXEC), 0);
      if (at == MAP_FAILED) _exit(1);
    };
  };
  Child parent(mapped("/parents.so", '\x90')), worker(mapped("/workers.so", '\xcc'));
  Setting setting;
  setting.Follow(1, parent.pid());
  setting.Follow(2, worker.pid(), /*parent=*/1);
  const auto module_of = [&](uint32_t serial, uint64_t ip) {
    setting.faults.copy_sites = {{.serial = serial, .image = 1, .shape = COWPROF_SHAPE_OUTSIDE, .ip = ip, .copies = 1}};
    const Sample sample = setting.ToldCopySites();
    return sample.new_copy_sites.empty() ? "" : sample.new_copy_sites[0].module;
  };
  CHECK(module_of(1, kAt) == "parents.so");
  CHECK(module_of(2, kAt + 64) == "workers.so");
}

// Names are looked up while the processes are there; the record may come much later.
TEST_CASE("attribution: what was read several times is told once, with the latest counts") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.faults.copy_sites = {
      {.serial = 1, .image = 1, .shape = COWPROF_SHAPE_OUTSIDE, .ip = At(kStore), .copies = 10}};
  setting.ReadCopySites();
  child.End();
  setting.End(1);
  setting.faults.copy_sites[0].copies = 12;
  setting.ReadCopySites();
  setting.faults.copy_sites.clear();
  setting.ReadCopySites();
  const Sample told = setting.TellCopySites();
  CHECK(told.copy_sites == std::vector<CopySiteCount>{{0, 0, 12, 0, 0}});
  REQUIRE(told.new_copy_sites.size() == 1);
  CHECK_FALSE(told.new_copy_sites[0].module.empty());
  CHECK(setting.TellCopySites() == Sample{});
}

TEST_CASE("attribution: places of a process that ended are still told, once") {
  Child parent, worker;
  Setting setting;
  setting.Follow(1, parent.pid());
  setting.Follow(2, worker.pid(), 1, 1);
  setting.Learn();
  setting.faults.copy_sites = {{.serial = 2,
                                .image = 1,
                                .shape = COWPROF_SHAPE_OUTSIDE,
                                .ip = At(kStore),
                                .copies = 10,
                                .samples = 10,
                                .squares = 10}};
  worker.End();
  setting.End(2);
  const Sample told = setting.ToldCopySites();
  CHECK(told.copy_sites == std::vector<CopySiteCount>{{1, 0, 10, 10, 10}});
  REQUIRE(told.new_copy_sites.size() == 1);
  CHECK(told.new_copy_sites[0].cause == Cause::kData);
  CHECK(told.new_copy_sites[0].module ==
        std::filesystem::read_symlink("/proc/self/exe").filename());  // its parent knows
  setting.faults.copy_sites[0].copies = 11;
  CHECK(setting.ToldCopySites() == Sample{});
}

// As of a worker pool whose children, one for each job, import their modules at other addresses each time.
TEST_CASE("attribution: stacks of rows that are gone are not kept for ever, and the others stay at their places") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  const auto row = [](uint64_t stack, uint64_t pages) {
    return CopySiteRow{.serial = 1, .image = 1, .shape = COWPROF_SHAPE_NEW, .stack = stack, .copies = pages};
  };
  const auto frames = [](size_t count) { return std::vector<cowprof_frame>(count); };  // of a program without Python
  setting.faults.stacks = {{1, frames(1)}, {2, frames(2)}};
  setting.faults.copy_sites = {row(1, 5), row(2, 6)};
  CHECK(setting.ToldCopySites().growth == std::vector<GrowthCount>{{0, 0, 5, 0}, {0, 1, 6, 0}});
  setting.faults.stacks.clear();
  for (uint64_t stack = 3; stack < 70'000;) {
    setting.faults.copy_sites = {row(1, 5)};
    for (int i = 0; i < 10'000; ++i) setting.faults.copy_sites.push_back(row(stack++, 1));
    setting.ToldCopySites();
  }
  setting.faults.stacks = {{2, frames(3)}};
  setting.faults.copy_sites = {row(1, 7), row(2, 8)};
  const Sample told = setting.ToldCopySites();
  CHECK(told.new_growth_sites == std::vector<GrowthSite>{{{0, 0, 0}}});
  CHECK(told.growth == std::vector<GrowthCount>{{0, 0, 7, 0}, {0, 3, 8, 0}});
}

TEST_CASE("attribution: places that could not be pulled are told the next time") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.faults.copy_sites = {
      {.serial = 1, .image = 1, .shape = COWPROF_SHAPE_OUTSIDE, .ip = At(kStore), .copies = 10}};
  setting.faults.copy_sites_fail = true;
  setting.End(1);
  CHECK(setting.ToldCopySites() == Sample{});
  setting.faults.copy_sites_fail = false;
  CHECK(setting.ToldCopySites().copy_sites.size() == 1);
}

// Rows of programs that are not read have no image and no instruction; they are of different causes all the same.
TEST_CASE("attribution: places of two programs that could not be read are not mixed up") {
  Child no_python, not_known;
  Setting setting;
  setting.Follow(1, no_python.pid());
  setting.Learn();
  setting.Follow(2, not_known.pid());
  setting.faults.copy_sites = {
      {.serial = 1, .shape = COWPROF_SHAPE_UNREAD, .copies = 10, .samples = 10, .squares = 10},
      {.serial = 2, .shape = COWPROF_SHAPE_UNREAD, .copies = 20, .samples = 20, .squares = 20}};
  const Sample sample = setting.ToldCopySites();
  std::map<int, Cause> causes;
  for (const CopySiteCount& count : sample.copy_sites)
    causes[count.index] = sample.new_copy_sites.at(count.copy_site).cause;
  CHECK(causes == std::map<int, Cause>{{0, Cause::kData}, {1, Cause::kUnknown}});
}

TEST_CASE("attribution: pages get the cause that most copies of their shape have in their process") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {Looked(COWPROF_SHAPE_LAST_REFERENCE, kIncrement, 5),
                         Looked(COWPROF_SHAPE_LAST_REFERENCE, kDecrement, 6),
                         Looked(COWPROF_SHAPE_COLLECTION, kStore, 1)};
  setting.pull.pages = {{1, 0x5000, COWPROF_SHAPE_LAST_REFERENCE},
                        {1, 0x6000, COWPROF_SHAPE_LAST_REFERENCE},
                        {1, 0x7000, COWPROF_SHAPE_COLLECTION},
                        {1, 0x9000, COWPROF_SHAPE_HASH},  // of no row
                        {7, 0x9000, COWPROF_SHAPE_COLLECTION}};
  setting.Judge();
  CopiedPageRuns log;
  LogPages(setting.pull.pages, 4096, setting.programs, setting.causes, &log);
  CHECK(log.Take() ==
        std::vector<PageRun>{{0, Cause::kFree, 5, 2}, {0, Cause::kGcHeader, 7, 1}, {0, Cause::kUnknown, 9, 1}});
}

TEST_CASE("attribution: pages are logged in units of the host's page size") {
  const uint64_t page_bytes = GENERATE(4096, 16384, 65536);
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {Looked(COWPROF_SHAPE_COLLECTION, kStore, 4)};
  for (const uint64_t page : {5, 6, 7, 9})
    setting.pull.pages.push_back({1, page * page_bytes, COWPROF_SHAPE_COLLECTION});
  setting.Judge();
  CopiedPageRuns log;
  LogPages(setting.pull.pages, page_bytes, setting.programs, setting.causes, &log);
  CHECK(log.Take() == std::vector<PageRun>{{0, Cause::kGcHeader, 5, 3}, {0, Cause::kGcHeader, 9, 1}});
}

// ---- Programs ----

TEST_CASE("attribution: a program that is run anew is another one") {
  Child parent, worker;
  Setting setting;
  setting.Follow(1, parent.pid());
  FollowedProcess& followed = setting.Follow(2, worker.pid(), 1, 1);
  setting.Learn();
  setting.programs.Exec(followed.id);
  // Not looked at yet: what could not be read is unknown in it, and data in the one that it came from.
  setting.pull.causes = {{.serial = 1, .shape = COWPROF_SHAPE_UNREAD, .copies = 4},
                         {.serial = 2, .shape = COWPROF_SHAPE_UNREAD, .copies = 9}};
  CHECK(setting.CausesOf(1) == Counts({{Cause::kData, 4}}));
  CHECK(setting.CausesOf(2) == Counts({{Cause::kUnknown, 9}}));
  setting.Learn();
  CHECK(setting.CausesOf(2) == Counts({{Cause::kData, 9}}));
  // An instruction of it is another one, too: 8 looks at each are not 16 at one.
  setting.pull.causes = {Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 8, 2),
                         Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 8, 2)};
  setting.pull.causes[1].image = 2;
  setting.Judge();
  CHECK(setting.faults.verdicts.empty());
  setting.pull.causes[1].copies = 16;
  setting.Judge();
  REQUIRE(setting.faults.verdicts.size() == 1);
  CHECK(setting.faults.verdicts[0].image == 2);
  setting.programs.Exec({999'999, 1});  // of nobody: does nothing
  setting.programs.End({999'999, 1});
}

TEST_CASE("attribution: an interpreter is learned once a process, and names its types and lines") {
  PythonProcess python(kScript);
  if (Lacks("python3", python.pid() != 0, "no /usr/bin/python3")) return;
  Setting setting;
  setting.Follow(1, python.pid());
  const std::vector<Event> events = setting.Learn();
  REQUIRE(events.size() == 1);
  CHECK(events[0] == Event{.t = events[0].t, .index = 0, .what = PythonFound{.version = python.word(0)}});
  REQUIRE(setting.faults.learned.size() == 1);
  CHECK(setting.faults.learned[0].serial == 1);
  const uint32_t image = setting.faults.learned[0].image;
  const cowprof_image facts = setting.faults.learned[0].facts;
  CHECK(facts.type_type != 0);
  CHECK((facts.gc_header_bytes == 16 || facts.gc_header_bytes == 32));
  CHECK((facts.frame_code < 120 && facts.frame_previous < 120 && facts.frame_instruction < 120));
  CHECK(setting.Learn().empty());
  CHECK(setting.faults.learned.size() == 1);

  // A child that has the image from the probes needs none; one that was forked a moment too early does.
  setting.Follow(2, python.number(1), 1, image);
  CHECK(setting.Learn().empty());
  CHECK(setting.faults.learned.size() == 1);
  setting.Follow(3, python.number(1), 1, 0);
  CHECK(setting.Learn().empty());
  REQUIRE(setting.faults.learned.size() == 2);
  CHECK(setting.faults.learned[1].serial == 3);
  CHECK(setting.faults.learned[1].image == image);
  setting.Learn();
  CHECK(setting.faults.learned.size() == 2);

  // Names: those of the parent, and from the child where the parent has gone.
  const uint64_t code = python.number(4), instruction = facts.instruction_bytes == 8 ? code + facts.code_bytes_at : 0;
  setting.faults.stacks[42] = {{code, instruction}, {0x10, 0x10}};  // the second one can't be read
  setting.faults.copy_sites = {{.serial = 2,
                                .image = image,
                                .shape = COWPROF_SHAPE_REFCOUNT,
                                .type = python.number(2),
                                .stack = 42,
                                .copies = 3,
                                .samples = 3,
                                .squares = 3}};
  const Sample sample = setting.ToldCopySites();
  REQUIRE(sample.new_copy_sites.size() == 1);
  CHECK(sample.new_copy_sites[0].type == "dict");
  CHECK(sample.new_copy_sites[0].frames == std::vector<int>{0, 1});
  REQUIRE(sample.new_frames.size() == 2);
  CHECK(sample.new_frames[1] == Frame{});
  CHECK(sample.new_frames[0].file == "<string>");
  CHECK(sample.new_frames[0].function == "work");
  CHECK((sample.new_frames[0].line == 4 || sample.new_frames[0].line == 5));
  setting.End(1);
  setting.faults.copy_sites = {{.serial = 2,
                                .image = image,
                                .shape = COWPROF_SHAPE_OBJECT,
                                .type = python.number(3),
                                .copies = 1,
                                .samples = 1,
                                .squares = 1}};
  const Sample orphan = setting.ToldCopySites();
  REQUIRE(orphan.new_copy_sites.size() == 1);
  CHECK(orphan.new_copy_sites[0].type == "__main__.Local");

  // With an interpreter, what could not be read stays unknown.
  setting.pull.causes = {{.serial = 2, .shape = COWPROF_SHAPE_UNREAD, .copies = 9}};
  CHECK(setting.CausesOf(2) == Counts({{Cause::kUnknown, 9}}));
}

// The exec may come between the look at the program and its image's arrival at the probes.
TEST_CASE("attribution: an exec takes back what the probes were taught of the program before") {
  PythonProcess python(kScript);
  if (Lacks("python3", python.pid() != 0, "no /usr/bin/python3")) return;
  Setting setting;
  setting.Follow(1, python.pid());
  setting.programs.Exec(setting.Find(1).id);
  CHECK(setting.faults.unlearned.empty());  // nothing was taught
  setting.Learn();
  REQUIRE(setting.faults.learned.size() == 1);
  setting.programs.Exec(setting.Find(1).id);
  CHECK(setting.faults.unlearned == std::vector<uint32_t>{1});
  setting.Learn();
  REQUIRE(setting.faults.learned.size() == 2);
  // And from what was forked with it since.
  setting.Follow(2, python.number(1), 1, setting.faults.learned[0].image);
  CHECK(setting.faults.unlearned == std::vector<uint32_t>{1, 2});
  setting.Follow(3, python.number(1), 1, setting.faults.learned[1].image);
  setting.Follow(4, python.number(1), 1);
  CHECK(setting.faults.unlearned.size() == 2);
}

TEST_CASE("attribution: a pid that was handed out again is not read") {
  PythonProcess python(kScript);
  if (Lacks("python3", python.pid() != 0, "no /usr/bin/python3")) return;
  LineageMemory memory{ProcFs()};
  const uint64_t start_ns = ProcFs().ReadStat(python.pid())->start_ns();
  memory.Add({python.pid(), start_ns + 10'000'000});
  char byte;
  CHECK_FALSE(memory.Read(python.number(2), absl::MakeSpan(&byte, 1)));
  memory.Add({python.pid(), start_ns});
  CHECK(memory.Read(python.number(2), absl::MakeSpan(&byte, 1)));
}

TEST_CASE("attribution: learning that failed is tried again") {
  PythonProcess python(kScript);
  if (Lacks("python3", python.pid() != 0, "no /usr/bin/python3")) return;
  Setting setting;
  setting.Follow(1, python.pid());
  setting.faults.learning_fails = true;
  CHECK(setting.Learn().size() == 1);
  CHECK(setting.Learn().empty());
  CHECK(setting.faults.learned.size() == 2);
  setting.faults.learning_fails = false;
  setting.Learn();
  setting.Learn();
  CHECK(setting.faults.learned.size() == 3);
  // And not at all for one that has ended.
  setting.Follow(2, python.number(1), 1, 0).exited_ns = 9;
  setting.Learn();
  CHECK(setting.faults.learned.size() == 3);
}

}  // namespace cowprof
