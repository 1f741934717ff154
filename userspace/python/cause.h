// Decides why a page was copied, from what the probes saw in memory, what the instruction does and which function it
// belongs to. Pure. A copy that none of these explains is kUnknown, never a guess.
#ifndef COWPROF_PYTHON_CAUSE_H_
#define COWPROF_PYTHON_CAUSE_H_

#include "absl/strings/string_view.h"
#include "cowprof.h"
#include "model/facts/sample.h"
#include "python/instruction.h"

namespace cowprof {

// `symbol`: the native function that wrote; "" if the file has no name for it.
Cause CauseOf(cowprof_shape shape, WriteKind kind, absl::string_view symbol);

// Whether the cause of this shape depends on `symbol`: finding that reads an ELF file.
bool NeedsSymbol(cowprof_shape shape);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_CAUSE_H_
