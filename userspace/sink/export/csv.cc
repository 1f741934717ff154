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
  for (const ProcessSample& row : sample.processes) {
    const ProcessModel* process = model.Find(row.index);
    if (process == nullptr) continue;
    const FaultCounts& counts = process->counts;
    const Count bytes = counts.copies ? Count(CopiedBytes(*counts.copies, model.info)) : std::nullopt;
    absl::StrAppend(&text_, SecondsText(sample.t), ",", process->index, ",", process->id.pid, ",",
                    process->parent < 0 ? "" : absl::StrCat(process->parent), ",", NameOf(process->role), ",",
                    WorkerNumber(*process), ",", RankNumber(*process, model));
    for (const Count& figure : {counts.copies, bytes, process->private_bytes, process->still_shared_bytes,
                                process->pss_bytes, counts.zero_fills(), process->proc.descriptors})
      text_ += Cell(figure);
    for (int cause = 0; cause < kCauses; ++cause)
      text_ += Cell(process->causes ? Count((*process->causes)[cause]) : std::nullopt);
    text_ += "\n";
  }
}

}  // namespace cowprof
