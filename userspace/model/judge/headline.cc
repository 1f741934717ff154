// Formats what was judged as the sentences of a verdict.
#include "model/judge/headline.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/findings.h"
#include "model/judge/unexplained.h"

namespace cowprof {
namespace {

constexpr double kNearlyFull = 0.9;  // of a cgroup, a moment before the OOM killer comes

// The fullest cgroup of the last sample, if it is so full that the OOM killer may have come next. With cgroup v2 that
// can end the recorder, too (memory.oom.group): Kubernetes 1.28 and later has it set in each container.
std::optional<double> FullCgroup(const RunModel& model) {
  std::optional<double> fullest;
  for (const LimitModel& limit : model.limits) {
    const std::optional<double> ratio = limit.now.ratio();
    if (limit.now.kind == LimitKind::kCgroupV2 && ratio && *ratio >= kNearlyFull) fullest = std::max(fullest, ratio);
  }
  return fullest;
}

// "591 MiB private to the workers at the peak: 545 MiB copied, 46 MiB private before the attach."
std::string PeakSentence(const RunModel& model, const PeakSplit& split) {
  const WorkersPeak& peak = model.workers_peak;
  if (peak.bytes <= kNoiseBytes * peak.fresh_bytes.size()) return "";
  const std::pair<uint64_t, const char*> parts[] = {
      {split.copied, "copied"},
      {split.pickled, split.pickled_or_imported ? "pickled or allocated" : "pickled"},
      {split.fresh, "new"},
      {split.inherited_freed, "inherited free, and allocated again"},
      {split.left, "inherited, and not shared since the others ended or freed it"},
      {split.before_attach, "private before the attach"}};
  std::vector<std::string> words;
  for (const auto& [bytes, word] : parts) {
    if (bytes >= peak.bytes / 100) words.push_back(absl::StrCat(HumanBytes(bytes), " ", word));
  }
  return absl::StrCat(HumanBytes(peak.bytes), " private to ", Plural(peak.fresh_bytes.size(), "worker"),
                      " at the peak: ", absl::StrJoin(words, ", "), ".");
}

// "Nearest limit: the host's memory, 6 % of 23.5 GiB used." Of a run that is over: the limit that came nearest.
std::string LimitSentence(const RunModel& model, const Findings& findings) {
  if (!findings.forecast.ended) {
    if (findings.nearest_limit < 0) return "";
    const LimitModel& limit = model.limits[findings.nearest_limit];
    return absl::StrFormat("Nearest limit: %s, %.0f %% of %s used.", FormatLimit(limit.now),
                           100 * limit.now.ratio().value_or(0), HumanAmount(limit.now.kind, limit.now.limit));
  }
  const auto nearest = std::max_element(model.limits.begin(), model.limits.end(),
                                        [](const auto& a, const auto& b) { return a.peak_ratio < b.peak_ratio; });
  if (nearest == model.limits.end() || nearest->peak_ratio == 0) return "";
  return absl::StrFormat("Nearest limit: %s, up to %.0f %% used.", FormatLimit(nearest->now),
                         100 * nearest->peak_ratio);
}

}  // namespace

Headline HeadlineOf(const Run& run, const Findings& findings) {
  const bool happened = !findings.diagnoses.empty() && findings.diagnoses.front().harm != Harm::kPossible;
  if (happened) {
    const Diagnosis& first = findings.diagnoses.front();
    // Deaths come first, whether or not a diagnosis explains them.
    const std::string ends = first.harm == Harm::kDeath ? "" : EndsSentence(run.model, findings);
    return {first.id, absl::StrCat(ends, ends.empty() ? "" : " ", first.summary)};
  }
  const Facts facts = FactsOf(run, findings);
  std::string sentence = EndsSentence(run.model, findings);
  const bool ended_badly = !sentence.empty();
  const std::string unexplained = UnexplainedMemory(facts);
  if (sentence.empty()) {
    sentence = unexplained.empty() && findings.all.copies_known ? NothingToDo(facts) : unexplained;
  } else if (unexplained.empty() && findings.all.copies_known) {
    sentence += MuchHeld(facts);
  }
  if (sentence.empty()) {
    sentence = run.model.target() == nullptr ? "Nothing was recorded."
                                             : "No worker was forked, and the pages of the target were not examined.";
  }
  if (findings.diagnoses.empty()) return {"unknown", std::move(sentence)};
  const Diagnosis& possible = findings.diagnoses.front();
  if (ended_badly && !ChildEndedBadly(run.model)) return {"unknown", std::move(sentence)};
  return {possible.id, absl::StrCat(sentence, " ", possible.summary)};
}

std::string Verdict(const RunModel& model, const Findings& findings) {
  std::vector<std::string> sentences = {findings.headline.sentence};
  if (std::string peak = PeakSentence(model, findings.peak); !peak.empty()) sentences.push_back(std::move(peak));
  if (std::string limit = LimitSentence(model, findings); !limit.empty()) sentences.push_back(std::move(limit));
  if (model.target() != nullptr && !findings.forecast.ended)
    sentences.push_back(absl::StrCat("Forecast: ", findings.forecast_told.sentence, "."));
  return absl::StrJoin(sentences, " ");
}

std::string ToldWithoutEnd(const std::string& text, const RunModel& model, const Findings& findings) {
  if (findings.diagnoses.empty() || findings.diagnoses.front().harm < Harm::kNone) return text;
  const std::optional<double> full = FullCgroup(model);
  const std::string why =
      full ? absl::StrCat(", perhaps by the OOM killer: the target's cgroup was ", Percent(*full), " full") : "";
  absl::string_view rest = text;
  const bool nothing = absl::ConsumePrefix(&rest, "Nothing to do: ");
  return absl::StrCat(nothing && !full ? "Nothing to do in the first " : "In the first ", HumanDuration(model.t),
                      " (the recording still runs, or was cut off", why, "): ", rest);
}

void TellThatItHasNoEnd(const RunModel& model, Findings* findings) {
  std::vector<std::string*> texts = {&findings->headline.sentence, &findings->verdict};
  if (!findings->diagnoses.empty() && findings->diagnoses.front().summary == findings->headline.sentence)
    texts.push_back(&findings->diagnoses.front().summary);
  for (std::string* text : texts) *text = ToldWithoutEnd(*text, model, *findings);
}

}  // namespace cowprof
