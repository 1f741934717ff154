// Hangs in words, for `cowprof hang` and the report.
#ifndef COWPROF_SINK_REPORT_HANG_FORMAT_H_
#define COWPROF_SINK_REPORT_HANG_FORMAT_H_

#include <string>

#include "absl/types/span.h"
#include "model/judge/hangs.h"

namespace cowprof {

// One sentence: "Process 4711 can never go on: at train.py:31 in load_batch it waits for a threading.Lock ...".
std::string HangSentence(const Hang& hang);
// The sentence, the stacks and what to do; several lines each.
std::string HangsText(absl::Span<const Hang> hangs);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_HANG_FORMAT_H_
