// Formats what was judged as the sentences of a verdict.
#include "model/judge/headline.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/findings.h"

namespace cowprof {
namespace {

std::string Copied(uint64_t copies, const RunModel& model) { return HumanBytes(copies * model.info.page_bytes); }

const char* WordsOf(Cause cause) {
  constexpr const char* kWords[] = {
      "reference counts",       "the collector's headers",
      "pymalloc's bookkeeping", "self-specialising bytecode",
      "cached hashes",          "data",
      "released objects",       "writes by the kernel",
      "for unknown causes",     "reference counts of C++ objects",
  };
  return kWords[static_cast<int>(cause)];
}

// "60 % released objects, 40 % cached hashes"
std::string CausesText(const Totals& workers) {
  std::vector<std::pair<uint64_t, std::string>> parts;
  for (int cause = 0; cause < kCauses; ++cause) {
    const double share = static_cast<double>(workers.causes[cause]) / std::max<uint64_t>(workers.copies, 1);
    if (share >= kNoticeableShare)
      parts.emplace_back(workers.causes[cause], absl::StrCat(Percent(share), " ", WordsOf(static_cast<Cause>(cause))));
  }
  std::sort(parts.rbegin(), parts.rend());
  return absl::StrJoin(parts, ", ", [](std::string* out, const auto& part) { out->append(part.second); });
}

// What is known if no diagnosis can be made.
std::string SentenceWithoutDiagnosis(const RunModel& model, const Findings& findings) {
  if (model.target() == nullptr) return "Nothing was recorded.";
  const Totals& workers = findings.workers;
  if (workers.processes == 0) {
    const Count& copies = model.target()->counts.copies;
    if (!copies) return "No worker was forked, and the pages of the target were not examined.";
    return absl::StrCat("No worker was forked, but the target itself copied ", Copied(*copies, model),
                        " of memory that it shares with another process. If it is a worker, attach to its parent.");
  }
  const std::string who = Plural(workers.processes, "worker");
  if (!workers.copies_known)
    return absl::StrCat("The pages of ", who, " were not examined: what was copied is unknown.");
  const bool known = workers.causes_known && workers.causes[static_cast<int>(Cause::kUnknown)] < workers.copies / 2;
  const std::string why = known ? CausesText(workers) : "";
  return absl::StrCat(who, " copied ", Copied(workers.copies, model), " of inherited memory",
                      why.empty() ? "; why can't be said." : absl::StrCat(": ", why, "."));
}

// "2 of 34 workers ended badly: worker 4711 was killed by SIGSEGV, and 1 more."; "": none did.
std::string EndsSentence(const RunModel& model, const Findings& findings) {
  uint64_t bad = 0;
  std::string first;
  for (const auto& [index, end] : findings.ends) {
    const ProcessModel* process = model.Find(index);
    if (!end.badly || process == nullptr || !process->is_worker()) continue;
    if (bad++ == 0) first = absl::StrCat(NameOf(*process), process->exit->signaled ? " was " : " ", end.text);
  }
  if (bad == 0) return "";
  return absl::StrCat(bad, " of ", Plural(findings.workers.processes, "worker"), " ended badly: ", first,
                      bad > 1 ? absl::StrCat(", and ", bad - 1, " more") : "", ".");
}

// "591 MiB private to the workers at the peak: 545 MiB copied, 46 MiB private before the attach."
std::string PeakSentence(const RunModel& model, const PeakSplit& split) {
  const WorkersPeak& peak = model.workers_peak;
  if (peak.bytes <= kNoiseBytes * peak.fresh_bytes.size()) return "";
  const std::pair<uint64_t, const char*> parts[] = {{split.copied, "copied"},
                                                    {split.pickled, "pickled or imported at the start"},
                                                    {split.fresh, "new"},
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
  return absl::StrFormat("Nearest limit: %s, at most %.0f %% used.", FormatLimit(nearest->now),
                         100 * nearest->peak_ratio);
}

}  // namespace

Headline HeadlineOf(const RunModel& model, const Findings& findings) {
  if (findings.diagnoses.empty()) {
    std::string ends = EndsSentence(model, findings);
    return {"unknown", ends.empty() ? SentenceWithoutDiagnosis(model, findings) : std::move(ends)};
  }
  return {findings.diagnoses.front().id, findings.diagnoses.front().summary};
}

std::string Verdict(const RunModel& model, const Findings& findings) {
  std::vector<std::string> sentences = {findings.headline.sentence};
  const bool of_death = !findings.diagnoses.empty() && findings.diagnoses.front().harm == Harm::kDeath;
  if (std::string ends = EndsSentence(model, findings); !of_death && !ends.empty() && ends != sentences.front())
    sentences.push_back(std::move(ends));
  if (std::string peak = PeakSentence(model, findings.peak); !peak.empty()) sentences.push_back(std::move(peak));
  if (std::string limit = LimitSentence(model, findings); !limit.empty()) sentences.push_back(std::move(limit));
  if (model.target() != nullptr && !findings.forecast.ended)
    sentences.push_back(absl::StrCat("Forecast: ", findings.forecast.sentence, "."));
  return absl::StrJoin(sentences, " ");
}

}  // namespace cowprof
