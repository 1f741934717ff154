#include "model/judge/unexplained.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/facts/bad_end.h"
#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/launcher_ends.h"
#include "model/judge/native_code.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

const char* WordsOf(Cause cause) {
  switch (cause) {
    case Cause::kRefcount:
      return "reference counts";
    case Cause::kGcHeader:
      return "the collector's headers";
    case Cause::kAllocator:
      return "pymalloc's bookkeeping";
    case Cause::kBytecode:
      return "self-specialising bytecode";
    case Cause::kHash:
      return "cached hashes";
    case Cause::kData:
      return "writes other than reference counts";
    case Cause::kFree:
      return "released objects";
    case Cause::kKernel:
      return "writes by the kernel";
    case Cause::kUnknown:
      break;
    case Cause::kNativeRefcount:
      return "reference counts of C++ objects";
    case Cause::kMallocReuse:
      return "memory that the parent had freed";
  }
  return "for unknown causes";
}

// "60 % released objects, 40 % cached hashes"; "": most are unknown.
std::string CausesText(const CauseCounts& causes) {
  const uint64_t copies = Sum(causes);
  if (2 * causes[static_cast<int>(Cause::kUnknown)] >= copies) return "";
  std::vector<std::pair<uint64_t, std::string>> parts;
  for (int cause = 0; cause < kCauses; ++cause) {
    const double share = static_cast<double>(causes[cause]) / copies;
    if (share >= kNoticeableShare)
      parts.emplace_back(causes[cause], absl::StrCat(Percent(share), " ", WordsOf(static_cast<Cause>(cause))));
  }
  std::sort(parts.rbegin(), parts.rend());
  return absl::StrJoin(parts, ", ", [](std::string* out, const auto& part) { out->append(part.second); });
}

// What a process copied while nobody shared its memory is not told, unless most of it was pages of files. The target
// may be somebody's worker.
uint64_t CopiesToTell(const ProcessModel& process) {
  const uint64_t copies = process.counts.copies.value_or(0);
  const bool forked = process.index > 0 && process.at_first_fork;
  return forked && 2 * process.copies_of_files < copies ? process.shared_copies() : copies;
}

// Returns the process that copied most of those that copied more than noise; nullptr: none did. A parent of workers has
// diagnoses of its own.
const ProcessModel* MostCopied(const Facts& facts) {
  const ProcessModel* most = nullptr;
  for (const ProcessModel& process : facts.model.processes) {
    const uint64_t copies = CopiesToTell(process);
    if (copies * facts.page_bytes <= NoiseWithForks(process, facts.page_bytes)) continue;
    if (process.role == Role::kParent && facts.HasWorkers()) continue;
    if (most == nullptr || copies > CopiesToTell(*most)) most = &process;
  }
  return most;
}

// Ends the sentence of a process whose causes are unknown.
std::string WhyUnknown(const ProcessModel& process) {
  if (process.python_problem.empty()) return "; the reason is unknown.";
  const std::string version = process.python.empty() ? "" : absl::StrCat(" ", Printable(process.python));
  return absl::StrCat("; the reason is unknown (Python", version, ": ", Printable(process.python_problem, 200), ").");
}

// "; about 98 % of it at app.py:7 in work", where one line made most of it. `stacks`: of Python were read; then objects
// that were released where no line ran most likely were at the interpreter's exit.
std::string WhereText(const BlameTables& tables, const CauseCounts& causes, bool stacks) {
  if (tables.by_line.empty() || tables.by_line[0].share < kMostOfIt) return "";
  const BlameRow& first = tables.by_line[0];
  const bool released = 2 * causes[static_cast<int>(Cause::kFree)] >= Sum(causes);
  if (!first.frame.file.empty()) {
    const Culprit culprit = {.frame = first.frame, .via = first.via, .type = "", .share = first.share};
    return absl::StrCat(
        "; ", CulpritText(culprit, tables.blame.estimated, "at"), ".",
        released ? " Releasing inherited objects gives nothing back: it copies their pages first." : "");
  }
  if (!stacks || !released) return "";
  return "; no Python code ran then, as at the interpreter's exit, where it releases all objects: a forked process that "
         "ends with os._exit() does not.";
}

// ": 60 % released objects, 40 % cached hashes; about 98 % of it at app.py:7 in work.", ", 95 % of it in fill (table);
// why can't be said."
std::string WhyText(const ProcessModel& process, const CauseCounts& causes, const BlameTables& tables,
                    const RunModel& model) {
  const std::string why = CausesText(causes);
  if (why.empty()) {
    const auto code = NativeCodeOf(model, tables.blame, [](const CopySite&) { return true; });
    const bool native = code && process.framework == Framework::kNative;
    return absl::StrCat(native ? absl::StrCat(", ", NativeCodeText(*code, tables.blame.estimated)) : "",
                        WhyUnknown(process));
  }
  const std::string where = WhereText(tables, causes, !process.python.empty() && !model.frames.empty());
  return absl::StrCat(": ", why, where.empty() ? "." : where);
}

