// A frame is its length and its bytes. The first one is the path; each later one is a text, and is answered by a byte
// if it was written, otherwise by a sentence.
#include "sink/metrics/metrics_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "posix/clock.h"
#include "posix/invoking_user.h"
#include "posix/keep_only.h"
#include "posix/output_file.h"
#include "posix/rights.h"

namespace cowprof {
namespace {

constexpr OutputStyle kStyle = {.mode = 0644, .flag = "--metrics-file"};  // node_exporter has a user of its own
constexpr char kWritten = '+';
constexpr uint32_t kMostBytes = 16 << 20, kEnd = UINT32_MAX;  // of a frame; instead of a length: no more will come
constexpr absl::Duration kPatience = absl::Seconds(5);        // with the process, at the start and at the end

constexpr int kAllowed[] = {
    SCMP_SYS(read),           SCMP_SYS(recvfrom),       SCMP_SYS(sendto),       SCMP_SYS(write),
    SCMP_SYS(pwrite64),       SCMP_SYS(close),          SCMP_SYS(dup),          SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),     SCMP_SYS(fstatat64),      SCMP_SYS(statx),        SCMP_SYS(fchmod),
    SCMP_SYS(rename),         SCMP_SYS(renameat),       SCMP_SYS(renameat2),    SCMP_SYS(unlinkat),
    SCMP_SYS(geteuid),        SCMP_SYS(getuid),         SCMP_SYS(getrandom),    SCMP_SYS(brk),
    SCMP_SYS(munmap),         SCMP_SYS(mremap),         SCMP_SYS(madvise),      SCMP_SYS(futex),
    SCMP_SYS(exit),           SCMP_SYS(exit_group),     SCMP_SYS(rt_sigreturn), SCMP_SYS(sigreturn),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(restart_syscall)};

// Files can be opened only to be created, and folders only to be named in other calls.
absl::Status FilterSystemCalls() {
  CallFilter filter(SCMP_ACT_ERRNO(EPERM));
  filter.Allow(kAllowed);
  for (int call : {SCMP_SYS(mmap), SCMP_SYS(mmap2), SCMP_SYS(mprotect)})
    filter.AllowIf(call, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  const auto allow_open = [&](int flags) {
    const auto wanted = static_cast<scmp_datum_t>(flags);
    filter.AllowIf(SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, wanted, wanted));
    filter.AllowIf(SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, wanted, wanted));
  };
  allow_open(O_CREAT | O_EXCL | O_NOFOLLOW);
  allow_open(O_PATH | O_DIRECTORY);
  return filter.Load();
}

// As the user who called sudo, if one did, with their groups; root stays root, whose files it replaces, with the one
// capability that writing to another user's folder takes.
absl::Status GiveUpMost() {
  const std::optional<UserIds> caller = InvokedBySudo();
  const UserIds user = caller.value_or(UserIds{geteuid(), getegid()});
  const CapabilitySet kept = user.uid == 0 ? SetOf({CAP_DAC_OVERRIDE}) : 0;
  const std::vector<gid_t> groups = caller ? GroupsOfInvokingUser(*caller) : std::vector<gid_t>();
  if (absl::StatusOr<std::string> note = GiveUpRights(user, kept, groups); !note.ok()) return note.status();
#ifndef __SANITIZE_ADDRESS__  // its leak check forks and traces
  return FilterSystemCalls();
#else
  return absl::OkStatus();
#endif
}

bool ReadFully(int socket, char* out, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(socket, out, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got;
    bytes -= got;
  }
  return true;
}

// nullopt: that was the last one, or the recorder is gone.
std::optional<std::string> ReadFrame(int socket) {
  uint32_t size = 0;
  if (!ReadFully(socket, reinterpret_cast<char*>(&size), sizeof(size)) || size > kMostBytes) return std::nullopt;
  std::string frame(size, '\0');
  if (!ReadFully(socket, frame.data(), size)) return std::nullopt;
  return frame;
}

void Answer(int socket, absl::string_view words) { send(socket, words.data(), words.size(), MSG_NOSIGNAL); }

