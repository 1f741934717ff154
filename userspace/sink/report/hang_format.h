// Hangs in words: the output of `cowprof hang`. Pure.
#ifndef COWPROF_SINK_REPORT_HANG_FORMAT_H_
#define COWPROF_SINK_REPORT_HANG_FORMAT_H_

#include <string>

#include "absl/types/span.h"
#include "model/facts/hang.h"

namespace cowprof {

// The sentence, the stacks and what to do; several lines each.
std::string HangsText(absl::Span<const Hang> hangs);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_HANG_FORMAT_H_
