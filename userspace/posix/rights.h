// What the kernel lets this process do, and giving it up for good: identity, capabilities, system calls. Called by the
// recorder (privileges.h), the page's server (serve/sandbox.h) and what runs hooks; they know what each of them needs.
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
// Who called sudo, where root was made of them that way.
std::optional<UserIds> InvokedBySudo();
// Whom a process becomes that needs root no more: who called sudo, or nobody; one that is not root stays itself.
UserIds LesserUser();

using CapabilitySet = uint64_t;                       // bit n: capability n
inline constexpr int kCapPerfmon = 38, kCapBpf = 39;  // since 5.8; older headers don't know them

constexpr CapabilitySet SetOf(std::initializer_list<int> capabilities) {
  CapabilitySet set = 0;
  for (int capability : capabilities) set |= CapabilitySet{1} << capability;
  return set;
}
// Those that count now; none where it can't be told.
CapabilitySet EffectiveCapabilities();

// Of those that the process may use, the ones in `set` count from now on, until set otherwise.
absl::Status SetEffective(CapabilitySet set);

// Keeps those in `set`, effective, for good; none is inherited by what is executed.
absl::Status KeepCapabilities(CapabilitySet set);

// Becomes `user`, without other groups, keeps the capabilities in `kept`, and can never gain any (no_new_privs). The
// status names the step that failed. The text, if any, is of what this host does not offer and the rest makes up for.
absl::StatusOr<std::string> GiveUpRights(const UserIds& user, CapabilitySet kept);

// A list of system calls; `otherwise` (SCMP_ACT_...) is what happens at any other.
class CallFilter {
 public:
  explicit CallFilter(uint32_t otherwise);
  void Allow(absl::Span<const int> calls);
  void AllowIf(int call, const scmp_arg_cmp& condition);
  // From here on it holds, for good.
  absl::Status Load();

 private:
  void Add(int call, absl::Span<const scmp_arg_cmp> conditions);

  std::unique_ptr<void, void (*)(void*)> filter_;
  int failed_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_POSIX_RIGHTS_H_
