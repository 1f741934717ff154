// Fields 14, 15 and 24 of proc(5)'s /proc/PID/stat. The name before them may contain blanks and parentheses.
#include "posix/process_use.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace cowprof {

Fd OpenStat(const std::string& pid) { return Fd(open(("/proc/" + pid + "/stat").c_str(), O_RDONLY | O_CLOEXEC)); }

std::optional<ProcessUse> ReadUse(const Fd& stat) {
  char text[1024];
  const ssize_t bytes = stat.ok() ? pread(stat.fd(), text, sizeof(text) - 1, 0) : -1;
  if (bytes <= 0) return std::nullopt;
  text[bytes] = '\0';
  const char* rest = strrchr(text, ')');
  unsigned long user = 0, system = 0;
  long pages = 0;
  if (rest == nullptr || sscanf(rest,
                                ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u "
                                "%*u %ld",
                                &user, &system, &pages) != 3)
    return std::nullopt;
  return ProcessUse{static_cast<double>(user + system) / sysconf(_SC_CLK_TCK),
                    static_cast<uint64_t>(pages) * sysconf(_SC_PAGESIZE)};
}

}  // namespace cowprof
