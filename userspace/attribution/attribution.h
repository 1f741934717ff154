// Who did it: teaches the probes to read each program, and makes causes, types and lines of what they saw. Owned by the
// collector, which calls it once a tick, in the order of the functions below. Reads the memory of processes, never
// stops them.
#ifndef COWPROF_ATTRIBUTION_H_
#define COWPROF_ATTRIBUTION_H_

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "model/sample.h"
#include "page_log.h"
#include "program.h"
#include "source/fault_source.h"
#include "source/native_symbols.h"
#include "source/procfs.h"

namespace cowprof {

class Attribution {
 public:
  Attribution(ProcFs proc, FaultSource* faults) : proc_(std::move(proc)), faults_(faults) {}

  // A process is new. One that `inherits` runs its parent's program; the others are looked at.
  void Add(const FollowedProcess& process, int index, bool inherits);
  // It runs another program from now on.
  void Exec(const ProcessId& id);
  // Looks at programs that are not known yet, and tells the source how to read them. One event for each Python that
  // became known.
  std::vector<Event> Learn(const std::vector<FollowedProcess>& processes, absl::Duration now);
  // When Learn() should be called again at the latest, as programs are starting.
  absl::Duration next_urgent_look() const { return next_urgent_look_; }

  // Fills the causes of the sample's processes, and lets the source trust instructions that always write the same.
  void Judge(const Pull& pull, Sample* sample);
  // The pages of the pull with their causes; to be called after Judge().
  void LogPages(const Pull& pull, PageLog* log) const;
  // Fills whether each process's collector is on, as it was last read: often in its first seconds, later every 10 s.
  void ReadCollectors(const std::vector<FollowedProcess>& processes, absl::Duration now, Sample* sample);
  // Fills whether workers of PyTorch are persistent: looked for from their first moment on, ever more rarely.
  void ReadPersistence(const std::vector<FollowedProcess>& processes, absl::Duration now, Sample* sample);
  // Reads where copies happened, and the names of it: to be called while the processes still are there.
  void ReadPlaces();
  // What was read, as far as it is new or changed since the last call: of these processes only, or of all.
  void TellPlaces(const absl::flat_hash_set<int>* only, Sample* sample);
  // Where the process was when a signal was delivered to it: names for what the probes saw.
  void Locate(const SeenEvent& seen, Event* event);
  // What a living process runs; null if it is not known.
  std::shared_ptr<Program> ProgramOf(const ProcessId& id) const;
  // It has ended: to be called after its last rows were judged. Its places still come.
  void End(const ProcessId& id);

 private:
  struct Member {  // a followed process
    uint32_t serial = 0;
    int index = 0;
    ProcessId id;
    std::shared_ptr<Program> program;
    std::vector<std::shared_ptr<Program>> earlier;  // that it ran before it called exec: its rows still name them
    bool taught = false;
    bool living = true;
    std::optional<bool> collector_on;
    std::optional<absl::Duration> first_collector_look;
    absl::Duration next_collector_look;
    std::optional<bool> persistent;
    std::optional<absl::Duration> first_persistence_look;
    absl::Duration next_persistence_look;
  };
  enum class Trust { kNone, kGiven, kLost };
  struct Site {           // an instruction of a program
    uint32_t causes = 0;  // set of Cause that its copies had
    Trust trust = Trust::kNone;
    Cause cause = Cause::kUnknown;  // that it is trusted with
    uint64_t looked_before = 0;     // copies that were looked at until then
    uint64_t audited = 0, contradicted = 0;
  };
  struct Seen {  // copies by it, at this tick, that were looked at
    CauseCounts copies = {};
    uint64_t most = 0;  // of one shape
    cowprof_shape shape = COWPROF_SHAPE_UNREAD;
    Cause cause = Cause::kUnknown;
  };
  struct Most {  // of the copies onto one shape, by one process
    uint64_t copies = 0;
    Cause cause = Cause::kUnknown;
  };
  using SiteKey = std::pair<uint32_t, uint64_t>;                                  // image, instruction
  using PlaceKey = std::tuple<uint32_t, uint32_t, uint64_t, uint64_t, uint64_t>;  // image, shape, ip, type, stack

  void Start(Member* member, bool starting);
  Program* ProgramOf(uint32_t image, const Member& member);
  WriteKind KindOf(uint32_t image, uint64_t ip);
  Cause CauseOfRow(Program& program, uint32_t image, cowprof_shape shape, uint64_t ip);
  void TrustSites(const absl::flat_hash_map<SiteKey, Seen>& seen, CauseEvidence* now);
  int PlaceOf(const PlaceRow& row, const Member& member);
  const std::vector<int>& StackOf(uint64_t stack, Program& program);
  int FrameNumber(const Frame& frame);
  void ForgetEnded();

  ProcFs proc_;
  FaultSource* faults_;
  ElfCache elf_cache_;
  uint32_t last_image_ = 0;
  absl::Duration next_urgent_look_ = absl::InfiniteDuration();
  absl::flat_hash_map<uint32_t, Member> members_;                     // by serial
  absl::flat_hash_map<uint32_t, std::shared_ptr<Program>> programs_;  // by image
  absl::flat_hash_map<ProcessId, uint32_t> serials_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint64_t>, Cause> judged_;  // image, shape, ip
  absl::flat_hash_map<SiteKey, Site> sites_;
  absl::flat_hash_map<PlaceKey, int> known_places_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, std::vector<int>> stacks_;  // by image; numbers of frames
  absl::flat_hash_map<std::string, int> places_by_text_;
  absl::flat_hash_map<std::tuple<std::string, std::string, int>, int> frames_;  // file, function, line
  std::vector<Frame> new_frames_;  // since the last record, like the next two
  std::vector<Place> new_places_;
  std::map<std::pair<int, int>, PlaceCount> changed_;                     // by process and place
  absl::flat_hash_map<std::pair<int, int>, uint64_t> read_copies_;        // the same, at the last look
  absl::flat_hash_map<std::pair<uint32_t, int>, Most> causes_of_shapes_;  // by serial and shape, at the last pull
  CauseEvidence evidence_, ended_evidence_;  // ended: of processes, and of instructions of programs, that are gone
  absl::flat_hash_set<int> ended_;           // by index: since the last ReadPlaces()
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_H_
