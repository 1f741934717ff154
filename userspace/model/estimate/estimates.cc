// Keeps the estimators up to date with a run's model.
#include "model/estimate/estimates.h"

#include "model/saturating.h"

namespace cowprof {
namespace {

// New memory is the rise of RssAnon, which a copy leaves unchanged. Pages in swap are still there; first writes to
// private file mappings only make file pages anonymous, also those that copy a page which was read before.
MemorySeries::Stretch StretchAt(absl::Duration t, const ProcessModel& process) {
  const uint64_t copied_of_files = SaturatingAdd(process.counts.file_copies.value_or(0), process.copies_of_files);
  return {.t = t,
          .new_pages = SaturatingSubtract(process.anonymous_pages(), copied_of_files),
          .file_pages = process.proc.file_pages.value_or(0),
          .private_bytes = process.private_bytes.value_or(0),
          .zero_fills = process.counts.zero_fills().value_or(0)};
}

}  // namespace

const MemorySeries& Estimates::MemoryOf(int index) const {
  static const MemorySeries kNone;
  const auto found = memory.find(index);
  return found == memory.end() ? kNone : found->second;
}

void Remember(const Sample& sample, const RunModel& model, Estimates* estimates) {
  // A new program has a new address space: drop what was before it.
  for (const Event& event : sample.events) {
    if (event.Is<ProcessStarted>() || event.Is<ProcessExeced>()) estimates->memory.erase(event.index);
  }
  auto memory = estimates->memory.begin();  // mostly that of the neighbour of the row before
  for (const ProcessSample& row : sample.processes) {
    const ProcessModel* process = model.Find(row.index);
    if (!row.proc.anon_pages || process == nullptr || process->id.pid == 0) continue;
    if (memory != estimates->memory.end() && memory->first != row.index) ++memory;
    if (memory == estimates->memory.end() || memory->first != row.index)
      memory = estimates->memory.try_emplace(row.index).first;
    memory->second.Add(StretchAt(sample.t, *process));
  }
  for (const Event& event : sample.events) {
    if (!event.Is<ProcessExited>()) continue;
    const auto ended = estimates->memory.find(event.index);
    if (ended != estimates->memory.end()) ended->second.stretches.shrink_to_fit();
  }
  Remember(sample, model, &estimates->forecast);
}

void ForgetUnlisted(const RunModel& model, Estimates* estimates) {
  if (estimates->memory.size() <= model.processes.size()) return;
  std::erase_if(estimates->memory, [&](const auto& one) { return model.Find(one.first) == nullptr; });
}

}  // namespace cowprof