// "3 of 4 workers"
std::string Some(uint64_t some, const Facts& facts) {
  const uint64_t all = facts.findings.workers.processes;
  return some == all ? Plural(all, "worker") : absl::StrCat(some, " of ", Plural(all, "worker"));
}

// Of spawned workers, where most of what all workers copied were pages of files. "": it was not.
std::string WroteToFiles(absl::string_view method, const Facts& facts) {
  const Totals& workers = facts.findings.workers;
  uint64_t of_files = 0;
  ForEachRow(facts.model, [&](const ProcessModel& process) {
    if (process.is_worker()) of_files += process.copies_of_files;
  });
  if (2 * of_files < workers.copies) return "";
  const bool lines = of_files >= 0.9 * workers.copies && workers.causes_known;  // they are of all copies
  const std::string where = lines ? WhereText(facts.findings.of_workers, workers.causes, /*stacks=*/false) : "";
  return absl::StrCat(Plural(workers.processes, "worker"), ", which inherited nothing (", method,
                      "), wrote to private mappings of files (", kPrivateMaps,
                      ", or libraries as they are loaded): ", facts.Bytes(of_files), " of their pages became ",
                      workers.processes == 1 ? "its" : "their", " own memory", where.empty() ? "." : where);
}

std::string CopiedSentence(const ProcessModel& most, const Facts& facts) {
  const Totals& workers = facts.findings.workers;
  const bool notable = NotableCopies(most, facts.page_bytes) > 0;
  if (notable && facts.OthersCopiedMuch()) {
    const bool one = facts.pids.size() == 1;
    return absl::StrCat(Some(facts.pids.size(), facts), " copied ", facts.Bytes(facts.copies_of_pids),
                        " of inherited memory",
                        WhyText(most, facts.causes_of_pids,
                                one ? TablesOf(facts.model, {.index = most.index}) : BlameTables{}, facts.model));
  }
  // Most of what a worker that forks copied, it did not inherit: it shared it with those that it forked.
  if (most.is_worker() && (notable || !HasForked(most))) {
    const bool spawned = !PicklingMethodOf(most).empty() && most.causes && !HasInheritedMemory(most);
    if (std::string wrote = spawned ? WroteToFiles(PicklingMethodOf(most), facts) : ""; !wrote.empty()) return wrote;
    return absl::StrCat(
        Plural(workers.processes, "worker"), spawned ? ", which inherited nothing (" : "",
        spawned ? PicklingMethodOf(most) : "", spawned ? ")," : "", " copied ", facts.Bytes(workers.copies),
        spawned ? ", such as pages of loaded libraries" : " of inherited memory",
        WhyText(most, workers.causes_known ? workers.causes : CauseCounts{}, facts.findings.of_workers, facts.model));
  }
  if (2 * most.copies_of_files >= *most.counts.copies) {
    return absl::StrCat(most.role == Role::kParent
                            ? "No worker was forked. The target"
                            : absl::StrCat("The ", NameOf(most), " (", Printable(most.comm), ")"),
                        " wrote to private mappings of files (", kPrivateMaps, "): ", facts.Bytes(most.copies_of_files),
                        " of their pages became its own memory.");
  }
  const uint64_t told = CopiesToTell(most), untold = *most.counts.copies - told;
  const std::string what = absl::StrCat(" copied ", facts.Bytes(told), " of memory that it shares with ");
  if (most.role == Role::kParent) {
    const std::string worker = TargetIsWorkerText(facts);
    if (!worker.empty()) return absl::StrCat(worker, " It", what, "others.");
    return absl::StrCat("No worker was forked, but the target itself", what,
                        "another process. If it is a worker, attach to its parent.");
  }
  const std::string why = untold > kNoticeableShare * told  // causes and lines are of all
                              ? WhyUnknown(most)
                              : WhyText(most, most.causes.value_or(CauseCounts{}),
                                        TablesOf(facts.model, {.index = most.index}), facts.model);
  if (most.execed && most.origin == Origin::kForked && !HasForked(most)) {
    return absl::StrCat("The ", NameOf(most), " (", Printable(most.comm), ") copied ", facts.Bytes(*most.counts.copies),
                        " of inherited memory before it called exec, which gave that back", why);
  }
  return absl::StrCat("The ", NameOf(most), " (", Printable(most.comm), ")", what, "others", why);
}

// Copies that nobody saw, or that belong to no process, may be anybody's.
std::string LostSentence(const Facts& facts) {
  const Losses& losses = facts.model.losses;
  const uint64_t lost = SaturatingAdd(losses.unattributed_copies, losses.probes_skipped);
  if (lost * facts.page_bytes > kNoiseBytes)
    return absl::StrCat("Up to ", facts.Bytes(lost), " were copied by processes that are not known (losses).");
  if (losses.threads_refused > 0)
    return "Some copies were not seen: the kernel had no memory for the state of threads (losses).";
  return "";
}

