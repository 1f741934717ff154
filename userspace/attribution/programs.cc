// Keeps one Program for each image: the processes of a lineage since its last exec.
#include "attribution/programs.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace cowprof {
namespace {

constexpr size_t kMostEarlier = 8;  // programs of one process

}  // namespace

void Programs::Add(const FollowedProcess& process, int index, bool inherits) {
  const auto parent = serials_.find(process.parent);
  Member member = {.serial = process.serial, .index = index, .id = process.id};
  if (inherits && parent != serials_.end()) {
    member.program = members_.at(parent->second).program;
    // A child inherits its parent's image in the probes, but only if that was learned before the fork.
    member.taught = process.image == member.program->image();
    if (process.exited_ns == 0) {
      member.program->memory().Add(member.id);
      // Its parent was taught the program from before its exec, and has forked since.
      if (process.image != 0 && !member.taught) faults_->Unlearn(process.serial, /*living=*/true);
    }
  } else {
    Start(&member, /*starting=*/false);
  }
  serials_[process.id] = process.serial;
  members_[process.serial] = std::move(member);
}

void Programs::Exec(const ProcessId& id) {
  const auto serial = serials_.find(id);
  if (serial == serials_.end()) return;
  Member& member = members_.at(serial->second);
  member.program->memory().Remove(id);
  if (member.taught || member.malloc_taught) faults_->Unlearn(member.serial, /*living=*/false);
  if (member.taught) member.earlier.push_back(member.program);
  if (member.earlier.size() > kMostEarlier) member.earlier.erase(member.earlier.begin());
  Start(&member, /*starting=*/true);
}

void Programs::Start(Member* member, bool starting) {
  member->program = std::make_shared<Program>(++last_image_, proc_, &elf_cache_, starting);
  member->program->memory().Add(member->id);
  member->taught = member->malloc_taught = false;
  programs_[last_image_] = member->program;
}

void Programs::End(const ProcessId& id) {
  const auto serial = serials_.find(id);
  if (serial == serials_.end()) return;
  Member& member = members_.at(serial->second);
  member.program->memory().Remove(id);
  member.living = false;
  any_ended_ = true;
  serials_.erase(serial);
}

std::vector<Event> Programs::Learn(const std::vector<FollowedProcess>& processes, absl::Duration now) {
  std::vector<Event> events;
  next_urgent_look_ = absl::InfiniteDuration();
  for (const FollowedProcess& process : processes) {
    const auto found = members_.find(process.serial);
    if (found == members_.end() || process.exited_ns != 0) continue;
    Member& member = found->second;
    Program& program = *member.program;
    if (program.Inspect(now))
      events.push_back({.t = now, .index = member.index, .what = PythonFound{program.version(), program.reason()}});
    next_urgent_look_ = std::min(next_urgent_look_, program.next_urgent_look());
    program.LookForMalloc(now);
    if (!member.malloc_taught && program.malloc())
      member.malloc_taught = faults_->LearnMalloc(member.serial, *program.malloc()).ok();
    if (member.taught || program.python() != Program::Python::kReadable) continue;
    member.taught = faults_->LearnImage(member.serial, program.image(), program.ProbeImage()).ok();
  }
  return events;
}

std::shared_ptr<Program> Programs::Of(const ProcessId& id) const {
  const auto serial = serials_.find(id);
  return serial == serials_.end() ? nullptr : members_.at(serial->second).program;
}

const Member* Programs::Find(uint32_t serial) const {
  const auto member = members_.find(serial);
  return member == members_.end() ? nullptr : &member->second;
}

Program& Programs::OfRow(uint32_t image, const Member& member) const {
  const auto other = programs_.find(image);
  return other == programs_.end() ? *member.program : *other->second;
}

WriteKind Programs::KindOf(uint32_t image, uint64_t ip) const {
  const auto program = programs_.find(image);
  return program == programs_.end() ? WriteKind::kOther : program->second->KindOf(ip).value_or(WriteKind::kOther);
}

void Programs::Locate(const SeenEvent& seen, SignalDelivered* delivered) {
  const auto serial = serials_.find(seen.process);
  if (serial == serials_.end()) return;
  const Member& member = members_.at(serial->second);
  Program& program = *member.program;
  program.memory().Prefer(member.id);
  const NativeSymbol symbol = program.SymbolOf(seen.ip).value_or(NativeSymbol{});
  if (!symbol.module.empty()) {
    delivered->module = symbol.module;
    delivered->symbol = symbol.symbol;
  }
  for (const cowprof_frame& one : seen.frames) {
    const std::optional<Frame> frame = program.FrameOf(one);
    if (!frame) continue;  // the interpreter's own
    if (!frame->file.empty()) delivered->frame = *frame;
    return;
  }
}

// Keeps tables from growing if the target starts a hundred programs a second.
Programs::Forgotten Programs::ForgetEnded() {
  Forgotten forgotten;
  if (!std::exchange(any_ended_, false)) return forgotten;
  absl::erase_if(members_, [&](const auto& entry) {
    if (entry.second.living) return false;
    forgotten.serials.insert(entry.first);
    forgotten.indexes.insert(entry.second.index);
    return true;
  });
  absl::erase_if(programs_, [&](const auto& entry) {
    if (entry.second.use_count() != 1) return false;
    faults_->ForgetImage(entry.first);
    forgotten.images.insert(entry.first);
    return true;
  });
  return forgotten;
}

}  // namespace cowprof
