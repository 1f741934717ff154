// See bpf_handles.h.
#include "source/bpf_handles.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "absl/strings/ascii.h"
#include "posix/fd.h"

namespace cowprof {
namespace {

// libbpf explains itself through a print function only: its first warning becomes part of our message. Those that follow
// say what fails in consequence.
std::string& FirstWarning() {
  static std::string text;
  return text;
}

int KeepWarning(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN) return 0;
  char line[512];
  vsnprintf(line, sizeof(line), format, arguments);
  // A failed raise of RLIMIT_MEMLOCK is no failure: kernels since 5.11 charge BPF memory to the cgroup.
  if (FirstWarning().empty() && strstr(line, "RLIMIT_MEMLOCK") == nullptr) {
    const absl::string_view one_line = absl::StripAsciiWhitespace(line);
    FirstWarning() = std::string(one_line.substr(0, one_line.find('\n')));
  }
  return 0;
}

}  // namespace

void KeepWarnings() {
  libbpf_set_print(KeepWarning);
  FirstWarning().clear();
}

absl::Status BpfStatus(int error, absl::string_view attempted) {
  std::string message = absl::StrCat(attempted, ": ", strerror(error));
  if (!FirstWarning().empty()) absl::StrAppend(&message, " (", FirstWarning(), ")");
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
