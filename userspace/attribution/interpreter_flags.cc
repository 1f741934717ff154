// Reads flags at gaps that grow with the time since the first look.
#include "attribution/interpreter_flags.h"

#include <algorithm>

namespace cowprof {

template <typename Value>
void InterpreterFlags::Flag<Value>::Note(std::optional<Value> read, absl::Duration now, absl::Duration shortest,
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
    // A program that starts maps Python a moment after its first look.
    if (const bool native = program.python() == Program::Python::kNone;
        native || flags.framework.value == Framework::kNative)
      flags.framework.value = native ? std::optional<Framework>(Framework::kNative) : std::nullopt;
    read[member->index] = flags;
  }
  for (ProcessSample& process : sample->processes) {
    const Flags& flags = read[process.index];
    process.collector_on = flags.collector_on.value;
    process.framework = flags.framework.value;
  }
}

void InterpreterFlags::ReadDue(const Program& program, pid_t pid, absl::Duration now, Flags* flags) {
  if (auto& flag = flags->collector_on; flag.due(now))
    flag.Note(program.CollectorOn(pid), now, absl::Seconds(1), absl::Seconds(10));
  // Look from the first moment on, then ever more rarely; once known, it does not change.
  if (auto& flag = flags->framework; flag.due(now) && !flag.value)
    flag.Note(program.FrameworkOf(pid), now, absl::Milliseconds(50), absl::Minutes(1));
}

void InterpreterFlags::Forget(const absl::flat_hash_set<uint32_t>& serials) {
  for (const uint32_t serial : serials) flags_.erase(serial);
}

}  // namespace cowprof
