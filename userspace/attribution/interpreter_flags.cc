// Reads flags at gaps that grow with the time since the first look.
#include "attribution/interpreter_flags.h"

#include <algorithm>

namespace cowprof {

void InterpreterFlags::Flag::Note(std::optional<bool> read, absl::Duration now, absl::Duration shortest,
                                  absl::Duration longest) {
  value = read;
  if (!first_look) first_look = now;
  next_look = now + std::clamp(now - *first_look, shortest, longest);
}

void InterpreterFlags::Read(const std::vector<FollowedProcess>& processes, absl::Duration now, Sample* sample) {
  absl::flat_hash_map<int, Flags> read;  // by index
  for (const FollowedProcess& process : processes) {
    const Member* member = programs_->Find(process.serial);
    if (member == nullptr) continue;
    const Program& program = *member->program;
    Flags& flags = flags_[process.serial];
    if (flags.image != program.image()) flags = {.image = program.image()};
    if (process.exited_ns == 0 && program.interpreter().ready) ReadDue(program, member->id.pid, now, &flags);
    read[member->index] = flags;
  }
  for (ProcessSample& process : sample->processes) process.collector_on = read[process.index].collector_on.value;
}

void InterpreterFlags::ReadDue(const Program& program, pid_t pid, absl::Duration now, Flags* flags) {
  if (Flag& flag = flags->collector_on; flag.due(now))
    flag.Note(program.CollectorOn(pid), now, absl::Seconds(1), absl::Seconds(10));
}

void InterpreterFlags::Forget(const absl::flat_hash_set<uint32_t>& serials) {
  for (const uint32_t serial : serials) flags_.erase(serial);
}

}  // namespace cowprof
