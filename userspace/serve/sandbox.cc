// Resource limits, then rights; the system call filter comes last, as it forbids the calls that the others make.
#include "serve/sandbox.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>

#include "absl/types/span.h"

namespace cowprof {
namespace {

// Far more than a recording needs (300 MB for a million samples); beyond it, fail rather than swap.
constexpr rlim_t kMaxDataBytes = rlim_t{2} << 30;

// Calls that sockets that are open, descriptors that come through them, the timeline's, memory and the clock need.
constexpr int kAllowed[] = {
    SCMP_SYS(poll),          SCMP_SYS(recvfrom),        SCMP_SYS(recvmsg),        SCMP_SYS(sendto),
    SCMP_SYS(nanosleep),     SCMP_SYS(clock_nanosleep), SCMP_SYS(accept4),        SCMP_SYS(read),
    SCMP_SYS(pread64),       SCMP_SYS(write),           SCMP_SYS(writev),         SCMP_SYS(sendmsg),
    SCMP_SYS(shutdown),      SCMP_SYS(close),           SCMP_SYS(setsockopt),     SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),    SCMP_SYS(epoll_pwait),     SCMP_SYS(ppoll),          SCMP_SYS(ppoll_time64),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_gettime64), SCMP_SYS(gettimeofday),   SCMP_SYS(time),
    SCMP_SYS(brk),           SCMP_SYS(munmap),          SCMP_SYS(mremap),         SCMP_SYS(madvise),
    SCMP_SYS(futex),         SCMP_SYS(getrandom),       SCMP_SYS(exit),           SCMP_SYS(exit_group),
    SCMP_SYS(rt_sigreturn),  SCMP_SYS(sigreturn),       SCMP_SYS(rt_sigprocmask), SCMP_SYS(restart_syscall)};
// Allowed unless they ask for executable memory.
constexpr int kAllowedUnlessExecutable[] = {SCMP_SYS(mmap), SCMP_SYS(mmap2), SCMP_SYS(mprotect)};

absl::Status StepError(const char* step) { return absl::ErrnoToStatus(errno, step); }

absl::Status FilterSystemCalls() {
  // EPERM rather than a kill: a library that can do without a call continues.
  CallFilter filter(SCMP_ACT_ERRNO(EPERM));
  filter.Allow(kAllowed);
  for (int call : kAllowedUnlessExecutable) filter.AllowIf(call, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  return filter.Load();
}

void BoundResources(size_t most_descriptors) {
  const auto bound = [](auto resource, rlim_t most) {
    const rlimit limit = {most, most};
    setrlimit(resource, &limit);  // lowering needs no privilege
  };
  bound(RLIMIT_CORE, 0);
  bound(RLIMIT_NOFILE, most_descriptors);
#ifndef __SANITIZE_ADDRESS__  // its shadow memory counts as data
  bound(RLIMIT_DATA, kMaxDataBytes);
#endif
}

}  // namespace

absl::StatusOr<std::string> EnterSandbox(const UserIds& user, size_t most_descriptors) {
  BoundResources(most_descriptors);
  absl::StatusOr<std::string> note = GiveUpRights(user, /*kept=*/0);
  if (!note.ok()) return note;
  // Changing the user resets both, so they come after it.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return StepError("forbid being traced");
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return StepError("die with the recorder");
  if (absl::Status status = FilterSystemCalls(); !status.ok()) return status;
  return note;
}

}  // namespace cowprof
