// When text on a stream is coloured.
#ifndef COWPROF_POSIX_COLOUR_H_
#define COWPROF_POSIX_COLOUR_H_

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cowprof {

enum class Colour { kAuto, kAlways, kNever };

// kAuto: on a terminal that can, unless NO_COLOR is set (https://no-color.org).
inline bool IsColoured(Colour colour, FILE* out) {
  if (colour != Colour::kAuto) return colour == Colour::kAlways;
  const char *const no_color = getenv("NO_COLOR"), *const terminal = getenv("TERM");
  return isatty(fileno(out)) && (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
         *terminal != '\0' && strcmp(terminal, "dumb") != 0;
}

}  // namespace cowprof

#endif  // COWPROF_POSIX_COLOUR_H_