// "Alert at 1.7 s: cgroup /job full in about 1.8 s: ...". Alerts of hangs have a finding.
std::string StandingSentence(const std::vector<const Alert*>& standing) {
  const auto of_limit = [](const Alert* alert) { return alert->rule != AlertRule::kHang; };
  const auto first = std::find_if(standing.begin(), standing.end(), of_limit);
  if (first == standing.end()) return "";
  return absl::StrCat("Alert at ", HumanDuration((*first)->t), ": ", Printable((*first)->text, 1000), ".");
}

// "trainer", "parent"; of what has no workers itself, such as a shell above them: "target".
absl::string_view TargetWord(const ProcessModel& target, const Findings& findings) {
  if (!target.leads) return "target";
  return findings.trains ? "trainer" : "parent";
}

// Of a target that is not a launcher, if it ended badly.
std::optional<LauncherEnd> TargetEnd(const RunModel& model, const Findings& findings) {
  const ProcessModel* const target = model.target();
  if (target == nullptr || LaunchersOf(model).contains(0) || !HasBadEnd(*target, model)) return std::nullopt;
  return LauncherEnd{target, findings.EndOf(*target).text};
}

// "": the error that ended it does not tell.
absl::string_view RemedyFor(const ProcessModel& ended) {
  const LastErrorSeen* const error = FatalError(ended);
  const bool unguarded = error != nullptr && error->importing_main;
  return unguarded ? " What starts processes must stand under if __name__ == \"__main__\" in the main module." : "";
}

// Of workers, or of ranks.
struct BadEnds {
  uint64_t all = 0, bad = 0;
  uint64_t at_once = 0;                 // 0: not told
  const ProcessModel* first = nullptr;  // of those that are listed

  void Add(const ProcessModel& process) {
    ++bad;
    if (first == nullptr || *process.ended < *first->ended) first = &process;
  }
  // "2 of 34 workers ended badly: worker 4711 was killed by SIGSEGV, and 1 more."; "1 of 4 ranks (2 at a time) ended
  // badly": torchrun started them anew.
  std::string Text(absl::string_view noun, const RunModel& model, const Findings& findings) const {
    std::string text =
        absl::StrCat(bad, " of ", Plural(all, noun),
                     at_once > 0 && at_once < all ? absl::StrCat(" (", at_once, " at a time)") : "", " ended badly");
    if (first != nullptr) {
      const absl::string_view end = findings.EndOf(*first).text;
      absl::StrAppend(&text, ": ",
                      IsTrainer(*first, model) ? absl::StrCat(LabelOf(*first, model), " (pid ", first->id.pid, ")")
                                               : NameOf(*first),
                      first->exit->signaled            ? " was "
                      : absl::StartsWith(end, "exit ") ? " ended with "
                                                       : " ",
                      end, bad > 1 ? absl::StrCat(", and ", bad - 1, " more") : "");
    }
    return absl::StrCat(text, ".", first != nullptr ? RemedyFor(*first) : "");
  }
};

}  // namespace

std::string ReleasedBeside(const Facts& facts, uint64_t copies) {
  const uint64_t released = facts.Of(Cause::kFree);
  const uint64_t most =
      std::max({facts.Of(Cause::kRefcount), facts.Of(Cause::kNativeRefcount), facts.Of(Cause::kGcHeader),
                facts.Of(Cause::kData) + facts.Of(Cause::kKernel), facts.Of(Cause::kMallocReuse)});
  if (copies < most || released <= copies || !facts.Matters({Cause::kFree})) return "";
  uint64_t known = 0, without_line = 0;
  for (const CopySiteShare& share : facts.tables().blame.copy_sites) {
    const CopySite& site = facts.model.copy_sites[share.copy_site];
    if (site.cause != Cause::kFree) continue;
    known += share.copies;
    if (LineOf(facts.model, site.frames).frame.file.empty()) without_line += share.copies;
  }
  const bool at_exit = !facts.native() && !facts.model.frames.empty() && 2 * without_line > known;
  return absl::StrCat("; releasing objects", at_exit ? ", as at the interpreter's exit (which os._exit() skips)," : "",
                      " copied another ", facts.Bytes(released));
}

std::string AdviceOnReleasing(const Facts& facts, uint64_t copies) {
  if (facts.native()) {
    return "If the workers free what they inherited: free() writes to it, and gives nothing back. Let the end of the "
           "process do that; _exit(2) skips destructors.";
  }
  if (ReleasedBeside(facts, copies).empty()) return "";
  return absl::StrCat(
      "Releasing inherited objects gives nothing back, since it copies their pages first: let the "
      "workers keep them to their end, or drop them ",
      facts.BeforeTheFork("in the parent before the fork"), ".");
}

