// Drops rights in the order that the kernel requires: groups, then the user, then capabilities.
#include "posix/rights.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

constexpr uid_t kNobody = 65534;

struct CapabilityWords {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};  // the low 32 capabilities, then the high ones
  bool Read() { return syscall(SYS_capget, &header, data) == 0; }
  bool Write() { return syscall(SYS_capset, &header, data) == 0; }
};

absl::Status StepError(const char* step) { return absl::ErrnoToStatus(errno, step); }

void DropBoundingSet(CapabilitySet but = 0) {
  // Fails without CAP_SETPCAP, which is harmless: no_new_privs keeps the bounding set from ever mattering.
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if ((but >> capability & 1) == 0) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
}

// Returns what could not be done, or "".
std::string BecomeUser(const UserIds& user, absl::Span<const gid_t> groups) {
  if (geteuid() != 0 || user.uid == 0) return "";
  if (setgroups(groups.size(), groups.data()) == 0 && setresgid(user.gid, user.gid, user.gid) == 0 &&
      setresuid(user.uid, user.uid, user.uid) == 0)
    return "";
  // In a user namespace that maps no other user (EINVAL) or may not set groups (EPERM), "root" has no special rights.
  return absl::StrCat("become user ", user.uid, ": ", strerror(errno),
                      "; it stays user 0, without the capabilities that it no longer needs");
}

}  // namespace

std::optional<UserIds> InvokedBySudo() {
  const char* uid = getenv("SUDO_UID");
  const char* gid = getenv("SUDO_GID");
  UserIds user;
  if (geteuid() != 0 || uid == nullptr || gid == nullptr || !absl::SimpleAtoi(uid, &user.uid) ||
      !absl::SimpleAtoi(gid, &user.gid))
    return std::nullopt;
  return user;
}

UserIds LesserUser() {
  if (geteuid() != 0) return {geteuid(), getegid()};
  const std::optional<UserIds> user = InvokedBySudo();
  return user && user->uid != 0 ? *user : UserIds{kNobody, kNobody};
}

CapabilitySet EffectiveCapabilities() {
  CapabilityWords words;
  if (!words.Read()) return 0;
  return words.data[0].effective | CapabilitySet{words.data[1].effective} << 32;
}

CapabilitySet WithWhatRootLacks(CapabilitySet needed) {
  const CapabilitySet held = EffectiveCapabilities();
  if (geteuid() != 0) return needed;
  if ((held & SetOf({CAP_SYS_PTRACE})) == 0) return needed | held;
  // Nor can it signal, without CAP_KILL, its own processes that are other users.
  if ((held & SetOf({CAP_DAC_READ_SEARCH})) == 0) return needed | SetOf({CAP_DAC_OVERRIDE, CAP_KILL});
  return needed;
}

absl::Status SetEffective(CapabilitySet set) {
  CapabilityWords words;
  if (!words.Read()) return StepError("read the capabilities");
  for (int i = 0; i < 2; ++i) words.data[i].effective = words.data[i].permitted & static_cast<uint32_t>(set >> 32 * i);
  return words.Write() ? absl::OkStatus() : StepError("lower capabilities");
}

absl::Status LimitCapabilities(CapabilitySet set) {
  DropBoundingSet(set);
  CapabilityWords words;
  if (!words.Read()) return StepError("read the capabilities");
  for (int i = 0; i < 2; ++i) {
    const auto most = static_cast<uint32_t>(set >> 32 * i);
    words.data[i].effective &= most;
    words.data[i].permitted &= most;
    words.data[i].inheritable &= most;  // and so the ambient set
  }
  if (!words.Write()) return StepError("drop capabilities");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return StepError("give up new privileges (no_new_privs)");
  return absl::OkStatus();
}

absl::Status KeepCapabilities(CapabilitySet set) {
  CapabilityWords words;
  if (!words.Read()) return StepError("read the capabilities");
  for (int i = 0; i < 2; ++i) {
    words.data[i].effective = words.data[i].permitted &= static_cast<uint32_t>(set >> 32 * i);
    words.data[i].inheritable = 0;
  }
  if (!words.Write()) return StepError("drop capabilities");
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);  // implied by the empty set; fails before Linux 4.3
  return absl::OkStatus();
}

absl::StatusOr<std::string> GiveUpRights(const UserIds& user, CapabilitySet kept, absl::Span<const gid_t> groups) {
  DropBoundingSet();
  // Otherwise setresuid() away from 0 clears the permitted set too; it always clears the effective one.
  prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
  std::string note = BecomeUser(user, groups);
  if (absl::Status status = KeepCapabilities(kept); !status.ok()) return status;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return StepError("give up new privileges (no_new_privs)");
  return note;
}

CallFilter::CallFilter(uint32_t otherwise) : filter_(seccomp_init(otherwise), seccomp_release) {
  if (filter_ == nullptr) {
    failed_ = -ENOSYS;
    return;
  }
  // A binary tree instead of a list. And without SSB: before Linux 5.16 loading a filter also turned on SSBD, a
  // mitigation for programs that run untrusted code, which slows down everything. Either failing only costs time.
  seccomp_attr_set(filter_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  seccomp_attr_set(filter_.get(), SCMP_FLTATR_CTL_SSB, 1);
}

void CallFilter::Add(int call, absl::Span<const scmp_arg_cmp> conditions) {
  if (filter_ == nullptr) return;
  const int result = seccomp_rule_add_array(filter_.get(), SCMP_ACT_ALLOW, call, conditions.size(), conditions.data());
  // A system call that this architecture does not have needs no rule.
  if (result != 0 && result != -EDOM) failed_ = result;
}

void CallFilter::Allow(absl::Span<const int> calls) {
  for (int call : calls) Add(call, {});
}

void CallFilter::AllowIf(int call, const scmp_arg_cmp& condition) { Add(call, {&condition, 1}); }

absl::Status CallFilter::Load() {
  if (failed_ == 0) failed_ = seccomp_load(filter_.get());
  return failed_ == 0 ? absl::OkStatus() : absl::ErrnoToStatus(-failed_, "filter system calls (seccomp)");
}

}  // namespace cowprof
