// Hangs in words: the output of `cowprof hang`. Pure.
#ifndef COWPROF_SINK_REPORT_HANG_FORMAT_H_
#define COWPROF_SINK_REPORT_HANG_FORMAT_H_

#include <string>

#include "absl/types/span.h"
#include "model/facts/hang.h"

namespace cowprof {

// The sentence, the stacks and what to do; several lines each.
std::string HangsText(absl::Span<const Hang> hangs);
// Of threads of which nothing is proven, a line each.
std::string SuspectsText(absl::Span<const Hang> suspects);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_HANG_FORMAT_H_
