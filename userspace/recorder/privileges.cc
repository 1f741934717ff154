// The system calls that are allowed, and the capabilities that are kept. docs/privileges.md has both as tables.
#include "recorder/privileges.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "posix/rights.h"

namespace cowprof {
namespace {

// System calls for reading /proc, cgroups and BPF maps, and for writing to descriptors that are open already.
constexpr int kAllowed[] = {
    // files
    SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(pwrite64), SCMP_SYS(writev),
    SCMP_SYS(send), SCMP_SYS(sendto), SCMP_SYS(recv), SCMP_SYS(recvfrom), SCMP_SYS(close), SCMP_SYS(lseek),
    SCMP_SYS(_llseek), SCMP_SYS(dup), SCMP_SYS(ftruncate), SCMP_SYS(ftruncate64), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
    SCMP_SYS(fadvise64), SCMP_SYS(stat), SCMP_SYS(stat64), SCMP_SYS(lstat), SCMP_SYS(lstat64), SCMP_SYS(fstat),
    SCMP_SYS(fstat64), SCMP_SYS(newfstatat), SCMP_SYS(fstatat64), SCMP_SYS(statx), SCMP_SYS(statfs), SCMP_SYS(statfs64),
    SCMP_SYS(fstatfs), SCMP_SYS(fstatfs64), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
    SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(getcwd),
    // waiting
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(ppoll_time64), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_nanosleep_time64),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_gettime64), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(futex),
    SCMP_SYS(sched_yield), SCMP_SYS(wait4), SCMP_SYS(waitid), SCMP_SYS(pidfd_open), SCMP_SYS(restart_syscall),
    // signals; kill(2) is restricted below
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigreturn), SCMP_SYS(signalfd4),
    SCMP_SYS(sigaltstack),
    // memory
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
    // itself and the host
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getppid), SCMP_SYS(getpgrp), SCMP_SYS(getpgid), SCMP_SYS(getuid),
    SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getrusage), SCMP_SYS(getrandom), SCMP_SYS(uname),
    SCMP_SYS(sysinfo), SCMP_SYS(sched_getaffinity), SCMP_SYS(getcpu), SCMP_SYS(rseq), SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    // counters of a rung without tracepoints; without CAP_PERFMON it can no longer observe others
    SCMP_SYS(perf_event_open)};

// A terminal's size and echo, the page map, counters; not TIOCSTI, which injects input into the parent shell.
constexpr unsigned long kPagemapScan = 0xc0606610, kProcmapQuery = 0xc0686611;  // include/uapi/linux/fs.h, 6.7, 6.11
constexpr unsigned long kIoctls[] = {TCGETS,   TCSETS,   TCSETSW,    TCSETSF,   TCGETS2,      TCSETS2,
                                     TCSETSW2, TCSETSF2, TIOCGWINSZ, TIOCGPGRP, kPagemapScan, kProcmapQuery};
constexpr unsigned long kPerfIoctls = '$' << 8;
constexpr unsigned long kPidfdGetInfo = 0xff0b;  // without the size of its argument, which may grow; 6.13

// Not F_SETOWN, with which the kernel can be made to send signals.
constexpr int kFcntls[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL};

constexpr int kBpfCommands[] = {BPF_MAP_LOOKUP_ELEM,    BPF_MAP_UPDATE_ELEM,
                                BPF_MAP_DELETE_ELEM,    BPF_MAP_GET_NEXT_KEY,
                                BPF_MAP_LOOKUP_BATCH,   BPF_MAP_LOOKUP_AND_DELETE_ELEM,
                                BPF_LINK_CREATE,        BPF_ITER_CREATE,
                                BPF_LINK_DETACH,        BPF_MAP_LOOKUP_AND_DELETE_BATCH,
                                BPF_OBJ_GET_INFO_BY_FD, BPF_MAP_DELETE_BATCH};

// ENOSYS, because a libc falls back to an older call: another libc may make calls that nobody foresaw, and a profiler
// that its own filter kills is worse than one that lacks a call. Tests, which must find such calls, kill.
#ifdef COWPROF_FILTER_KILLS
constexpr uint32_t kOtherwise = SCMP_ACT_KILL_PROCESS;
#else
constexpr uint32_t kOtherwise = SCMP_ACT_ERRNO(ENOSYS);
#endif

