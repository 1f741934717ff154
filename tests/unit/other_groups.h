// Another /etc/group, for this process and what it forks.
#ifndef COWPROF_TESTS_UNIT_OTHER_GROUPS_H_
#define COWPROF_TESTS_UNIT_OTHER_GROUPS_H_

#include <sched.h>
#include <sys/mount.h>

#include <string>

namespace cowprof {

// In a forked process of root. False: this host lets it have no mounts of its own.
inline bool TakeForGroups(const std::string& file) {
  return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount(file.c_str(), "/etc/group", nullptr, MS_BIND, nullptr) == 0;
}

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_OTHER_GROUPS_H_
