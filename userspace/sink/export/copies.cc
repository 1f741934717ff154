#include "sink/export/copies.h"

#include <algorithm>
#include <limits>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/blame.h"

namespace cowprof {

std::vector<ExportedCopies> CopiesOf(const RunModel& model) {
  std::vector<ExportedCopies> rows;
  ForEachRow(model, [&](const ProcessModel& process) {
    const uint64_t counted = process.counts.copies.value_or(0);
    const auto add = [&](int copy_site, Cause cause, uint64_t copies) {
      if (copies > 0) rows.push_back({.process = &process, .copy_site = copy_site, .cause = cause, .copies = copies});
    };
    const std::vector<CopySiteShare> shares = CopiesByCopySite(process);
    for (const CopySiteShare& share : shares)
      add(share.copy_site, model.copy_sites[share.copy_site].cause, share.copies);
    if (!shares.empty()) return;
    const CauseCounts causes = process.causes.value_or(CauseCounts{});
    if (Sum(causes) != counted) return add(-1, Cause::kUnknown, counted);
    for (int cause = 0; cause < kCauses; ++cause) add(-1, static_cast<Cause>(cause), causes[cause]);
  });
  return rows;
}

int64_t CopiedBytes(uint64_t copies, const RunInfo& info) {
  const absl::uint128 bytes = absl::uint128(copies) * info.page_bytes;
  return static_cast<int64_t>(std::min<absl::uint128>(bytes, std::numeric_limits<int64_t>::max()));
}

std::string Readable(absl::string_view name) { return Printable(name, std::numeric_limits<size_t>::max()); }

std::string ProcessLabel(const ProcessModel& process, const RunModel& model) {
  if (process.stands_for > 1) return absl::StrCat(process.stands_for, " ", NameOf(process.role), " processes");
  return absl::StrCat(LabelOf(process, model), " (", process.id.pid, ")");
}

std::string WorkerNumber(const ProcessModel& process) {
  if (!process.is_worker() || process.stands_for > 1) return "";
  return absl::StrCat(process.loader ? process.loader->worker_id : static_cast<uint64_t>(process.id.pid));
}

std::string RankNumber(const ProcessModel& process, const RunModel& model) {
  const RankFacts* rank = process.stands_for > 1 ? nullptr : RankOf(process, model);
  return rank != nullptr && rank->rank ? absl::StrCat(*rank->rank) : "";
}

std::vector<NamedFrame> StackOf(const ExportedCopies& row, const RunModel& model) {
  if (row.copy_site < 0) return {{.name = "(not known)"}};
  const CopySite& site = model.copy_sites[row.copy_site];
  std::vector<NamedFrame> stack;
  for (const int number : site.frames) {
    const Frame& frame = model.frames[number];
    stack.push_back({Readable(frame.function), Readable(frame.file), frame.line});
  }
  if (!stack.empty()) return stack;
  const std::string module = Readable(site.module);
  if (!site.symbol.empty()) return {{.name = Readable(site.symbol), .file = module}};
  return {{.name = module.empty() ? "(not known)" : module, .file = module}};
}

std::string WrittenName(const ExportedCopies& row, const RunModel& model) {
  const std::string type = row.copy_site < 0 ? "" : Readable(model.copy_sites[row.copy_site].type);
  return type.empty() ? NameOf(row.cause) : absl::StrCat(type, ": ", NameOf(row.cause));
}

}  // namespace cowprof
