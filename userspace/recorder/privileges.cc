// See privileges.h. What each capability gives is a table of docs/privileges.md.
#include "privileges.h"

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

// What a reader of /proc, of cgroups and of BPF maps does, and a writer of descriptors that stand open.
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
    // signals; to whom: below
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigreturn), SCMP_SYS(signalfd4),
    SCMP_SYS(sigaltstack),
    // memory
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(process_vm_readv),
    // itself and the host
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getppid), SCMP_SYS(getpgrp), SCMP_SYS(getpgid), SCMP_SYS(getuid),
    SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getrusage), SCMP_SYS(getrandom), SCMP_SYS(uname),
    SCMP_SYS(sysinfo), SCMP_SYS(sched_getaffinity), SCMP_SYS(getcpu), SCMP_SYS(rseq), SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    // counters of a rung without tracepoints; CAP_PERFMON is gone by now, and so is what it gives
    SCMP_SYS(perf_event_open)};

// A terminal's size and echo, the page map, counters; not TIOCSTI, which types into the shell that started us.
constexpr unsigned long kPagemapScan = 0xc0606610, kProcmapQuery = 0xc0686611;  // include/uapi/linux/fs.h, 6.7, 6.11
constexpr unsigned long kIoctls[] = {TCGETS,   TCSETS,   TCSETSW,    TCSETSF,   TCGETS2,      TCSETS2,
                                     TCSETSW2, TCSETSF2, TIOCGWINSZ, TIOCGPGRP, kPagemapScan, kProcmapQuery};
constexpr unsigned long kPerfIoctls = '$' << 8;
constexpr unsigned long kPidfdGetInfo = 0xff0b;  // without the size of its argument, which grows; 6.13

// Not F_SETOWN, by which the kernel sends signals for whoever asks it to.
constexpr int kFcntls[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL};

constexpr int kBpfCommands[] = {BPF_MAP_LOOKUP_ELEM,    BPF_MAP_UPDATE_ELEM,
                                BPF_MAP_DELETE_ELEM,    BPF_MAP_GET_NEXT_KEY,
                                BPF_MAP_LOOKUP_BATCH,   BPF_MAP_LOOKUP_AND_DELETE_ELEM,
                                BPF_LINK_CREATE,        BPF_ITER_CREATE,
                                BPF_LINK_DETACH,        BPF_MAP_LOOKUP_AND_DELETE_BATCH,
                                BPF_OBJ_GET_INFO_BY_FD, BPF_MAP_DELETE_BATCH};

// What a libc finds missing, it does in an older way: with another one there may be calls that nobody foresaw, and a
// profiler that its own filter kills is worth less than one whose filter has a gap. Tests want to find such calls.
#ifdef COWPROF_FILTER_KILLS
constexpr uint32_t kOtherwise = SCMP_ACT_KILL_PROCESS;
#else
constexpr uint32_t kOtherwise = SCMP_ACT_ERRNO(ENOSYS);
#endif

absl::Status FilterSystemCalls(const Signalled& signalled) {
  CallFilter filter(kOtherwise);
  filter.Allow(kAllowed);
  // Only to read. What stands open may be written; no file can become so.
  constexpr scmp_datum_t kWrites = O_ACCMODE | O_CREAT | O_TRUNC;
  filter.AllowIf(SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  filter.AllowIf(SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  for (int call : {SCMP_SYS(mmap), SCMP_SYS(mmap2), SCMP_SYS(mprotect)})
    filter.AllowIf(call, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  for (int call : {SCMP_SYS(fcntl), SCMP_SYS(fcntl64)}) {
    for (int command : kFcntls) filter.AllowIf(call, SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command)));
  }
  // CAP_KILL is for one process, not for all.
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
  // Its own limits and those of the target; a limit is set by a pointer that is not null.
  filter.AllowIf(SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0));
  filter.Allow({SCMP_SYS(getrlimit), SCMP_SYS(ugetrlimit)});
  return filter.Load();
}

// Kernels before 5.19 (c8644cd0efe7) ask for CAP_BPF at every bpf(2) where unprivileged_bpf_disabled is set; since then
// only to make maps and load programs. A call on no map tells which: EPERM or EBADF.
bool BpfNeedsCapability(CapabilitySet without) {
  const CapabilitySet held = EffectiveCapabilities();
  if (!SetEffective(without).ok()) return true;
  bpf_attr attributes = {};
  attributes.map_fd = static_cast<__u32>(-1);
  const bool refused = syscall(SYS_bpf, BPF_MAP_GET_NEXT_KEY, &attributes, sizeof(attributes)) != 0 && errno == EPERM;
  static_cast<void>(SetEffective(held));
  return refused;
}

// CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH: memory, page maps, descriptors of other users' processes, now and of those to
// come. CAP_SYS_ADMIN: page frames, hidden from whoever opens a page map without it. It stays effective instead of
// being raised for each open: who runs code in here could raise it as well, and the filter leaves it nothing to do but
// read. CAP_IPC_LOCK: with mlockall(MCL_FUTURE), later memory beyond RLIMIT_MEMLOCK is refused without it.
CapabilitySet NeededCapabilities(bool signals_program) {
  CapabilitySet kept = SetOf({CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYS_ADMIN, CAP_IPC_LOCK});
  // The program stays root's where we don't.
  if (signals_program) kept |= SetOf({CAP_KILL});
  if (BpfNeedsCapability(kept & ~SetOf({CAP_SYS_ADMIN}))) kept |= SetOf({kCapBpf, kCapPerfmon});
  return kept;
}

}  // namespace

// Why not user 0 without capabilities, where root itself called: root's files would still be its own to read and to
// write. A stranger that is nobody, too, can end the recording, no more: a process with capabilities that the stranger
// lacks can't be traced by it.
std::vector<std::string> GiveUpPrivileges(const Signalled& signalled) {
  std::vector<std::string> notes;
  const auto note = [&](absl::string_view what) {
    notes.push_back(absl::StrCat("give up privileges: ", what, "; recording goes on"));
  };
  absl::StatusOr<std::string> given_up = GiveUpRights(LesserUser(), NeededCapabilities(signalled.program != 0));
  if (!given_up.ok()) {
    note(given_up.status().message());
  } else if (!given_up->empty()) {
    note(*given_up);
  }
#ifndef __SANITIZE_ADDRESS__  // whose leak check forks and traces
  if (absl::Status status = FilterSystemCalls(signalled); !status.ok()) note(status.message());
#endif
  return notes;
}

void GiveUpCapabilities() {
  if (geteuid() != 0) static_cast<void>(GiveUpRights(LesserUser(), 0));
}

}  // namespace cowprof
