// Sends all roots whenever they have changed, as one packet.
#include "watch/scanner.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/facts/run_model.h"
#include "model/format.h"
#include "posix/clock.h"
#include "posix/exit_status.h"
#include "recorder/privileges.h"
#include "watch/process_scan.h"

namespace cowprof {
namespace {

constexpr absl::Duration kLeastGap = absl::Seconds(1);  // between two scans
constexpr int kShareOfCpu = 100;                        // at most a hundredth of a CPU goes to scans
constexpr absl::Duration kStuck = absl::Seconds(10);

absl::string_view WordsOf(Why why) {
  switch (why) {
    case Why::kRank:
      return "its environment has a rank";
    case Why::kForks:
      return "it keeps workers";
    case Why::kMatch:
      return "its command line matches";
  }
  return "";
}

void SayNew(const std::vector<Root>& before, const std::vector<Root>& now, const ProcessScan& scan) {
  for (const Root& root : now) {
    const auto same = [&](const Root& other) { return other.id == root.id; };
    if (std::any_of(before.begin(), before.end(), same)) continue;
    Fail(kDone, absl::StrCat("found process ", root.id.pid, " (", Printable(scan.NameOf(root.id.pid), 80),
                             "): ", WordsOf(root.why)));
  }
}

// Runs until the starter is gone.
template <typename Looking>
void RunScans(int socket, ScanSettings settings, bool quiet, const Looking& looking) {
  ProcessScan scan(std::move(settings), looking);
  std::vector<Root> known;
  for (;;) {
    const absl::Duration began = ReadClock(CLOCK_PROCESS_CPUTIME_ID);
    std::vector<Root> roots = scan.Scan(BootTime());
    roots.resize(std::min(roots.size(), kMostRoots));
    if (roots != known) {
      if (!quiet) SayNew(known, roots, scan);
      if (send(socket, roots.data(), roots.size() * sizeof(Root), MSG_NOSIGNAL) < 0) return;
      known = std::move(roots);
    }
    const absl::Duration cost = ReadClock(CLOCK_PROCESS_CPUTIME_ID) - began;
    pollfd end = {socket, 0, 0};  // POLLHUP comes unasked
    if (poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(std::max(kLeastGap, kShareOfCpu * cost)))) > 0) return;
  }
}

}  // namespace

Scanner::Scanner(Settings settings) : settings_(std::move(settings)) {}

Scanner::~Scanner() {
  socket_.Close();
  stuck_.Tidy();
  if (pid_ > 0) waitpid(pid_, nullptr, WNOHANG);
}

absl::Status Scanner::Start() {
  const auto failed = [this] {
    const absl::Status status = absl::ErrnoToStatus(errno, "start the process that looks for training runs");
    Leave();
    return status;
  };
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return failed();
  socket_ = Fd(ends[0]);
  Fd theirs(ends[1]);
  // A process that is stuck keeps its own.
  void* shared = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return failed();
  shared_ = new (shared) Shared();
  const pid_t starter = getpid(), pid = fork();
  if (pid < 0) return failed();
  if (pid > 0) {
    pid_ = pid;
    return absl::OkStatus();
  }
  dup2(theirs.fd(), STDERR_FILENO + 1);
  closefrom(STDERR_FILENO + 2);
  prctl(PR_SET_NAME, "cowprof-scan");
  for (const std::string& note : GiveUpPrivilegesOfScanner()) {
    if (!settings_.quiet) Fail(kDone, absl::StrCat("the process that looks for training runs: ", note));
  }
  ScanSettings settings = {.match = settings_.match, .self = starter, .avoid = {}};
  settings.avoid.insert(stuck_.targets().begin(), stuck_.targets().end());
  RunScans(STDERR_FILENO + 1, std::move(settings), settings_.quiet, [this](pid_t pid) {
    shared_->since_ns = absl::ToInt64Nanoseconds(BootTime());
    shared_->looking = pid;
  });
  _exit(0);
}

Scanner::News Scanner::Read(std::vector<Root>* roots, std::string* reason) {
  std::vector<Root> packet(kMostRoots);
  const ssize_t bytes = recv(socket_.fd(), packet.data(), packet.size() * sizeof(Root), MSG_DONTWAIT | MSG_TRUNC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return News::kNone;
  int status = 0;
  // A packet of no roots has no bytes either; then the process lives.
  if (bytes < 0 || (bytes == 0 && waitpid(pid_, &status, WNOHANG) == pid_)) {
    pid_ = 0;
    const Exit exit = ExitOf(status);
    *reason = exit.signaled ? absl::StrCat("was killed by ", SignalName(exit.signal))
                            : absl::StrCat("ended with status ", exit.code);
    return News::kGone;
  }
  const auto count = static_cast<size_t>(bytes) / sizeof(Root);
  if (static_cast<size_t>(bytes) != count * sizeof(Root) || count > kMostRoots) return News::kNone;
  packet.resize(count);
  *roots = std::move(packet);
  return News::kRoots;
}

void Scanner::Leave() {
  socket_.Close();
  if (shared_ != nullptr) munmap(std::exchange(shared_, nullptr), sizeof(Shared));
  pid_ = 0;
}

std::string Scanner::Tick(absl::Duration now) {
  stuck_.Tidy();
  std::string sentence;
  if (pid_ > 0) {
    const pid_t target = shared_->looking;
    if (target == 0 || now - absl::Nanoseconds(shared_->since_ns.load()) < kStuck) return "";
    stuck_.Add(pid_, target);
    Leave();
    sentence = absl::StrCat("a look at process ", target, " does not return; that process is left out");
    if (stuck_.full())
      absl::StrAppend(&sentence, ", and no other is found until one of ", kMostStuckScanners, " such looks does");
  }
  if (stuck_.full()) return sentence;
  const absl::Status status = Start();
  if (!status.ok() && !sentence.empty()) absl::StrAppend(&sentence, ", and no other is found: ", status.message());
  return sentence;
}

}  // namespace cowprof