// Runs in the process from its fork to its end.
void WriteTexts(int socket) {
  if (absl::Status status = GiveUpMost(); !status.ok()) {
    Answer(socket, status.message());
    return;
  }
  const std::optional<std::string> path = ReadFrame(socket);
  if (!path) return;
  while (const std::optional<std::string> text = ReadFrame(socket)) {
    const absl::Status status = ReplaceOutputFile(*path, *text, kStyle);
    Answer(socket, status.ok() ? absl::string_view(&kWritten, 1) : status.message());
  }
}

// What some answers say of a failure; "": all was written.
absl::string_view FailureIn(absl::string_view answers) {
  while (absl::ConsumePrefix(&answers, {&kWritten, 1}) || absl::ConsumeSuffix(&answers, {&kWritten, 1})) {
  }
  return answers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsFile>> MetricsFile::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ErrnoToStatus(errno, "create a socket pair");
  Fd ours(ends[0]), theirs(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork the process that writes metrics");
  if (pid == 0) {
    WriteTexts(KeepOnly(theirs.fd()));
    _exit(0);
  }
  return std::unique_ptr<MetricsFile>(new MetricsFile(pid, std::move(ours)));
}

MetricsFile::~MetricsFile() { Reap(); }

void MetricsFile::Reap() {
  socket_.Close();
  const pid_t pid = std::exchange(pid_, 0);
  if (pid == 0) return;
  for (const absl::Duration end = BootTime() + absl::Seconds(1); waitpid(pid, nullptr, WNOHANG) == 0;) {
    if (BootTime() >= end) return;
    absl::SleepFor(absl::Milliseconds(2));
  }
}

void MetricsFile::Queue(absl::string_view text) {
  const auto size = static_cast<uint32_t>(text.size());
  unsent_.append(reinterpret_cast<const char*>(&size), sizeof(size));
  absl::StrAppend(&unsent_, text);
}

bool MetricsFile::Flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = send(socket_.fd(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) break;  // Listen() says that it is gone
    if (sent <= 0) return false;
    unsent_.erase(0, sent);
  }
  unsent_.clear();
  return true;
}

// The first failure that was answered. `finish`: waits for the last answer.
std::string MetricsFile::Listen(bool finish) {
  std::string answers;
  const absl::Duration end = BootTime() + (finish ? kPatience : absl::ZeroDuration());
  for (;;) {
    char piece[1024];
    ssize_t bytes = recv(socket_.fd(), piece, sizeof(piece), MSG_DONTWAIT);
    if (bytes < 0 && errno == ECONNRESET) bytes = 0;
    if (bytes > 0) answers.append(piece, bytes);
    if (bytes == 0 && !finish) answers = "the process that writes it is gone";
    if (bytes == 0 || (bytes < 0 && BootTime() >= end)) break;
    pollfd news = {socket_.fd(), POLLIN, 0};
    if (bytes < 0) poll(&news, 1, /*ms=*/50);
  }
  const absl::string_view failure = FailureIn(answers);
  if (failure.empty() || std::exchange(told_, true)) return "";
  return absl::StrCat("--metrics-file: ", failure, finish ? "" : "; recording continues");
}

absl::Status MetricsFile::Open(const std::string& path, absl::string_view text) {
  Queue(path);
  Queue(text);
  pollfd news = {socket_.fd(), POLLIN, 0};
  char words[1024];
  ssize_t bytes = 0;
  if (Flush() && poll(&news, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) > 0)
    bytes = recv(socket_.fd(), words, sizeof(words), MSG_DONTWAIT);
  const absl::string_view answer(words, std::max<ssize_t>(bytes, 0));
  if (!answer.empty() && FailureIn(answer).empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("--metrics-file: ", answer.empty() ? "the process that writes it does not answer" : answer));
}

std::string MetricsFile::Write(absl::string_view text) {
  std::string failure = Listen(/*finish=*/false);
  if (Flush()) {
    Queue(text);
    Flush();
  }
  return failure;
}

std::string MetricsFile::Finish(absl::string_view text) {
  bool queued = false;
  for (const absl::Duration end = BootTime() + kPatience; BootTime() < end; absl::SleepFor(absl::Milliseconds(2))) {
    if (!Flush()) continue;
    if (std::exchange(queued, true)) break;
    Queue(text);
    unsent_.append(reinterpret_cast<const char*>(&kEnd), sizeof(kEnd));
  }
  std::string failure = Listen(/*finish=*/true);  // until the process has ended
  Reap();
  return failure;
}

}  // namespace cowprof
