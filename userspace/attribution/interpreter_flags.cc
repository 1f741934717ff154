// Reads the flag at gaps that grow with the time since the first look.
#include "attribution/interpreter_flags.h"

#include <algorithm>

namespace cowprof {

void InterpreterFlags::Read(const std::vector<FollowedProcess>& processes, absl::Duration now, Sample* sample) {
  absl::flat_hash_map<int, std::optional<bool>> read;  // by index
  for (const FollowedProcess& process : processes) {
    const Member* member = programs_->Find(process.serial);
    if (member == nullptr) continue;
    const Program& program = *member->program;
    Flags& flags = flags_[process.serial];
    if (flags.image != program.image()) flags = {.image = program.image()};
    const bool due = !flags.first_look || now >= flags.next_look;
    if (due && process.exited_ns == 0 && program.interpreter().ready) {
      flags.collector_on = program.CollectorOn(member->id.pid);
      if (!flags.first_look) flags.first_look = now;
      flags.next_look = now + std::clamp(now - *flags.first_look, absl::Seconds(1), absl::Seconds(10));
    }
    read[member->index] = flags.collector_on;
  }
  for (ProcessSample& process : sample->processes) process.collector_on = read[process.index];
}

void InterpreterFlags::Forget(const absl::flat_hash_set<uint32_t>& serials) {
  for (const uint32_t serial : serials) flags_.erase(serial);
}

}  // namespace cowprof
