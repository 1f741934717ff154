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
std::string Sharing(const ProcessModel& parent, const Facts& facts, bool reads) {
  const char* workers = facts.findings.workers.processes == 1 ? "its worker" : "its workers";
  const char* counts = reads ? ", which writes their reference counts" : "";
  if (facts.findings.forecast.living_workers == 0 || parent.copies_per_second == 0)
    return absl::StrCat(reads ? "read objects" : "wrote to memory", " that ", workers, " still shared", counts);
  return absl::StrCat("keeps ", reads ? "reading objects" : "writing to memory", " that ", workers, " still ",
                      facts.findings.workers.processes == 1 ? "shares" : "share", counts);
}

}  // namespace

Diagnosis ParentUnshare(const Facts& facts) {
  const ProcessModel* parent = facts.model.target();
  const uint64_t children = SaturatingSubtract(facts.findings.all.processes, uint64_t{1});
  // Without workers nobody knows with whom it shares: it may be a forked worker itself, whose children run commands.
  if (parent == nullptr || !parent->causes || !facts.HasWorkers()) return {};
  const uint64_t copies = parent->counts.copies.value_or(0);
  if (copies * facts.page_bytes <= RewrittenAfterForks(children) || copies < kNoticeableShare * (copies + facts.copies))
    return {};
  const uint64_t pickling = CopiedByPickling(facts);
  // That is told with what was pickled.
  if (2 * pickling > copies && !PickledArguments(facts).id.empty()) return {};
  Diagnosis diagnosis = {
      .id = "parent-unshare", .confidence = 0.9, .bytes = copies * facts.page_bytes, .pids = {parent->id.pid}};
  const BlameTables tables = TablesOf(facts.model, {.index = 0});
  std::string line;
  if (!tables.by_line.empty() && !tables.by_line[0].frame.file.empty() && tables.by_line[0].share >= kNoticeableLine) {
    const BlameRow& first = tables.by_line[0];
    const Culprit culprit = {.frame = first.frame, .via = first.via, .type = "", .share = first.share};
    line = absl::StrCat("; ", CulpritText(culprit, tables.blame.estimated, "at"));
    if (!IsOfLibrary(culprit.frame)) diagnosis.culprit = culprit;
  } else if (facts.native()) {
    const std::optional<NativeCode> code =
        NativeCodeOf(facts.model, tables.blame, [](const CopySite&) { return true; });
    if (code) line = absl::StrCat("; ", NativeCodeText(*code, tables.blame.estimated));
  }
  const auto mostly = [&](Cause cause) { return 2 * (*parent->causes)[static_cast<int>(cause)] >= copies; };
  const bool freed = mostly(Cause::kFree);
  diagnosis.summary = absl::StrCat(
      "The ", facts.Target(), " itself duplicated ", facts.Bytes(copies), ": it ",
      2 * pickling > copies ? "pickles objects that its workers still share, which writes their reference counts"
      : freed               ? "released objects that it shared with its workers, which first writes to them"
                            : Sharing(*parent, facts, mostly(Cause::kRefcount)),
      line, ".");
  const Count reuses = parent->counts.reuses();
  diagnosis.evidence = {
      absl::StrCat(HumanCount(copies), " copies in the parent",
                   reuses ? absl::StrCat(", ", HumanCount(reuses), " pages reused without a copy") : "")};
  diagnosis.advice = {
      facts.native()
          ? "Every page that the parent writes while a child lives is copied once: keep room for that, shorten the time "
            "for which children live, or let them work while few writes come in. A server that forks to save a snapshot "
            "(redis: BGSAVE, BGREWRITEAOF) needs up to twice its memory while the child lives; where its fork fails "
            "with \"Cannot allocate memory\", vm.overcommit_memory=1 allows it."
      : freed
          ? "Release them before the fork, or not at all: while a worker lives, the memory stays allocated, and the parent "
            "copies what it releases."
      : mostly(Cause::kRefcount)
          ? "Keep what the parent goes on reading after the fork in a few large buffers (numpy, Arrow, or all items "
            "pickled into one), which are read without a copy."
          : "Leave what the workers inherited alone in the parent once they run, or create what it keeps changing after "
            "the fork."};
  if (freed) diagnosis.bytes = std::min(diagnosis.bytes, parent->private_bytes.value_or(0));
  // Sets of workers that were forked one after another share again what was copied before: the sum over all is not
  // what the parent held at one time. What it writes after any fork it would write anyway.
  if (!facts.native() && !freed && facts.model.most_living_workers == facts.findings.workers.processes) {
    const uint64_t least = diagnosis.bytes - RewrittenAfterForks(children);
    diagnosis.saves = {.low = least, .best = least, .high = diagnosis.bytes};
  }
  return diagnosis;
}

}  // namespace cowprof
