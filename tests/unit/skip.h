// Lets a unit test report that this machine lacks what it needs. main.cc prints and counts skips.
#ifndef COWPROF_TESTS_UNIT_SKIP_H_
#define COWPROF_TESTS_UNIT_SKIP_H_

#include <string>

namespace cowprof {

// "if (Lacks(capability, is_there, reason)) return;"
bool Lacks(const std::string& capability, bool is_there, const std::string& reason);
bool LacksRoot();
bool LacksPagemapScan();  // the kernel
inline bool LacksSmallAddressSpace() {
#ifdef __SANITIZE_ADDRESS__
  return Lacks("a small address space", false, "AddressSanitizer maps terabytes of shadow, which a full sweep reads");
#else
  return false;
#endif
}

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_SKIP_H_
