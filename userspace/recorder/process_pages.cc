// Joins sweeps with programs and address spaces.
#include "recorder/process_pages.h"

#include "absl/container/flat_hash_set.h"
#include "python/process_memory.h"
#include "recorder/sample_rows.h"

namespace cowprof {
namespace {

constexpr double kBytesShare = 0.02;  // of one CPU, for reading copied pages

}  // namespace

ProcessPages::ProcessPages(const ProcFs& proc, const AttributionOptions& options, const Processes* processes,
                           const Programs* programs)
    : proc_(proc),
      causes_(options.causes),
      processes_(processes),
      programs_(programs),
      spaces_(proc, options.page_bytes),
      evidence_(proc) {}

std::shared_ptr<const std::vector<AddressRange>> ProcessPages::RangesOf(uint32_t serial, absl::Duration t) {
  const LivingProcess* process = processes_->Find(serial);
  if (process == nullptr) return nullptr;
  const std::shared_ptr<Program> program = programs_->Of(process->id);
  const uint64_t pool_bytes = program != nullptr ? program->interpreter().pool_bytes : 0;
  // Through the target where possible: all of its workers inherited its mappings.
  const pid_t through = process->space == 0 ? processes_->target() : process->id.pid;
  return spaces_.RangesOf(process->space, through, pool_bytes, t);
}

std::optional<std::vector<ExplainedPage>> ProcessPages::Explain(uint32_t serial, const std::vector<uint64_t>& copied,
                                                                absl::Duration t) {
  evidence_.AddAllowance(t, kBytesShare);
  const LivingProcess* process = processes_->Find(serial);
  const std::shared_ptr<Program> program = causes_ && process != nullptr ? programs_->Of(process->id) : nullptr;
  if (program == nullptr) return std::vector<ExplainedPage>();
  evidence_.NoteCollections(process->id, *program);
  if (processes_->Find(process->parent) == nullptr) return std::vector<ExplainedPage>();
  return evidence_.Read(process->id, process->parent, *program, copied);
}

void ProcessPages::AddSweeps(const std::vector<FinishedSweep>& sweeps, Sample* sample) {
  if (sweeps.empty()) return;
  const SampleRows rows(sample);
  for (const FinishedSweep& sweep : sweeps) {
    const LivingProcess* process = processes_->Find(sweep.serial);
    ProcessSample* row = process == nullptr ? nullptr : rows.Find(process->index);
    if (row == nullptr) continue;
    row->sweep = sweep.figures;
    spaces_.Add(process->space, process->index, sweep);
    if (!sweep.diverged_sample.empty()) row->verify = Verify(*process, sweep);
  }
}

// Compares a sample of the pages that diverged from the parent's; nullopt if that can't be done.
std::optional<VerifyFigures> ProcessPages::Verify(const LivingProcess& worker, const FinishedSweep& sweep) {
  const std::shared_ptr<Program> program = programs_->Of(worker.id);
  const std::optional<HeadLayout> heads = program == nullptr ? std::nullopt : program->Heads();
  if (!heads || processes_->Find(worker.parent) == nullptr) return std::nullopt;
  program->memory().Prefer(worker.id);
  const PresentMemory own(worker.id.pid, proc_), parent(worker.parent.pid, proc_);
  verifier_.Offer(worker.index, sweep.diverged_sample);
  verifier_.Run({worker.index, own, parent, *heads, program->Types()}, VerifyBudget());
  return verifier_.FiguresOf(worker.index);
}

// Mappings read before the parent loaded its data do not show where a worker's first copies lie.
void ProcessPages::LookAtInherited(const Sample& sample) {
  absl::flat_hash_set<int> started;
  for (const Event& event : sample.events) {
    if (event.Is<ProcessStarted>()) started.insert(event.index);
  }
  if (started.empty()) return;
  for (const LivingProcess* process : processes_->by_index()) {
    if (!started.contains(process->index) || process->space == process->index) continue;
    spaces_.Forked(process->space, sample.t);
    RangesOf(process->serial, sample.t);
    const std::shared_ptr<Program> program = programs_->Of(process->id);
    const std::optional<HeadLayout> heads = program == nullptr ? std::nullopt : program->Heads();
    if (heads && program->python() == Program::Python::kReadable)
      spaces_.LookForHeads(process->space, process->id.pid, *heads, program->Types());
  }
}

// Its children that shared the old address space each count as having one of their own from now on: see
// Processes::Exec.
void ProcessPages::Exec(const LivingProcess& process) {
  if (process.space == process.index || !processes_->SharesSpace(process)) spaces_.ForgetSpace(process.space);
  Forget(process);
}

void ProcessPages::End(const LivingProcess& process) {
  if (!processes_->SharesSpace(process)) spaces_.ForgetSpace(process.space);
  Forget(process);
}

void ProcessPages::Forget(const LivingProcess& process) {
  spaces_.ForgetProcess(process.index);
  verifier_.Forget(process.index);
  evidence_.Forget(process.id);
}

}  // namespace cowprof
