// What the kernel lets this process do, and how to give it up for good: identity, capabilities, system calls. Which of
// them a process keeps is decided by its owner, such as recorder/privileges.h and serve/sandbox.h.
#ifndef COWPROF_POSIX_RIGHTS_H_
#define COWPROF_POSIX_RIGHTS_H_

#include <linux/capability.h>
#include <seccomp.h>
#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cowprof {

struct UserIds {
  uid_t uid = 0;
  gid_t gid = 0;
};
// The user who called sudo, if this process became root that way.
std::optional<UserIds> InvokedBySudo();
// The user to become when root is no longer needed: who called sudo, else nobody. Without root, the current user.
UserIds LesserUser();

using CapabilitySet = uint64_t;                       // bit n: capability n
inline constexpr int kCapPerfmon = 38, kCapBpf = 39;  // since Linux 5.8; missing in older headers

constexpr CapabilitySet SetOf(std::initializer_list<int> capabilities) {
  CapabilitySet set = 0;
  for (int capability : capabilities) set |= CapabilitySet{1} << capability;
  return set;
}
// The effective set; empty if it can't be read.
CapabilitySet EffectiveCapabilities();

// What root must keep, besides `needed`, to read what root runs. Root of a container usually lacks CAP_SYS_PTRACE and
// CAP_DAC_READ_SEARCH: without the first the kernel asks for the same user and all capabilities of whom it reads
// (__ptrace_may_access(), cap_ptrace_access_check()), without the second for who owns the files in /proc. Then it has
// to stay root, too. `needed` itself: it may become anybody.
CapabilitySet WithWhatRootLacks(CapabilitySet needed);

// Makes the permitted capabilities in `set`, and no others, effective. Can be undone.
absl::Status SetEffective(CapabilitySet set);

// Drops all that are not in `set`, from every set of this process and of all that it executes, for good; sets
// no_new_privs.
absl::Status LimitCapabilities(CapabilitySet set);

// Keeps those in `set`, effective, and drops all others for good; an exec inherits none.
absl::Status KeepCapabilities(CapabilitySet set);

// Becomes `user` with these supplementary groups, keeps the capabilities in `kept` and sets no_new_privs. The status
// names the step that failed. The text, if any, names a step that this host does not support and that the others cover.
absl::StatusOr<std::string> GiveUpRights(const UserIds& user, CapabilitySet kept, absl::Span<const gid_t> groups = {});

// A seccomp filter: a list of allowed system calls; `otherwise` (SCMP_ACT_...) is what happens at any other.
class CallFilter {
 public:
  explicit CallFilter(uint32_t otherwise);
  void Allow(absl::Span<const int> calls);
  void AllowIf(int call, const scmp_arg_cmp& condition);
  // Installs the filter, for good.
  absl::Status Load();

 private:
  void Add(int call, absl::Span<const scmp_arg_cmp> conditions);

  std::unique_ptr<void, void (*)(void*)> filter_;
  int failed_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_POSIX_RIGHTS_H_
