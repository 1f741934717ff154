// See alert_words.h.
#include "model/alert_words.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/grower.h"
#include "model/saturated.h"
#include "model/words.h"

namespace cowprof {
namespace {

const ProcessGrowth* ProcessOf(const Alert& alert, const Growth& growth) { return growth.Find(alert.index); }

std::string CauseWords(const std::string& cause) {
  if (cause == kNewMemory) return "new memory";
  if (cause == kSharedMemory) return "shared memory";
  if (cause == kDescriptors) return "open files";
  if (cause == NameOf(Cause::kUnknown)) return "copies of inherited memory";
  return absl::StrCat("copies of inherited memory (", cause, ")");
}

std::string GrowerWords(const Alert& alert, const Growth& growth) {
  const ProcessGrowth* process = ProcessOf(alert, growth);
  if (process == nullptr) return alert.cause.empty() ? "it is none of the processes that are followed" : "";
  const char* role = process->index == 0 ? "the target" : NameOf(process->role);
  return absl::StrCat(role, " ", process->id.pid, " grows most: ", CauseWords(alert.cause));
}

std::string MemoryAdvice(const std::string& cause, bool parent) {
  if (cause == kNewMemory) {
    return parent ? "write a checkpoint now; what the target itself keeps from step to step grows: results that hold "
                    "their batch or graph (loss instead of loss.item()), logs, caches"
                  : "write a checkpoint now; this is a leak in the worker and no copy-on-write: look for what it keeps "
                    "from item to item (a list, a dict, a cache)";
  }
  if (cause == kSharedMemory) return "write a checkpoint now; fewer workers or a smaller prefetch_factor";
  if (cause == NameOf(Cause::kGcHeader))
    return "write a checkpoint now; call gc.freeze() just before the workers are started";
  if (cause == NameOf(Cause::kData))
    return "write a checkpoint now; fewer workers: each writes its own copy of the data";
  if (cause.empty()) return "write a checkpoint now; look what else runs on this limit";
  return "write a checkpoint now; fewer workers, and for good the data in columns (numpy, Arrow) instead of Python "
         "objects";
}

}  // namespace

std::string AlertText(const Alert& alert, double per_second, const Growth& growth) {
  const LimitSample limit = {.kind = alert.kind, .name = alert.name, .limit = alert.limit, .used = alert.used};
  const auto figure = [&](uint64_t value) { return limit.counts_bytes() ? HumanBytes(value) : HumanCount(value); };
  const std::string use = absl::StrCat(figure(alert.used), " of ", figure(alert.limit), " used");
  if (alert.over) return absl::StrCat(LimitWords(limit), ": over, ", use);
  std::string text = alert.rule == AlertRule::kEta
                         ? absl::StrCat(LimitWords(limit), " is met in about ", HumanDuration(*alert.eta), ": ", use)
                         : absl::StrFormat("%s is %.0f %% full: %s", LimitWords(limit), 100 * *limit.ratio(), use);
  if (per_second > 0) absl::StrAppend(&text, ", +", figure(SaturatedCount(per_second)), "/s");
  if (alert.rule == AlertRule::kRatio && alert.eta) absl::StrAppend(&text, ", met in ", HumanDuration(*alert.eta));
  if (std::string grower = GrowerWords(alert, growth); !grower.empty() && alert.eta)
    absl::StrAppend(&text, "; ", grower);
  return text;
}

std::string AlertAdvice(const Alert& alert) {
  switch (alert.kind) {
    case LimitKind::kShm:
      return "fewer workers, a smaller batch or prefetch_factor now; for good a larger /dev/shm (docker run "
             "--shm-size, "
             "--ipc=host, or mount -o remount,size= /dev/shm)";
    case LimitKind::kShmInodes:
      return "fewer and larger tensors in a batch; for good mount -o remount,nr_inodes= /dev/shm";
    case LimitKind::kDescriptors:
      return "drop batches that are kept, or torch.multiprocessing.set_sharing_strategy('file_system'); for good a "
             "higher "
             "ulimit -n";
    case LimitKind::kAddressSpace:
      return "write a checkpoint now; raise ulimit -v, or start fewer threads and workers";
    case LimitKind::kCgroupV1:
    case LimitKind::kCgroupV2:
    case LimitKind::kHost:
      break;
  }
  return MemoryAdvice(alert.cause, alert.index == 0);
}

std::string AlertLine(const Alert& alert) {
  if (alert.over) return absl::StrCat("alert ended: ", Printable(alert.text, 400));
  return absl::StrCat("ALERT ", Printable(alert.text, 400), ". Do: ", Printable(alert.advice, 400));
}

const char* NameOf(AlertRule rule) { return rule == AlertRule::kRatio ? "ratio" : "eta"; }

}  // namespace cowprof
