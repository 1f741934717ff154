// The report on a terminal: fitted to its width, with the verdict and the titles in bold. A file or a pipe gets the
// text as it is.
#ifndef COWPROF_SINK_TERMINAL_PRINT_REPORT_H_
#define COWPROF_SINK_TERMINAL_PRINT_REPORT_H_

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "posix/colour.h"

namespace cowprof {

// Makes lines fit: takes blanks out of tables, cuts paths in the middle, and breaks lines at blanks. Code, which is
// indented by eight, stays whole, so that it can be copied.
std::string FitText(absl::string_view text, size_t columns);
std::string WithBoldTitles(absl::string_view text);

// Columns of the terminal that `fd` is; 0: it is none.
size_t ColumnsOfTerminal(int fd);
// `text` as it is shown on `out`.
std::string LaidOut(const std::string& text, Colour colour, FILE* out);

}  // namespace cowprof

#endif  // COWPROF_SINK_TERMINAL_PRINT_REPORT_H_