absl::Status FilterSystemCalls(const Signalled& signalled) {
  CallFilter filter(kOtherwise);
  filter.Allow(kAllowed);
  // Reading only: descriptors that are open for writing keep working, but no file can be opened for writing.
  constexpr scmp_datum_t kWrites = O_ACCMODE | O_CREAT | O_TRUNC;
  filter.AllowIf(SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  filter.AllowIf(SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  for (int call : {SCMP_SYS(mmap), SCMP_SYS(mmap2), SCMP_SYS(mprotect)})
    filter.AllowIf(call, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  for (int call : {SCMP_SYS(fcntl), SCMP_SYS(fcntl64)}) {
    for (int command : kFcntls) filter.AllowIf(call, SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command)));
  }
  // CAP_KILL is meant for one process, not for all.
  for (pid_t pid : {getpid(), signalled.program, signalled.page_server}) {
    const scmp_arg_cmp is_pid = SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, static_cast<scmp_datum_t>(pid));
    if (pid > 0) filter.AllowIf(SCMP_SYS(kill), is_pid);
    if (pid == getpid()) filter.AllowIf(SCMP_SYS(tgkill), is_pid);
  }
  for (unsigned long request : kIoctls) filter.AllowIf(SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, request));
  filter.AllowIf(SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, 0xff00, kPerfIoctls));
  filter.AllowIf(SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffff, kPidfdGetInfo));
  for (int command : kBpfCommands)
    filter.AllowIf(SCMP_SYS(bpf), SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command)));
  // Reading its own limits and the target's; a non-null third argument would set a limit.
  filter.AllowIf(SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0));
  filter.Allow({SCMP_SYS(getrlimit), SCMP_SYS(ugetrlimit)});
  // To end with the recorder, for processes that it forks: set after this, since a change of user resets it.
  filter.AllowIf(SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG));
  return filter.Load();
}

// With unprivileged_bpf_disabled set, kernels before 5.19 (c8644cd0efe7) require CAP_BPF for every bpf(2), later ones
// only to create maps and load programs. A call with an invalid map tells: EPERM or EBADF.
bool BpfNeedsCapability(CapabilitySet without) {
  const CapabilitySet held = EffectiveCapabilities();
  if (!SetEffective(without).ok()) return true;
  bpf_attr attributes = {};
  attributes.map_fd = static_cast<__u32>(-1);
  const bool refused = syscall(SYS_bpf, BPF_MAP_GET_NEXT_KEY, &attributes, sizeof(attributes)) != 0 && errno == EPERM;
  static_cast<void>(SetEffective(held));
  return refused;
}

// CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH: memory, page maps and descriptors of other users' processes, present and
// future. CAP_SYS_ADMIN: page frames, which a page map opened without it hides. It stays effective instead of being
// raised for each open(): code injected here could raise it as well, and the filter restricts it to reading anyway.
// CAP_IPC_LOCK: after mlockall(MCL_FUTURE), memory beyond RLIMIT_MEMLOCK can't be allocated without it.
CapabilitySet NeededCapabilities(bool signals_program) {
  CapabilitySet kept = SetOf({CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYS_ADMIN, CAP_IPC_LOCK});
  // The program may keep running as root when cowprof does not.
  if (signals_program) kept |= SetOf({CAP_KILL});
  if (BpfNeedsCapability(kept & ~SetOf({CAP_SYS_ADMIN}))) kept |= SetOf({kCapBpf, kCapPerfmon});
  return kept;
}

// If root called, why not stay user 0 without capabilities: root's files could still be read and written. Another
// process of user nobody can end the recording, but nothing else: it can't trace a process that has capabilities which
// it lacks.
std::vector<std::string> GiveUp(const Signalled& signalled, CapabilitySet needed) {
  std::vector<std::string> notes;
  const auto note = [&](absl::string_view what) {
    notes.push_back(absl::StrCat("give up privileges: ", what, "; recording continues"));
  };
  const CapabilitySet kept = WithWhatRootLacks(needed);
  const UserIds user = kept == needed ? LesserUser() : UserIds{0, 0};
  absl::StatusOr<std::string> given_up = GiveUpRights(user, kept);
  if (!given_up.ok()) {
    note(given_up.status().message());
  } else if (!given_up->empty()) {
    note(*given_up);
  }
#ifndef __SANITIZE_ADDRESS__  // its leak check forks and traces
  if (absl::Status status = FilterSystemCalls(signalled); !status.ok()) note(status.message());
#endif
  return notes;
}

}  // namespace

std::vector<std::string> GiveUpPrivileges(const Signalled& signalled) {
  return GiveUp(signalled, NeededCapabilities(signalled.program != 0));
}

std::vector<std::string> GiveUpPrivilegesOfScanner() {
  return GiveUp({}, SetOf({CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH}));
}

void GiveUpCapabilities() {
  if (geteuid() != 0) static_cast<void>(GiveUpRights(LesserUser(), 0));
}

}  // namespace cowprof
