// What every format of stacks is made of: the copies of a run, by process and copy site, and the names of both. Pure.
#ifndef COWPROF_SINK_EXPORT_COPIES_H_
#define COWPROF_SINK_EXPORT_COPIES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/facts/run_model.h"

namespace cowprof {

struct ExportedCopies {
  const ProcessModel* process = nullptr;
  int copy_site = -1;  // number in RunModel::copy_sites; -1: not known
  Cause cause = Cause::kUnknown;
  uint64_t copies = 0;
};
// Those of every process; they sum to the copies that were counted. Without copy sites, by cause alone.
std::vector<ExportedCopies> CopiesOf(const RunModel& model);

// Copies in bytes, at most what an int64_t holds.
int64_t CopiedBytes(uint64_t copies, const RunInfo& info);

// A name chosen by the target, whole, as valid UTF-8 without control characters.
std::string Readable(absl::string_view name);

// "worker 1 of rank 0 (4711)", or "3 worker processes" of a row of ended_aggregates.
std::string ProcessLabel(const ProcessModel& process, const RunModel& model);
// The DataLoader's worker_id of a worker, or its pid; "" of other processes.
std::string WorkerNumber(const ProcessModel& process);
std::string RankNumber(const ProcessModel& process, const RunModel& model);  // "": none is known

struct NamedFrame {
  std::string name, file;
  int line = 0;  // 0: unknown
  auto operator<=>(const NamedFrame&) const = default;
};
// Innermost first. Without Python frames, the native code that wrote; at least one frame.
std::vector<NamedFrame> StackOf(const ExportedCopies& row, const RunModel& model);
// What was written: "str: refcount"; without a type, the cause.
std::string WrittenName(const ExportedCopies& row, const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_SINK_EXPORT_COPIES_H_
