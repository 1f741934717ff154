// Judges rows one by one; a cause once found for an image, a shape and an instruction is kept, as long as the code
// could be read.
#include "attribution/row_causes.h"

#include <algorithm>
#include <string>

#include "model/saturating.h"
#include "python/cause.h"

namespace cowprof {

Cause RowCauses::Of(Program& program, const Member& member, uint32_t image, cowprof_shape shape, uint64_t ip) {
  if (shape == COWPROF_SHAPE_UNREAD) return program.python() == Program::Python::kNone ? Cause::kData : Cause::kUnknown;
  const std::tuple<uint32_t, uint32_t, uint64_t> key = {image, shape, ip};
  if (const auto judged = judged_.find(key); judged != judged_.end()) return judged->second;
  program.memory().Prefer(member.id);
  const std::optional<NativeSymbol> symbol = NeedsSymbol(shape) ? program.SymbolOf(ip) : NativeSymbol{};
  const std::optional<WriteKind> kind = ip != 0 ? program.KindOf(ip) : WriteKind::kOther;
  const Cause cause = CauseOf(shape, kind.value_or(WriteKind::kOther), symbol.value_or(NativeSymbol{}).symbol);
  if (symbol && kind) judged_[key] = cause;
  return cause;
}

Cause RowCauses::OfShape(uint32_t serial, cowprof_shape shape) const {
  const auto found = shapes_.find({serial, shape});
  if (found == shapes_.end()) return Cause::kUnknown;
  const CauseCounts& causes = found->second;
  return static_cast<Cause>(std::max_element(causes.begin(), causes.end()) - causes.begin());
}

void RowCauses::Judge(const std::vector<FollowedProcess>& processes, const Pull& pull, Sample* sample) {
  absl::flat_hash_map<uint32_t, CauseCounts> causes;  // by serial
  absl::flat_hash_map<SiteTrust::Site, SiteTrust::Looked> looked;
  CauseEvidence now = ended_evidence_;
  shapes_.clear();
  absl::flat_hash_set<uint32_t> ended;
  for (const FollowedProcess& process : processes) {
    if (process.exited_ns != 0) ended.insert(process.serial);
  }
  for (const CauseRow& row : pull.causes) {
    const Member* member = programs_->Find(row.serial);
    if (member == nullptr) continue;
    const Cause cause = Of(programs_->OfRow(row.image, *member), *member, row.image, row.shape, row.ip);
    causes[row.serial][static_cast<int>(cause)] += row.copies;
    shapes_[{row.serial, row.shape}][static_cast<int>(cause)] += row.copies;
    if (row.shape == COWPROF_SHAPE_UNREAD || row.shape == COWPROF_SHAPE_KERNEL || row.sampled) continue;
    // The page decided, not the instruction.
    if (row.shape == COWPROF_SHAPE_FREED || row.shape == COWPROF_SHAPE_FREED_KERNEL ||
        row.shape == COWPROF_SHAPE_UNSURE || row.shape == COWPROF_SHAPE_UNSURE_KERNEL)
      continue;
    (row.told ? now.told : now.looked) += row.copies;
    if (ended.contains(row.serial)) (row.told ? ended_evidence_.told : ended_evidence_.looked) += row.copies;
    if (row.told || row.ip == 0) continue;
    SiteTrust::Looked& site = looked[{row.image, row.ip}];
    site.copies[static_cast<int>(cause)] += row.copies;
    if (row.copies > site.most) site = {site.copies, row.copies, row.shape, cause};
  }
  const auto kind_of = [&](uint32_t image, uint64_t ip) { return programs_->KindOf(image, ip); };
  // If this fails, memory is read at each copy.
  static_cast<void>(faults_->TrustSites(trust_.Judge(looked, kind_of)));
  trust_.AddTo(&now);
  absl::flat_hash_map<int, ProcessSample*> rows;  // by index
  for (ProcessSample& row : sample->processes) rows[row.index] = &row;
  for (const auto& [serial, counts] : pull.counts) {
    const Member* member = programs_->Find(serial);
    const auto row = member == nullptr ? rows.end() : rows.find(member->index);
    if (row == rows.end() || !counts.copies) continue;  // not counted yet
    CauseCounts of_process = causes[serial];
    const uint64_t sum = Sum(of_process);
    // Copies that did not fit in the table.
    of_process[static_cast<int>(Cause::kUnknown)] += SaturatingSubtract(*counts.copies, sum);
    row->second->causes = of_process;
  }
  if (!(now == evidence_)) sample->cause_evidence = evidence_ = now;
}

void RowCauses::Forget(const absl::flat_hash_set<uint32_t>& images) {
  if (images.empty()) return;
  absl::erase_if(judged_, [&](const auto& entry) { return images.contains(std::get<0>(entry.first)); });
  trust_.Forget(images);
}

}  // namespace cowprof
