// The order matters: groups before the user, capabilities after it, the filter of system calls last. See sandbox.h.
#include "serve/sandbox.h"

#include <grp.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

// Far above what a recording takes (300 MB for a million samples); what would need more is stopped, not swapped.
constexpr rlim_t kMaxDataBytes = rlim_t{2} << 30;
constexpr rlim_t kMaxDescriptors = 128;

// What is used of a socket, the timeline's descriptor, memory and the clock.
constexpr int kAllowed[] = {SCMP_SYS(accept4),        SCMP_SYS(accept),         SCMP_SYS(read),
                            SCMP_SYS(readv),          SCMP_SYS(recvfrom),       SCMP_SYS(recvmsg),
                            SCMP_SYS(recv),           SCMP_SYS(pread64),        SCMP_SYS(write),
                            SCMP_SYS(writev),         SCMP_SYS(sendto),         SCMP_SYS(sendmsg),
                            SCMP_SYS(send),           SCMP_SYS(shutdown),       SCMP_SYS(close),
                            SCMP_SYS(setsockopt),     SCMP_SYS(getsockopt),     SCMP_SYS(fcntl),
                            SCMP_SYS(fcntl64),        SCMP_SYS(epoll_ctl),      SCMP_SYS(epoll_wait),
                            SCMP_SYS(epoll_pwait),    SCMP_SYS(poll),           SCMP_SYS(ppoll),
                            SCMP_SYS(ppoll_time64),   SCMP_SYS(clock_gettime),  SCMP_SYS(clock_gettime64),
                            SCMP_SYS(gettimeofday),   SCMP_SYS(time),           SCMP_SYS(brk),
                            SCMP_SYS(munmap),         SCMP_SYS(mremap),         SCMP_SYS(madvise),
                            SCMP_SYS(futex),          SCMP_SYS(getrandom),      SCMP_SYS(exit),
                            SCMP_SYS(exit_group),     SCMP_SYS(rt_sigreturn),   SCMP_SYS(sigreturn),
                            SCMP_SYS(rt_sigprocmask), SCMP_SYS(restart_syscall)};
// Memory, but never to be executed.
constexpr int kAllowedUnlessExecutable[] = {SCMP_SYS(mmap), SCMP_SYS(mmap2), SCMP_SYS(mprotect)};

absl::Status StepError(const char* step) { return absl::ErrnoToStatus(errno, step); }

void BoundResources() {
  const auto bound = [](auto resource, rlim_t most) {
    const rlimit limit = {most, most};
    setrlimit(resource, &limit);  // lowering never needs a right
  };
  bound(RLIMIT_CORE, 0);
  bound(RLIMIT_NOFILE, kMaxDescriptors);
#ifndef __SANITIZE_ADDRESS__  // its shadow memory counts as data
  bound(RLIMIT_DATA, kMaxDataBytes);
#endif
}

// "", or what could not be done.
std::string BecomeUser(uid_t uid, gid_t gid) {
  // Without CAP_SETPCAP this can't be done, and need not: no_new_privs keeps the set from ever being used.
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  if (geteuid() != 0) return "";
  if (setgroups(0, nullptr) == 0 && setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0) return "";
  // In a user namespace that has no other user (EINVAL) or no say over groups (EPERM), "root" is but a name.
  return absl::StrCat("become user ", uid, ": ", strerror(errno), "; it stays user 0, without any capability");
}

absl::Status DropCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) != 0) return StepError("drop all capabilities");
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);  // follows from the empty set; older kernels have none
  return absl::OkStatus();
}

absl::Status FilterSystemCalls() {
  // Whatever is not allowed fails with EPERM: a library that tries and can do without goes on.
  const std::unique_ptr<void, void (*)(void*)> filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)), seccomp_release);
  if (filter == nullptr) return absl::InternalError("filter system calls: libseccomp can't");
  int failed = 0;
  for (int call : kAllowed) {
    // A call that this machine does not have needs no rule.
    const int result = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0);
    if (result != 0 && result != -EDOM) failed = result;
  }
  for (int call : kAllowedUnlessExecutable) {
    const int result =
        seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (result != 0 && result != -EDOM) failed = result;
  }
  if (failed == 0) failed = seccomp_load(filter.get());
  return failed == 0 ? absl::OkStatus() : absl::ErrnoToStatus(-failed, "filter system calls (seccomp)");
}

}  // namespace

absl::StatusOr<std::string> EnterSandbox(uid_t uid, gid_t gid) {
  BoundResources();
  std::string note = BecomeUser(uid, gid);
  if (absl::Status status = DropCapabilities(); !status.ok()) return status;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return StepError("give up new privileges (no_new_privs)");
  // Both are reset by a change of the user: hence after it.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return StepError("forbid being traced");
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return StepError("die with the recorder");
  if (absl::Status status = FilterSystemCalls(); !status.ok()) return status;
  return note;
}

}  // namespace cowprof
