// Diagnoses of copied memory, by cause.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"

namespace cowprof {
namespace {

// Returns the types and lines with the most copies of this cause, as evidence.
std::vector<std::string> TopOf(const Facts& facts, Cause cause) {
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<BlameRow>& rows, const auto& name_of) {
    std::vector<std::pair<uint64_t, std::string>> named;
    for (const BlameRow& row : rows) {
      const uint64_t copies = row.causes[static_cast<int>(cause)];
      const std::string name = name_of(row);
      if (copies > 0 && !name.empty()) named.emplace_back(copies, name);
    }
    std::stable_sort(named.begin(), named.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < std::min<size_t>(named.size(), 3); ++i) {
      const double share = static_cast<double>(named[i].first) / std::max<uint64_t>(facts.Of(cause), 1);
      if (share >= 0.05)
        lines.push_back(absl::StrCat(
            Percent(share), facts.findings.of_workers.blame.estimated ? " (estimated): " : ": ", named[i].second));
    }
  };
  add(facts.findings.of_workers.by_type, [](const BlameRow& row) {
    return row.type.empty() ? "" : absl::StrCat("objects of type ", Printable(row.type));
  });
  add(facts.findings.of_workers.by_line, [](const BlameRow& row) { return LineText(row.frame); });
  return lines;
}

uint64_t CopiesBy(std::initializer_list<Cause> causes, const CauseCounts& counts) {
  uint64_t copies = 0;
  for (const Cause cause : causes) copies += counts[static_cast<int>(cause)];
  return copies;
}

// Returns the workers that copied more than noise, a noticeable part of it by these causes; if there are none, all that
// copied more than noise.
std::vector<pid_t> PidsOf(const Facts& facts, std::initializer_list<Cause> causes) {
  std::vector<pid_t> pids;
  for (const ProcessModel& process : facts.model.processes) {
    if (!HasInheritedMemory(process)) continue;
    const uint64_t all = Sum(*process.causes);
    if (all * facts.page_bytes > kNoiseBytes && CopiesBy(causes, *process.causes) >= kNoticeableShare * all)
      pids.push_back(process.id.pid);
  }
  return pids.empty() ? facts.pids : pids;
}

// Starts a diagnosis of copies by these causes; types and lines are those of the first.
Diagnosis FromCauses(const Facts& facts, std::initializer_list<Cause> causes, const char* id) {
  const uint64_t copies = CopiesBy(causes, facts.causes);
  const double share = static_cast<double>(copies) / std::max<uint64_t>(facts.copies, 1);
  Diagnosis diagnosis = {.id = id, .confidence = std::min(0.99, 0.6 + 0.4 * share), .pids = PidsOf(facts, causes)};
  diagnosis.evidence.push_back(absl::StrCat(HumanCount(copies), " of ", HumanCount(facts.copies), " copies (",
                                            Percent(share), ", ", facts.Bytes(copies), ")"));
  for (std::string& line : TopOf(facts, *causes.begin())) diagnosis.evidence.push_back(std::move(line));
  return diagnosis;
}

}  // namespace

Diagnosis CowRefcount(const Facts& facts) {
  if (!facts.Matters(facts.Of(Cause::kRefcount))) return {};
  Diagnosis diagnosis = FromCauses(facts, {Cause::kRefcount}, "cow-refcount");
  const std::string saved = facts.Bytes(facts.Of(Cause::kRefcount));
  diagnosis.summary = absl::StrCat(
      "Reading Python objects that were created before the fork writes their reference counts, "
      "which copied ",
      saved, ".");
  diagnosis.advice = {
      absl::StrCat("Keep what all workers read in a few large buffers instead of many objects: numpy arrays, Arrow "
                   "tables, torch tensors, or one bytes object of pickled items and an array of offsets. That would "
                   "have kept ",
                   saved, " shared."),
      "Map such buffers from a file (numpy.memmap, Arrow), and all experiments on the host share one copy, too.",
      "Until then, use fewer workers: each can copy all of it. With num_workers=0 nothing is copied: the trainer loads "
      "the data.",
      "gc.freeze() does not help here, and neither do the immortal objects of Python 3.12: ordinary str, int and dict "
      "objects still count references.",
      "The spawn start method helps only if little must be pickled: otherwise each worker starts with a copy of "
      "everything."};
  return diagnosis;
}

Diagnosis CowGcHeader(const Facts& facts) {
  if (!facts.Matters(facts.Of(Cause::kGcHeader))) return {};
  Diagnosis diagnosis = FromCauses(facts, {Cause::kGcHeader}, "cow-gc-header");
  diagnosis.summary = absl::StrCat(
      "The cycle collector ran in the workers and wrote the header of every object they inherited, "
      "which copied ",
      facts.Bytes(facts.Of(Cause::kGcHeader)), ".");
  diagnosis.advice = {
      "Call gc.collect() and then gc.freeze() in the parent before it forks the workers: collections in the workers "
      "then leave the inherited objects alone, which removes this share (but none of the share of reference counts).",
      "Or call gc.disable() in the workers if they create no cycles: cycles would never be freed."};
  return diagnosis;
}

Diagnosis CowData(const Facts& facts) {
  const uint64_t written = facts.Of(Cause::kData) + facts.Of(Cause::kKernel);
  if (!facts.Matters(written)) return {};
  Diagnosis diagnosis = FromCauses(facts, {Cause::kData, Cause::kKernel}, "cow-data");
  diagnosis.summary =
      absl::StrCat("The workers really write to memory that they inherited, which copied ", facts.Bytes(written), ".");
  if (facts.Of(Cause::kKernel) > 0) {
    diagnosis.evidence.push_back(
        absl::StrCat(facts.Bytes(facts.Of(Cause::kKernel)),
                     " of it by the kernel, in system calls such as read(2) into an inherited buffer"));
  }
  diagnosis.advice = {
      "If one result serves all workers, write to shared memory (torch tensors with share_memory_(), numpy.memmap, "
      "multiprocessing.shared_memory) or to a buffer that is created in the worker.",
      "If the writes normalise or cache data, do them once in the parent before the fork."};
  return diagnosis;
}

Diagnosis ParentUnshare(const Facts& facts) {
  const ProcessModel* parent = facts.model.target();
  if (parent == nullptr || !parent->causes || !facts.HasWorkers()) return {};
  const uint64_t copies = parent->counts.copies.value_or(0);
  // Each fork shares again what the parent always writes: 0.5 MiB of a plain interpreter, 2 to 4 MiB of a torch
  // trainer.
  const uint64_t workers = facts.findings.workers.processes;
  if (copies * facts.page_bytes <= (2 + workers) * kNoiseBytes / 2 ||
      copies < kNoticeableShare * (copies + facts.copies))
    return {};
  Diagnosis diagnosis = {.id = "parent-unshare", .confidence = 0.9, .pids = {parent->id.pid}};
  diagnosis.summary = absl::StrCat(
      "The parent keeps writing to memory that its workers inherited, and copies it itself: ", facts.Bytes(copies),
      ".");
  const Count reuses = parent->counts.reuses();
  diagnosis.evidence = {
      absl::StrCat(HumanCount(copies), " copies in the parent",
                   reuses ? absl::StrCat(", ", HumanCount(reuses), " pages reused without a copy") : "")};
  diagnosis.advice = {
      "Leave the data set alone in the parent once the workers run, or create what it keeps changing after the fork."};
  return diagnosis;
}

}  // namespace cowprof
