// The diagnosis of processes that wait for what stayed in their parent at the fork. What was found is said as it was
// found: model/judge/hangs.h has the rules.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/hang_format.h"

namespace cowprof {
namespace {

constexpr size_t kMostTold = 3, kMostFrames = 12;

std::string Sentence(std::string words) {
  if (!words.empty()) words[0] = absl::ascii_toupper(words[0]);
  return absl::StrCat(words, ".");
}

// "train.py:31 in load_batch, called by train.py:60 in main, ..."
std::string StackText(const std::vector<Frame>& stack) {
  std::vector<std::string> frames;
  for (size_t i = 0; i < std::min(stack.size(), kMostFrames); ++i) frames.push_back(FrameText(stack[i], false));
  if (stack.size() > kMostFrames) frames.push_back(absl::StrCat(stack.size() - kMostFrames, " more"));
  return absl::StrJoin(frames, ", called by ");
}

std::string SinceText(const ProcessModel& process, const Hang& hang) {
  const absl::Duration since = process.hangs_at - hang.waited;
  const std::string found =
      absl::StrCat(HungName(process), " was found at ", HumanDuration(process.hangs_at), " of the recording");
  if (since <= absl::ZeroDuration()) return absl::StrCat(found, "; it may have waited before the recording began");
  return absl::StrCat(found, "; it began to wait at ", HumanDuration(since), " at the earliest");
}

// What helps against this hang. Workers of a server can't be started by spawn.
void AddAdvice(const ProcessModel& process, const Hang& hang, const RunModel& model, Diagnosis* diagnosis) {
  if (hang.fix.empty()) return;
  std::string fix = Printable(hang.fix, 600);
  const std::string after_fork = hang.kind == HangKind::kDeadlock ? "" : AfterForkAdvice(process, model);
  if (!after_fork.empty()) {
    for (const char* end : {"; or start workers by spawn or forkserver", ", or start workers by spawn or forkserver"})
      fix = std::string(absl::StripSuffix(fix, end));
  }
  for (std::string advice : {Sentence(std::move(fix)), after_fork}) {
    if (!advice.empty() && !absl::c_linear_search(diagnosis->advice, advice))
      diagnosis->advice.push_back(std::move(advice));
  }
}

void AddEvidence(const ProcessModel& process, Diagnosis* diagnosis) {
  const Hang& hang = process.hangs.front();
  std::vector<std::string>& evidence = diagnosis->evidence;
  evidence.push_back(SinceText(process, hang));
  evidence.push_back(absl::StrCat("why it is certain: ", WhyCertain(hang.proof)));
  if (!hang.stack.empty()) evidence.push_back(absl::StrCat("its Python stack: ", StackText(hang.stack)));
  if (!hang.native.empty()) evidence.push_back(absl::StrCat("in native code: ", Printable(hang.native, 400)));
  if (hang.holder && !hang.holder->stack.empty()) {
    evidence.push_back(absl::StrCat(HolderText(*hang.holder),
                                    hang.holder->still_holds ? " held it when it was found: " : ": ",
                                    StackText(hang.holder->stack)));
  }
}

}  // namespace

Diagnosis ForkHang(const Facts& facts) {
  std::vector<const ProcessModel*> hung;
  std::vector<std::string> victims;
  Diagnosis diagnosis;
  for (const ProcessModel& process : facts.model.processes) {
    if (process.hangs.empty()) continue;
    hung.push_back(&process);
    diagnosis.pids.push_back(process.id.pid);
    if (hung.size() <= kMostTold) AddEvidence(process, &diagnosis);
    for (const Hang& hang : process.hangs) {
      for (const WaitForChildren& victim : hang.victims) {
        std::string text = absl::StrCat("meanwhile ", VictimText(victim));
        if (!absl::c_linear_search(victims, text)) victims.push_back(std::move(text));
      }
      AddAdvice(process, hang, facts.model, &diagnosis);
    }
  }
  if (hung.empty()) return {};
  diagnosis.id = "fork-hang";
  diagnosis.harm = Harm::kHang;
  diagnosis.confidence = 0.97;
  const ProcessModel& first = *hung.front();
  diagnosis.summary = Sentence(HangSentence(first.hangs.front(), HungName(first), first.ended.has_value()));
  if (hung.size() > 1) {
    absl::StrAppend(&diagnosis.summary, " ", hung.size() - 1, " more ", hung.size() == 2 ? "process" : "processes",
                    first.ended ? " could never go on." : " can never go on.");
  }
  for (std::string& victim : victims) diagnosis.evidence.push_back(std::move(victim));
  return diagnosis;
}

}  // namespace cowprof
