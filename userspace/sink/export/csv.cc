// Spells the table of processes over time: RFC 4180, with "\n" at the end of a line.
#include "absl/strings/str_cat.h"
#include "sink/export/copies.h"
#include "sink/export/export.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

// A cell of a figure is empty where it is not known.
std::string Cell(const Count& count) { return count ? absl::StrCat(",", *count) : ","; }

}  // namespace

std::string CsvTable::Header() {
  std::string header =
      "seconds,index,pid,parent_index,role,worker,rank,copies,copied_bytes,private_bytes,still_shared_bytes,pss_bytes,"
      "zero_fills,descriptors";
  for (const Cause cause : kAll<Cause>) absl::StrAppend(&header, ",", NameOf(cause), "_copies");
  return header + "\n";
}

void CsvTable::Add(const Sample& sample, const RunModel& model) {
  unchanged_.clear();
  for (const ProcessSample& sampled : sample.processes) {
    const ProcessModel* process = model.Find(sampled.index);
    if (process == nullptr) continue;
    const FaultCounts& counts = process->counts;
    const Count bytes = counts.copies ? Count(CopiedBytes(*counts.copies, model.info)) : std::nullopt;
    std::string row = absl::StrCat(",", process->index, ",", process->id.pid, ",",
                                   process->parent < 0 ? "" : absl::StrCat(process->parent), ",", NameOf(process->role),
                                   ",", WorkerNumber(*process), ",", RankNumber(*process, model));
    for (const Count& figure : {counts.copies, bytes, process->private_bytes, process->still_shared_bytes,
                                process->pss_bytes, counts.zero_fills(), process->proc.descriptors})
      row += Cell(figure);
    for (int cause = 0; cause < kCauses; ++cause)
      row += Cell(process->causes ? Count((*process->causes)[cause]) : std::nullopt);
    row += "\n";
    std::string& before = rows_[process->index];
    const bool changed = row != before || process->ended;
    absl::StrAppend(changed ? &text_ : &unchanged_, SecondsText(sample.t), row);
    if (process->ended) {
      rows_.erase(process->index);
    } else if (changed) {
      before = std::move(row);
    }
  }
}

}  // namespace cowprof
