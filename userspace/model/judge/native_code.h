// Which native code made copies, where no line of Python did, and what is known of language runtimes that write to
// objects which the program only reads. Pure.
#ifndef COWPROF_MODEL_JUDGE_NATIVE_CODE_H_
#define COWPROF_MODEL_JUDGE_NATIVE_CODE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "model/facts/run_model.h"
#include "model/judge/blame.h"

namespace cowprof {

struct NativeCode {
  std::string module;
  std::string symbol;  // the function that made at least half of the copies; "": none did, or it has no name
  double share = 0;    // of the module
  bool operator==(const NativeCode&) const = default;
};
// The module that made at least half of the copies with a site, of the sites that `counts` takes. nullopt: none did, or
// the C library, which writes for others.
std::optional<NativeCode> NativeCodeOf(const RunModel& model, const Blame& blame,
                                       absl::FunctionRef<bool(const CopySite&)> counts);
// What helps where a language's runtime wrote, as measured (docs/diagnoses.md, "Runtimes other than CPython"): against
// what this function does, or all, if that is not known. Empty: it is none of the runtimes that are known.
std::vector<std::string> AdviceOn(const NativeCode& code);
// Whether it is the interpreter itself; whether it is of numpy or torch, which write to arrays in place.
bool IsPython(const NativeCode& code);
bool WritesArrays(const NativeCode& code);
// "about 98 % of it in Perl's own code (Perl_sv_upgrade)", "93 % of it in fill (libtable.so)"
std::string NativeCodeText(const NativeCode& code, bool estimated);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_NATIVE_CODE_H_
