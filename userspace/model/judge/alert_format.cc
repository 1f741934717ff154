#include "model/judge/alert_format.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "model/base_name.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/findings.h"
#include "model/judge/post_mortem.h"
#include "model/judge/top_contributor.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

const ProcessModel* ProcessOf(const Alert& alert, const RunModel& model) { return model.Find(alert.index); }

std::string FormatCause(const std::string& cause, const ProcessModel& process) {
  if (cause == kNewMemory) return "new memory";
  if (cause == kSharedMemory) return "shared memory";
  if (cause == kDescriptors) return "open files";
  if (cause == kMappings) return "memory mappings";
  if (process.copies_of_files > process.inherited_copies()) return "copied pages of files that it maps privately";
  if (cause == NameOf(Cause::kUnknown)) return "copies of inherited memory";
  return absl::StrCat("copies of inherited memory (", cause, ")");
}

std::string FormatTopContributor(const Alert& alert, const RunModel& model) {
  if (alert.kind == LimitKind::kCommit) return "";  // no process shows what it has committed
  const ProcessModel* process = ProcessOf(alert, model);
  if (process == nullptr && alert.cause == kSharedMemory) return "what grows is shared memory, in /dev/shm";
  if (process == nullptr && !alert.cause.empty()) return "";
  if (process == nullptr) {
    // The driver's pages are in no process's figures; whether a cgroup counts them was not tried.
    const bool cuda = absl::c_any_of(model.fork_hazards, [](const auto& seen) { return seen.second.last.cuda; });
    return absl::StrCat("what grows is outside the recorded processes",
                        cuda && alert.kind == LimitKind::kHost
                            ? ", or pinned memory (pin_memory=True, prefetch_factor), which counts for none of them"
                            : "");
  }
  const std::string name = process->index == 0 ? absl::StrCat("target ", process->id.pid) : NameOf(*process, model);
  return absl::StrCat(name, " grows most: ", FormatCause(alert.cause, *process));
}

// What new memory is depends on whose it is: of a helper or a forkserver nothing is known but that it grows.
std::string NewMemoryAdvice(const ProcessModel* process, Framework framework) {
  if (process != nullptr && process->index == 0) {
    return absl::StrCat("new memory of the target itself, not copy-on-write: if it grows at each step, look for ",
                        framework == Framework::kDataLoader
                            ? "results that hold their batch or graph (loss instead of loss.item()), "
                            : "results that it keeps, ",
                        "logs, caches");
  }
  if (process != nullptr && process->is_worker()) {
    return "new memory of the worker, not copy-on-write: if it does not end, look for what it keeps from item to item "
           "(a list, a dict, a cache), or whether malloc keeps what was freed";
  }
  return "new memory of this process, not copy-on-write: look for what it keeps";
}

// How many ranks there are is not a setting of memory.
std::string CopyAdvice(const std::string& cause, bool of_rank) {
  const auto advise = [of_rank](absl::string_view why) {
    return absl::StrCat(of_rank ? "see cowprof report: " : "use fewer workers: ", why);
  };
  const auto advise_long_term = [of_rank](absl::string_view change) {
    return absl::StrCat(of_rank ? "" : "use fewer workers; long-term, ", change);
  };
  if (cause == NameOf(Cause::kData)) return advise("each writes its own copy of the data");
  if (cause == NameOf(Cause::kNativeRefcount)) return advise_long_term("keep many small tensors in one (torch.stack)");
  if (cause == NameOf(Cause::kMallocReuse))
    return advise("they allocate in inherited memory that the parent had freed");
  // Columns have no reference counts and no cached hashes. Against the kernel's writes, the allocator's and those of
  // code that specialises itself, they don't help.
  if (cause == NameOf(Cause::kRefcount) || cause == NameOf(Cause::kHash))
    return advise_long_term("keep the data in columns (numpy, Arrow) instead of Python objects");
  return of_rank ? advise("each copies what it inherits")
                 : advise("each copies what it inherits; cowprof report says what and where");
}

std::string MemoryAdvice(const std::string& cause, const ProcessModel* process, Framework framework,
                         bool has_gc_freeze) {
  const bool served = process != nullptr && process->duty.start == StartMethod::kForkserver;
  if (cause == kNewMemory) return NewMemoryAdvice(process, framework);
  if (cause == kSharedMemory)
    return framework == Framework::kDataLoader ? "use fewer workers or a smaller prefetch_factor"
                                               : "keep less in shared memory";
  if (cause == NameOf(Cause::kGcHeader))
    return !has_gc_freeze ? "call gc.disable() in the workers if they create no cycles"
           : served       ? "call gc.freeze() at the end of the last module that the forkserver preloads"
                          : "call gc.freeze() once, before the workers start";
  if (cause.empty()) return "find what else counts against this limit";
  return CopyAdvice(cause, process != nullptr && process->role == Role::kRank);
}

