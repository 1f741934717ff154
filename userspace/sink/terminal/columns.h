// The width of text on a terminal: a Chinese character takes two columns, an accent none. Expects printable UTF-8, see
// Printable() in model/format.h.
#ifndef COWPROF_SINK_TERMINAL_COLUMNS_H_
#define COWPROF_SINK_TERMINAL_COLUMNS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cowprof {

size_t ColumnsOf(absl::string_view text);
// Cuts text to at most `columns`; "…" replaces what is cut off, at the end or, with kEnd, at the start.
enum class Keep { kStart, kEnd };
std::string CutTo(absl::string_view text, size_t columns, Keep keep = Keep::kStart);
// Cuts or pads to exactly `columns`.
std::string PadTo(absl::string_view text, size_t columns, Keep keep = Keep::kStart);
std::string PadLeft(absl::string_view text, size_t columns);
// Breaks lines at blanks; cuts a word that is too long.
std::vector<std::string> WrapTo(absl::string_view text, size_t columns);

}  // namespace cowprof

#endif  // COWPROF_SINK_TERMINAL_COLUMNS_H_
