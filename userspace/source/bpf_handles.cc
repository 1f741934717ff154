// Reduces libbpf's multi-line warnings and verifier logs to one line.
#include "source/bpf_handles.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace cowprof {
namespace {

// libbpf explains failures only through its print callback: keep the last warning for the message.
std::string& LastWarning() {
  static std::string text;
  return text;
}

std::string Format(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  std::string text(std::max(0, vsnprintf(nullptr, 0, format, again)), '\0');
  va_end(again);
  vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

// "prog 'NAME': -- BEGIN PROG LOAD LOG --", many lines, the refusal, "processed N insns ...", "-- END PROG LOAD LOG
// --".
std::string RefusalIn(absl::string_view log) {
  absl::string_view before = absl::StripAsciiWhitespace(log.substr(0, log.find("processed ")));
  before = before.substr(0, before.find("-- END PROG LOAD LOG"));
  before = absl::StripTrailingAsciiWhitespace(before);
  return absl::StrCat(log.substr(0, log.find(':')), ": ", before.substr(before.rfind('\n') + 1));
}

int KeepWarning(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN) return 0;
  const std::string formatted = Format(format, arguments);
  const absl::string_view text = absl::StripPrefix(formatted, "libbpf: ");
  // Failing to raise RLIMIT_MEMLOCK is harmless: since Linux 5.11 BPF memory is charged to the cgroup.
  if (absl::StrContains(text, "RLIMIT_MEMLOCK")) return 0;
  if (absl::StrContains(text, "BEGIN PROG LOAD LOG")) {
    LastWarning() = RefusalIn(text);
  } else if (!absl::StartsWith(LastWarning(),
                               "prog '")) {  // what the verifier said is told; what failed with it adds nothing
    const absl::string_view one_line = absl::StripAsciiWhitespace(text);
    LastWarning() = std::string(one_line.substr(0, one_line.find('\n')));
  }
  return 0;
}

}  // namespace

absl::Status RingWatch::Watch(std::initializer_list<const bpf_map*> rings) {
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.ok()) return BpfStatus(errno, "make an epoll instance");
  for (const bpf_map* ring : rings) {
    epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {}};
    if (epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, bpf_map__fd(ring), &event) != 0)
      return BpfStatus(errno, "wait for the ring buffers");
  }
  return absl::OkStatus();
}

void RingWatch::Take() const {
  epoll_event taken[2];
  epoll_wait(epoll_.fd(), taken, std::size(taken), 0);
}

void KeepWarnings() {
  libbpf_set_print(KeepWarning);
  LastWarning().clear();
}

absl::Status BpfStatus(int error, absl::string_view attempted) {
  std::string message = absl::StrCat(attempted, ": ", strerror(error));
  if (!LastWarning().empty()) absl::StrAppend(&message, " (", LastWarning(), ")");
  return absl::Status(absl::ErrnoToStatusCode(error), message);
}

absl::StatusOr<std::string> RunIterator(bpf_program* program) {
  const std::string name = absl::StrCat("iter/task ", bpf_program__name(program));
  std::unique_ptr<bpf_link, decltype(&bpf_link__destroy)> link(bpf_program__attach_iter(program, nullptr),
                                                               &bpf_link__destroy);
  if (link == nullptr) return BpfStatus(errno, absl::StrCat("attach ", name));
  Fd fd(bpf_iter_create(bpf_link__fd(link.get())));
  if (!fd.ok()) return BpfStatus(errno, absl::StrCat("start ", name));
  std::string bytes;
  char chunk[16384];
  for (;;) {
    const ssize_t got = read(fd.fd(), chunk, sizeof(chunk));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return BpfStatus(errno, absl::StrCat("read ", name));
    if (got == 0) return bytes;
    bytes.append(chunk, got);
  }
}

}  // namespace cowprof
