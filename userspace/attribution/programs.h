// Which program each followed process runs, and has run. Teaches the probes to read the programs that can be read.
#ifndef COWPROF_ATTRIBUTION_PROGRAMS_H_
#define COWPROF_ATTRIBUTION_PROGRAMS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "attribution/program.h"
#include "model/facts/sample.h"
#include "source/fault_source.h"
#include "source/native_symbols.h"
#include "source/procfs.h"

namespace cowprof {

// A followed process. It stays known for a while after its end: rows of its copies still come.
struct Member {
  uint32_t serial = 0;
  int index = 0;  // in the recording
  ProcessId id;
  std::shared_ptr<Program> program;
  std::vector<std::shared_ptr<Program>> earlier;  // that it ran before it called exec: its rows still name them
  bool taught = false;                            // the probes can read `program`
  bool malloc_taught = false;                     // and know its malloc
  bool living = true;
};

class Programs {
 public:
  Programs(ProcFs proc, FaultSource* faults) : proc_(std::move(proc)), faults_(faults) {}

  // A process is new. One that `inherits` runs its parent's program; the others are looked at.
  void Add(const FollowedProcess& process, int index, bool inherits);
  // It runs another program from now on.
  void Exec(const ProcessId& id);
  // It has ended, and the rows of this tick were judged. It is forgotten by ForgetEnded().
  void End(const ProcessId& id);

  // Looks at programs that are not known yet, and teaches the probes how to read them. Returns one PythonFound for each
  // Python that became known.
  std::vector<Event> Learn(const std::vector<FollowedProcess>& processes, absl::Duration now);
  // When to call Learn() again at the latest, as programs are starting.
  absl::Duration next_urgent_look() const { return next_urgent_look_; }

  // What a living process runs; null if it is not known.
  std::shared_ptr<Program> Of(const ProcessId& id) const;
  // Null: it is not known (any more).
  const Member* Find(uint32_t serial) const;
  // The program that a row of the process names; the process's own if the row names none that is known.
  Program& OfRow(uint32_t image, const Member& member) const;
  // What an instruction of a program does; kOther if the program is not known.
  WriteKind KindOf(uint32_t image, uint64_t ip) const;
  // Names where the process was when a signal was delivered to it.
  void Locate(const SeenEvent& seen, SignalDelivered* delivered);

  // Forgets processes that have ended, and programs that no process runs any more; returns them.
  struct Forgotten {
    absl::flat_hash_set<uint32_t> serials, images;
    absl::flat_hash_set<int> indexes;  // of the processes
  };
  Forgotten ForgetEnded();

 private:
  void Start(Member* member, bool starting);

  ProcFs proc_;
  FaultSource* faults_;
  ElfCache elf_cache_;
  uint32_t last_image_ = 0;
  absl::Duration next_urgent_look_ = absl::InfiniteDuration();
  absl::flat_hash_map<uint32_t, Member> members_;                     // by serial
  absl::flat_hash_map<uint32_t, std::shared_ptr<Program>> programs_;  // by image
  absl::flat_hash_map<ProcessId, uint32_t> serials_;                  // of those that live
  bool any_ended_ = false;                                            // since the last ForgetEnded()
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_PROGRAMS_H_