// The findings about copies by each cause; more than one: whichever comes first.
std::vector<absl::string_view> IdsOfCopies(const std::string& cause) {
  if (cause == NameOf(Cause::kRefcount)) return {"cow-refcount"};
  if (cause == NameOf(Cause::kNativeRefcount)) return {"torch-refcount"};
  if (cause == NameOf(Cause::kGcHeader)) return {"cow-gc-header"};
  if (cause == NameOf(Cause::kData) || cause == NameOf(Cause::kKernel)) return {"cow-data"};
  if (cause == NameOf(Cause::kMallocReuse)) return {"allocator-reuse"};
  // Hashes, released objects and the like are by-products of the copies that have a finding.
  return {"cow-refcount", "torch-refcount", "cow-gc-header", "cow-data"};
}

// The findings that explain why this limit fills with this. A leak in a worker is not explained by one outside the
// workers.
std::vector<absl::string_view> IdsThatFit(const Alert& alert, bool of_worker) {
  if (alert.rule == AlertRule::kHang) return {"fork-hang"};
  switch (alert.kind) {
    case LimitKind::kShm:
      return {"shm-full", "shm-near-full", "shm-leaked"};
    case LimitKind::kDescriptors:
      return {"fd-exhaustion"};
    case LimitKind::kShmInodes:
      return {"shm-leaked"};
    case LimitKind::kMappings:
    case LimitKind::kCommit:
      return {};
    case LimitKind::kAddressSpace:
    case LimitKind::kCgroupV1:
    case LimitKind::kCgroupV2:
    case LimitKind::kHost:
      break;
  }
  if (alert.cause.empty()) return {};
  if (alert.cause == kSharedMemory) return {"shm-full", "shm-near-full", "shm-leaked"};
  if (alert.cause == kNewMemory && !of_worker) return {"trainer-growth"};
  if (alert.cause == kNewMemory) return {"gc-disabled", "new-memory-growth", "pickled-arguments", "private-by-spawn"};
  return of_worker ? IdsOfCopies(alert.cause) : std::vector<absl::string_view>{"parent-unshare"};
}

// Findings about processes outside the workers are each about one: that of another does not explain this one's growth.
bool IsAboutAnother(const Diagnosis& found, const ProcessModel* process) {
  const bool of_one = found.id == "trainer-growth" || found.id == "parent-unshare";
  return of_one && process != nullptr && !found.pids.empty() && !absl::c_linear_search(found.pids, process->id.pid);
}

// What helps at once, before what the finding advises.
std::string AtOnce(const Alert& alert, const ProcessModel* process, const Findings& findings, absl::string_view then) {
  if (absl::StartsWith(then, kNoLargerShm)) return "";
  if (alert.kind == LimitKind::kShm || alert.kind == LimitKind::kShmInodes) {
    return findings.framework == Framework::kDataLoader
               ? "use fewer workers, a smaller batch or prefetch_factor now; then: "
               : "use fewer workers now; then: ";
  }
  const bool saves = findings.trains;
  const bool fewer_would_help =
      alert.cause != kNewMemory && process != nullptr && process->is_worker() && process->role != Role::kRank;
  if (!fewer_would_help) return saves ? "write a checkpoint now; then: " : "";
  return absl::StrCat(saves ? "write a checkpoint now, " : "", "use fewer workers; then: ");
}

void Explain(const Findings& findings, const Diagnosis& found, const ProcessModel* process, Alert* alert) {
  alert->diagnosis = found.id;
  alert->headline = &found == &findings.diagnoses.front() ? findings.headline.sentence : found.summary;
  // Its text and advice are those of its own process; the finding may be about several.
  if (alert->rule == AlertRule::kHang) return;
  alert->culprit = found.culprit;
  if (found.culprit && found.culprit->share >= kMostOfIt) {
    const Frame& frame = found.culprit->frame;
    absl::StrAppend(&alert->text, ", mostly at ",
                    LineText({std::string(BaseName(frame.file)), frame.function, frame.line}),
                    found.culprit->type.empty() ? "" : absl::StrCat(" (", Printable(found.culprit->type), ")"));
  }
  // What is found of a full /dev/shm advises a larger one, which the memory that is full has to hold.
  const bool larger_shm = IsMemory(alert->kind) && alert->cause == kSharedMemory && found.id != "shm-leaked";
  if (found.advice.empty() || larger_shm) return;
  const absl::string_view first = absl::StripSuffix(found.advice[0], ".");
  if (alert->kind != LimitKind::kDescriptors) {
    alert->advice = absl::StrCat(AtOnce(*alert, process, findings, first), first);
  } else {  // its two pieces are: what to do now, and the limit
    alert->advice = found.advice.size() < 2 ? std::string(first)
                                            : absl::StrCat(first, ". ", absl::StripSuffix(found.advice[1], "."));
  }
}

}  // namespace

