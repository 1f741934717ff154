// The functions on the native stack of a thread that waits, by the words on it and by the symbols of its files.
#ifndef COWPROF_RECORDER_NATIVE_CALLERS_H_
#define COWPROF_RECORDER_NATIVE_CALLERS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "model/facts/waits.h"
#include "python/memory_reader.h"
#include "source/native_symbols.h"
#include "source/procfs.h"

namespace cowprof {

// Functions that may be on a native stack, innermost first: words that point behind a call instruction. Some may be
// left over from calls that have returned.
std::vector<NativeSymbol> CallersOf(NativeSymbols* symbols, const MemoryReader& memory,
                                    const std::vector<Mapping>& mappings, const ThreadWait& thread);

// libgomp, libiomp5 or libomp.
bool IsOpenMp(absl::string_view module);

// The library that waits: the innermost one but the C and C++ libraries. "": a program, or Python itself may wait.
std::string WaitingLibrary(absl::Span<const NativeSymbol> callers);

// "libgomp.so.1; libtorch_cpu.so: at::...".
std::string ShownCallers(absl::Span<const NativeSymbol> callers);

// The function that called the OpenMP runtime: of ATen, if there is one.
std::string CallerOfOpenMp(absl::Span<const NativeSymbol> callers);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_NATIVE_CALLERS_H_