std::string EndsSentence(const RunModel& model, const Findings& findings) {
  std::vector<LauncherEnd> heads = LauncherEndsIn(model, findings);
  if (std::optional<LauncherEnd> target = TargetEnd(model, findings)) heads.push_back(*std::move(target));
  const ProcessModel* const head = heads.empty() ? nullptr : heads.front().process;
  const bool launcher = head != nullptr && LaunchersOf(model).contains(head->index);
  const bool trains = head != nullptr && IsTrainer(*head, model);  // as under Lightning
  BadEnds workers = {.all = findings.workers.processes}, ranks = {.at_once = SlotsOf(model).ranks};
  uint64_t together = 0;
  bool passed_on = false;  // `head` ended by what happened to its workers or to other ranks
  for (const ProcessModel& process : model.processes) {
    ranks.all += IsTrainer(process, model);
    BadEnds& ends = process.role == Role::kRank ? ranks : workers;
    if (!process.ended || !(process.is_worker() || process.role == Role::kRank)) continue;
    if (head != nullptr && EndedTogether(process, heads.front(), findings)) {
      ++together;
    } else if (HasBadEnd(process, model)) {
      ends.Add(process);
      passed_on |= head != nullptr && !head->exit->signaled && (!launcher || trains) &&
                   *process.ended <= *head->ended && *process.ended >= *head->ended - kPassedOnWithin;
    }
  }
  for (const ProcessModel& row : model.ended_aggregates) {
    const bool of_ranks = row.role == Role::kRank;
    if (of_ranks) {
      ranks.all += row.stands_for;
      ranks.at_once = 0;
    }
    if (of_ranks || row.is_worker()) (of_ranks ? ranks : workers).bad += row.bad_ends;
  }
  std::vector<std::pair<absl::Duration, std::string>> told;
  if (passed_on && trains) {
    ranks.Add(*head);
  } else if (head != nullptr && !passed_on) {
    told.emplace_back(
        *head->ended,
        absl::StrCat(
            "The ", launcher ? NameOf(*head, model) : absl::StrCat(TargetWord(*head, findings), " ", head->id.pid),
            head->exit->signaled ? " was " : " ended with ", heads.front().text,
            together == 0 ? ""
                          : absl::StrCat(", and ", together, together == 1 ? " process" : " processes", " with it"),
            "."));
    ranks.all -= trains;
    ranks.at_once -= trains && ranks.at_once > 0;
  }
  for (const auto& [ends, noun] :
       {std::pair(&ranks, trains && !passed_on ? "other rank" : "rank"), std::pair(&workers, "worker")}) {
    if (ends->bad == 0) continue;
    told.emplace_back(ends->first == nullptr ? absl::InfiniteDuration() : *ends->first->ended,
                      ends->Text(noun, model, findings));
  }
  absl::c_stable_sort(told, [](const auto& a, const auto& b) { return a.first < b.first; });
  return absl::StrJoin(told, " ", [](std::string* out, const auto& one) { out->append(one.second); });
}

bool ChildEndedBadly(const RunModel& model) {
  return absl::c_any_of(model.processes, [&](const ProcessModel& process) {
    const bool forked = process.is_worker() || (process.role == Role::kRank && !process.execed);
    return forked && HasBadEnd(process, model);
  });
}

std::string UnexplainedMemory(const Facts& facts) {
  uint64_t unexamined = 0, of_unknown_past = 0;
  for (const ProcessModel& process : facts.model.processes) {
    if (process.oom_victim && !process.oom)
      return absl::StrCat("The OOM killer chose ", NameOf(process), "; which limit was met is unknown.");
    if (!process.is_worker()) continue;
    if (!process.counts.copies) ++unexamined;
    of_unknown_past += process.origin == Origin::kFoundAtAttach && !process.execed && !process.before_attach_bytes;
  }
  if (const ProcessModel* most = MostCopied(facts)) return CopiedSentence(*most, facts);
  if (std::string lost = LostSentence(facts); !lost.empty()) return lost;
  if (unexamined > 0)
    return absl::StrCat("The pages of ", Some(unexamined, facts), " were not examined: what was copied is unknown.");
  if (of_unknown_past > 0) {
    return absl::StrCat("What ", Some(of_unknown_past, facts),
                        " had copied before cowprof attached is not known; since then next to nothing was copied.");
  }
  if (!facts.findings.forecast.ended) return StandingSentence(StandingOf(facts.findings.alerts));
  return "";
}

std::string Unexplained(const Facts& facts) {
  std::string ends = EndsSentence(facts.model, facts.findings);
  return ends.empty() ? UnexplainedMemory(facts) : ends;
}

}  // namespace cowprof