void ExplainAlerts(const Findings& findings, const RunModel& model, std::vector<Alert>* alerts) {
  for (Alert& alert : *alerts) {
    if (alert.over) continue;
    const ProcessModel* const process = ProcessOf(alert, model);
    const bool of_worker = process != nullptr && process->is_worker();
    const std::vector<absl::string_view> ids = IdsThatFit(alert, of_worker);
    const auto found = std::find_if(findings.diagnoses.begin(), findings.diagnoses.end(), [&](const Diagnosis& one) {
      return absl::c_linear_search(ids, one.id) && !IsAboutAnother(one, process);
    });
    if (found != findings.diagnoses.end()) Explain(findings, *found, process, &alert);
  }
}

std::string AlertText(const Alert& alert, double per_second, std::optional<double> most_copies, const RunModel& model) {
  const LimitSample limit = {.kind = alert.kind, .name = alert.name, .limit = alert.limit, .used = alert.used};
  const auto figure = [&](uint64_t value) { return HumanAmount(limit.kind, value); };
  const std::string use = absl::StrCat(figure(alert.used), " of ", figure(alert.limit), " used");
  if (alert.over) {
    const char* const why = alert.rule == AlertRule::kRatio ? "no longer near its limit"
                            : per_second > 0                ? "no longer filling up so fast"
                                                            : "no longer filling up";
    return absl::StrCat(FormatLimit(limit), ": ", why, ", ", use);
  }
  std::string text = alert.rule == AlertRule::kEta
                         ? absl::StrCat(FormatLimit(limit), " full in about ", HumanDuration(*alert.eta), ": ", use)
                         : absl::StrFormat("%s %.0f %% full: %s", FormatLimit(limit), 100 * *limit.ratio(), use);
  if (per_second >= 1) absl::StrAppend(&text, ", +", figure(SaturatingCast(per_second)), "/s");
  if (alert.rule == AlertRule::kRatio && alert.eta) absl::StrAppend(&text, ", full in ", HumanDuration(*alert.eta));
  if (alert.eta && most_copies)
    absl::StrAppend(&text, " if copying goes on (at most ", figure(SaturatingCast(*most_copies)), " more)");
  if (std::string top_contributor = FormatTopContributor(alert, model); !top_contributor.empty() && alert.eta)
    absl::StrAppend(&text, "; ", top_contributor);
  return text;
}

std::string AlertAdvice(const Alert& alert, const RunModel& model) {
  const Framework framework = FrameworkOf(model);
  const bool dataloader = framework == Framework::kDataLoader;
  const char* const save = Trains(model) ? "write a checkpoint now; " : "";
  switch (alert.kind) {
    case LimitKind::kShm:
      return absl::StrCat(
          dataloader ? "use fewer workers, a smaller batch or prefetch_factor now" : "keep less in shared memory",
          "; long-term, a larger /dev/shm (", model.info.shm_of_host ? "" : "docker run --shm-size, --ipc=host, or ",
          "mount -o remount,size= /dev/shm)");
    case LimitKind::kShmInodes:
      return absl::StrCat(dataloader ? "use fewer and larger tensors in a batch" : "use fewer and larger segments",
                          "; long-term, mount -o remount,nr_inodes= /dev/shm");
    case LimitKind::kDescriptors:
      return absl::StrCat(dataloader ? "drop batches that are kept, or call "
                                       "torch.multiprocessing.set_sharing_strategy('file_system')"
                                     : "close files that are no longer needed",
                          "; long-term, raise ulimit -n");
    case LimitKind::kAddressSpace:
      return absl::StrCat(save, "raise ulimit -v, or start fewer threads and workers");
    case LimitKind::kMappings:
      return absl::StrCat(save,
                          dataloader ? "drop tensors from workers that are kept (with file_system sharing each is a "
                                       "mapping)"
                                     : "unmap files and segments that are no longer needed",
                          "; long-term, sysctl -w vm.max_map_count=1048576, on the host");
    case LimitKind::kCommit:
      return absl::StrCat(save,
                          "start fewer workers (each fork commits its parent's private memory once more); long-term, "
                          "sysctl -w vm.overcommit_memory=0, or a larger vm.overcommit_ratio");
    case LimitKind::kCgroupV1:
    case LimitKind::kCgroupV2:
    case LimitKind::kHost:
      break;
  }
  return absl::StrCat(save, MemoryAdvice(alert.cause, ProcessOf(alert, model), framework, !HasOlderPython(model, 7)));
}

std::string AlertLine(const Alert& alert) {
  if (alert.over) return absl::StrCat("alert ended: ", Printable(alert.text, 400));
  return absl::StrCat("ALERT ", Printable(alert.text, 1000),
                      alert.advice.empty() ? "" : absl::StrCat(". Do: ", Printable(alert.advice, 400)));
}

}  // namespace cowprof
