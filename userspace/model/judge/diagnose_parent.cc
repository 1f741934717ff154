// Diagnosis of what the parent copies itself.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/native_code.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// "keeps writing to memory that its workers still share"
std::string Sharing(const ProcessModel& parent, const Facts& facts, bool reads, bool collects) {
  const bool over = facts.findings.forecast.living_workers == 0 || parent.copies_per_second == 0;
  const bool one = facts.findings.workers.processes == 1;
  const char* const does = collects ? over ? "ran its cycle collector, which wrote to the headers of objects"
                                           : "runs its cycle collector, which writes to the headers of objects"
                           : reads  ? over ? "read objects" : "keeps reading objects"
                           : over   ? "wrote to memory"
                                    : "keeps writing to memory";
  return absl::StrCat(does, " that ", one ? "its worker" : "its workers", " still ",
                      over  ? "shared"
                      : one ? "shares"
                            : "share",
                      reads ? ", which writes their reference counts" : "");
}

// How many workers there were for each that lived at one time. Each time the parent shares again what it had copied.
uint64_t RoundsOf(const Facts& facts) {
  if (facts.target_only_launches()) return 1;  // the ranks forked them
  return std::max<uint64_t>(facts.findings.workers.processes / std::max<uint64_t>(facts.model.most_living_workers, 1),
                            1);
}

// What it may copy without anybody being blamed. What others start, as a worker may for each item, shares nothing of it
// again; nor does vfork. Bytes.
uint64_t RewrittenBy(const ProcessModel& parent) {
  return RewrittenAfterForks(parent.forks + parent.forks_before_attach, parent.forks_for_exec);
}

}  // namespace

Diagnosis ParentUnshare(const Facts& facts) {
  const ProcessModel* parent = facts.model.target();
  // Without workers nobody knows with whom it shares: it may be a forked worker itself, whose children run commands.
  if (parent == nullptr || !parent->causes || !facts.HasWorkers()) return {};
  const uint64_t copies = parent->shared_copies(), all_copies = parent->counts.copies.value_or(0);
  const uint64_t rewritten = RewrittenBy(*parent);
  if (copies * facts.page_bytes <= rewritten || copies < kNoticeableShare * (copies + facts.copies)) return {};
  const uint64_t pickling = CopiedByPickling(facts);
  // That is told with what was pickled.
  if (2 * pickling > copies && !PickledArguments(facts).id.empty()) return {};
  // What it held of it at one time is not known. In one round, it copied this much on average.
  const uint64_t rounds = RoundsOf(facts);
  Diagnosis diagnosis = {
      .id = "parent-unshare", .confidence = 0.9, .bytes = copies * facts.page_bytes / rounds, .pids = {parent->id.pid}};
  const BlameTables tables = TablesOf(facts.model, {.index = 0});
  // What it copied before it forked, or of files, may be all that a line copied.
  const auto is_notable = [&](double share) {
    return share * all_copies - (all_copies - copies) >= kNoticeableLine * copies;
  };
  std::string line;
  if (!tables.by_line.empty() && !tables.by_line[0].frame.file.empty() && is_notable(tables.by_line[0].share)) {
    const BlameRow& first = tables.by_line[0];
    const Culprit culprit = {.frame = first.frame, .via = first.via, .type = "", .share = first.share};
    line = absl::StrCat("; ", CulpritText(culprit, tables.blame.estimated, "at"));
    if (!IsOfLibrary(culprit.frame)) diagnosis.culprit = culprit;
  } else if (facts.native()) {
    const std::optional<NativeCode> code =
        NativeCodeOf(facts.model, tables.blame, [](const CopySite&) { return true; });
    if (code && is_notable(code->share)) line = absl::StrCat("; ", NativeCodeText(*code, tables.blame.estimated));
  }
  const auto mostly = [&](Cause cause) { return 2 * (*parent->causes)[static_cast<int>(cause)] >= copies; };
  const bool freed = mostly(Cause::kFree), collected = mostly(Cause::kGcHeader);
  const std::string summed =
      rounds == 1 ? ""
                  : absl::StrCat(", summed over ", facts.model.target_is_rank ? "all its workers" : facts.Workers());
  diagnosis.summary = absl::StrCat(
      "The ", facts.Target(), " itself duplicated ", facts.Bytes(copies), summed, ": it ",
      2 * pickling > copies ? "pickles objects that its workers still share, which writes their reference counts"
      : freed               ? "released objects that it shared with its workers, which first writes to them"
                            : Sharing(*parent, facts, mostly(Cause::kRefcount), collected),
      line, ".");
  const Count reuses = parent->counts.reuses();
  diagnosis.evidence = {
      absl::StrCat(HumanCount(copies), " copies in the parent",
                   reuses ? absl::StrCat(", ", HumanCount(reuses), " pages reused without a copy") : "")};
  const char* const against_collector =
      HasOlderPython(facts.model, 7)  // it has no gc.freeze()
          ? "Call gc.collect() before the workers are forked, and gc.disable() while they live: collections in the "
            "parent copy what they share."
          : "Call gc.collect() and then gc.freeze() before the workers are forked, and gc.unfreeze() when they have "
            "ended: in between, collections in the parent leave what the workers share alone.";
  diagnosis.advice = {
      facts.native()
          ? "Every page that the parent writes while a child lives is copied once: keep room for that, shorten the time "
            "for which children live, or let them work while few writes come in. A server that forks to save a snapshot "
            "(redis: BGSAVE, BGREWRITEAOF) needs up to twice its memory while the child lives; where its fork fails "
            "with \"Cannot allocate memory\", vm.overcommit_memory=1 allows it."
      : freed
          ? "Release them before the fork, or not at all: while a worker lives, the memory stays allocated, and the parent "
            "copies what it releases."
      : collected ? against_collector
      : mostly(Cause::kRefcount)
          ? "Keep what the parent goes on reading after the fork in a few large buffers (numpy, Arrow, or all items "
            "pickled into one), which are read without a copy."
          : "Leave what the workers inherited alone in the parent once they run, or create what it keeps changing after "
            "the fork."};
  if (freed) diagnosis.bytes = std::min(diagnosis.bytes, parent->private_bytes.value_or(0));
  // Where workers were renewed, the sum is not what the parent held at one time. What it writes after any fork it would
  // write anyway.
  if (!facts.native() && !freed && facts.model.most_living_workers == facts.findings.workers.processes) {
    const uint64_t least = SaturatingSubtract(diagnosis.bytes, rewritten);
    diagnosis.saves = {.low = least, .best = least, .high = diagnosis.bytes};
  }
  return diagnosis;
}

}  // namespace cowprof
