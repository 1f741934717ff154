// A made-up source of faults, real processes and what a collector does with both, for the tests of attribution.cc. An
// instruction is a few bytes of this program, which a forked child has at the same address.
#ifndef COWPROF_TESTS_UNIT_ATTRIBUTION_SETTING_H_
#define COWPROF_TESTS_UNIT_ATTRIBUTION_SETTING_H_

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "attribution.h"
#include "child.h"

namespace cowprof {

using Code = std::array<uint8_t, 16>;
inline constexpr Code kIncrement = {0x48, 0x83, 0x07, 0x01, 0xc3};              // add QWORD PTR [rdi],1; ret
inline constexpr Code kDecrement = {0x48, 0x83, 0x2f, 0x01, 0x74, 0x05, 0xc3};  // sub QWORD PTR [rdi],1; je
inline constexpr Code kStore = {0x48, 0x89, 0x10, 0xc3};                        // mov QWORD PTR [rax],rdx; ret
inline uint64_t At(const Code& code) { return reinterpret_cast<uint64_t>(code.data()); }

// Says what a test tells it to, and keeps what it is told.
class FakeFaults : public FaultSource {
 public:
  struct Learned {
    uint32_t serial, image;
    cowprof_image facts;
  };

  absl::Status Follow(pid_t) override { return absl::OkStatus(); }
  absl::StatusOr<Pull> PullCounts() override { return Pull{}; }
  absl::StatusOr<std::vector<TouchedRegion>> PullRegions() override { return std::vector<TouchedRegion>{}; }
  absl::StatusOr<std::vector<PlaceRow>> PullPlaces() override {
    if (places_fail) return absl::InternalError("no");
    return places;
  }
  bool TakeNews(bool) override { return false; }
  std::vector<cowprof_frame> ReadStack(uint64_t stack) override {
    const auto found = stacks.find(stack);
    return found == stacks.end() ? std::vector<cowprof_frame>{} : found->second;
  }
  absl::Status LearnImage(uint32_t serial, uint32_t image, const cowprof_image& facts) override {
    learned.push_back({serial, image, facts});
    return learning_fails ? absl::InternalError("no") : absl::OkStatus();
  }
  void ForgetImage(uint32_t image) override { forgotten.push_back(image); }
  absl::Status TrustSites(const std::vector<SiteVerdict>& told) override {
    verdicts.insert(verdicts.end(), told.begin(), told.end());
    return absl::OkStatus();
  }
  void LogPages(bool) override {}
  int wake_fd() const override { return -1; }

  bool places_fail = false, learning_fails = false;
  std::vector<PlaceRow> places;
  std::map<uint64_t, std::vector<cowprof_frame>> stacks;
  std::vector<Learned> learned;
  std::vector<SiteVerdict> verdicts;
  std::vector<uint32_t> forgotten;
};

// A collector's part of the work: processes by serial; the index in the recording is serial - 1.
struct Setting {
  FakeFaults faults;
  Attribution attribution{ProcFs(), &faults};
  Pull pull;
  absl::Duration now;

  FollowedProcess& Follow(uint32_t serial, pid_t pid, uint32_t parent = 0, uint32_t image = 0) {
    // Different ids, even of one pid, and the time at which it did start.
    const absl::StatusOr<ProcStat> stat = ProcFs().ReadStat(pid);
    const uint64_t start_ns = stat.ok() ? stat->start_ticks * 10'000'000 : 0;
    FollowedProcess process = {.id = {pid, start_ns + serial},
                               .origin = parent == 0 ? Origin::kTarget : Origin::kForked,
                               .serial = serial,
                               .image = image};
    if (parent != 0) process.parent = Find(parent).id;
    pull.processes.push_back(process);
    attribution.Add(process, serial - 1, /*inherits=*/parent != 0);
    return pull.processes.back();
  }
  FollowedProcess& Find(uint32_t serial) {
    return *std::find_if(pull.processes.begin(), pull.processes.end(),
                         [&](const FollowedProcess& process) { return process.serial == serial; });
  }
  std::vector<Event> Learn() { return attribution.Learn(pull.processes, now += absl::Minutes(2)); }

  Sample Judge() {
    Sample sample;
    for (FollowedProcess& process : pull.processes) {
      sample.processes.push_back({.index = static_cast<int>(process.serial) - 1});
    }
    attribution.Judge(pull, &sample);
    return sample;
  }
  // Judged as if the process had copied as many pages as its rows say, and `more`.
  CauseCounts CausesOf(uint32_t serial, uint64_t more = 0) {
    uint64_t copies = more;
    for (const CauseRow& row : pull.causes) copies += row.serial == serial ? row.copies : 0;
    Find(serial).counts.copies = copies;
    for (const ProcessSample& process : Judge().processes) {
      if (process.index == static_cast<int>(serial) - 1) return process.causes.value();
    }
    FAIL("no causes");
    return {};
  }
  Sample Places() {
    Sample sample;
    attribution.ReadPlaces();
    attribution.TellPlaces(nullptr, &sample);
    return sample;
  }
  // It is told once more, as ended, then no longer.
  void End(uint32_t serial) {
    Find(serial).exited_ns = 5;
    Judge();
    attribution.End(Find(serial).id);
    std::erase_if(pull.processes, [&](const FollowedProcess& process) { return process.serial == serial; });
    std::erase_if(pull.causes, [&](const CauseRow& row) { return row.serial == serial; });
  }
};

inline CauseCounts Counts(const std::map<Cause, uint64_t>& copies) {
  CauseCounts counts = {};
  for (const auto& [cause, count] : copies) counts[static_cast<int>(cause)] = count;
  return counts;
}

inline CauseRow Looked(cowprof_shape shape, const Code& code, uint64_t copies, uint32_t serial = 1) {
  return {.serial = serial, .image = 1, .shape = shape, .ip = At(code), .copies = copies};
}
inline CauseRow Told(cowprof_shape shape, const Code& code, uint64_t copies) {
  CauseRow row = Looked(shape, code, copies);
  row.told = true;
  return row;
}

inline bool Is(const SiteVerdict& verdict, const Code& code, uint32_t image, cowprof_shape shape) {
  return verdict.ip == At(code) && verdict.image == image && verdict.shape == shape;
}

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_ATTRIBUTION_SETTING_H_
