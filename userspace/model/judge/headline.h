// The sentences that a reader sees first, in every output. Pure; part of Judge() (findings.h).
#ifndef COWPROF_MODEL_JUDGE_HEADLINE_H_
#define COWPROF_MODEL_JUDGE_HEADLINE_H_

#include <string>

#include "model/judge/run.h"

namespace cowprof {

struct Findings;

struct Headline {
  std::string diagnosis;  // id of the first diagnosis; "unknown": there is none
  std::string sentence;   // the summary of that diagnosis, after deaths that it does not explain; without one, what
                          // is known, and what isn't
  bool operator==(const Headline&) const = default;
};

// Follows what names a recording.
inline constexpr char kHasNoEnd[] = " has no end: still running, killed, or the file was cut off.";

// `findings` already has its diagnoses.
Headline HeadlineOf(const Run& run, const Findings& findings);
// See Findings::verdict; `findings` already has everything else of Detail::kScreen.
std::string Verdict(const RunModel& model, const Findings& findings);
// Of a recording without an end, which may still be made: `text`, which begins with the headline. If that has nothing
// to blame, it says how far that goes.
std::string ToldWithoutEnd(const std::string& text, const RunModel& model, const Findings& findings);
// The same of the headline, of the verdict, and of the diagnosis that says the same.
void TellThatItHasNoEnd(const RunModel& model, Findings* findings);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_HEADLINE_H_
