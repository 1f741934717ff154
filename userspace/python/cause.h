// The judgement on a copy: from what the probes saw in memory, what the instruction does and whose code it is, to the
// cause. Pure. Called by attribution.cc for every row of the table of causes. What none of it tells is kUnknown, never
// a guess.
#ifndef COWPROF_PYTHON_CAUSE_H_
#define COWPROF_PYTHON_CAUSE_H_

#include "absl/strings/string_view.h"
#include "cowprof.h"
#include "model/sample.h"
#include "python/instruction.h"

namespace cowprof {

// `symbol`: the native function that wrote, "" where the file has no name for it.
Cause CauseOf(cowprof_shape shape, WriteKind kind, absl::string_view symbol);

// Whether the cause of this shape depends on `symbol` at all: finding it costs a look into a file.
bool NeedsSymbol(cowprof_shape shape);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_CAUSE_H_
