// How wide text is on a terminal: a Chinese character takes two columns, an accent none. Called by the live screen; the
// text is printable (format.h) UTF-8.
#ifndef COWPROF_SINK_TERMINAL_COLUMNS_H_
#define COWPROF_SINK_TERMINAL_COLUMNS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cowprof {

size_t ColumnsOf(absl::string_view text);
// At most so many columns of it; "…" stands for what is missing, at the end or, where the end says most, in front.
enum class Keep { kStart, kEnd };
std::string CutTo(absl::string_view text, size_t columns, Keep keep = Keep::kStart);
// Exactly so many.
std::string PadTo(absl::string_view text, size_t columns, Keep keep = Keep::kStart);
std::string PadLeft(absl::string_view text, size_t columns);
// Broken at blanks; a word that is too long is cut.
std::vector<std::string> WrapTo(absl::string_view text, size_t columns);

}  // namespace cowprof

#endif  // COWPROF_SINK_TERMINAL_COLUMNS_H_
