// A fake fault source, real processes, and the collector's part in between, for the tests of attribution.cc.
// Instructions are a few bytes of this program, which a forked child has at the same address.
#ifndef COWPROF_TESTS_UNIT_ATTRIBUTION_SETTING_H_
#define COWPROF_TESTS_UNIT_ATTRIBUTION_SETTING_H_

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "attribution/copy_sites.h"
#include "attribution/programs.h"
#include "attribution/row_causes.h"
#include "child.h"

namespace cowprof {

using Code = std::array<uint8_t, 16>;
inline constexpr Code kIncrement = {0x48, 0x83, 0x07, 0x01, 0xc3};              // add QWORD PTR [rdi],1; ret
inline constexpr Code kDecrement = {0x48, 0x83, 0x2f, 0x01, 0x74, 0x05, 0xc3};  // sub QWORD PTR [rdi],1; je
inline constexpr Code kStore = {0x48, 0x89, 0x10, 0xc3};                        // mov QWORD PTR [rax],rdx; ret
inline uint64_t At(const Code& code) { return reinterpret_cast<uint64_t>(code.data()); }

// Returns what a test sets, and records how it is called.
class FakeFaults : public FaultSource {
 public:
  struct Learned {
    uint32_t serial, image;
    cowprof_image facts;
  };

  absl::Status Follow(pid_t) override { return absl::OkStatus(); }
  absl::StatusOr<TreeLook> LookAtTree(bool) override { return TreeLook{}; }
  absl::StatusOr<Pull> PullCounts(const PullRequest&) override { return Pull{}; }
  absl::StatusOr<std::vector<TouchedRegion>> PullRegions() override { return regions; }
  absl::StatusOr<std::vector<CopySiteRow>> PullCopySites() override {
    if (copy_sites_fail) return absl::InternalError("no");
    return copy_sites;
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
  void Unlearn(uint32_t serial, bool) override { unlearned.push_back(serial); }
  void ForgetImage(uint32_t image) override { forgotten.push_back(image); }
  absl::Status TrustSites(const std::vector<SiteVerdict>& told) override {
    verdicts.insert(verdicts.end(), told.begin(), told.end());
    return absl::OkStatus();
  }
  void LogPages(bool) override {}
  int wake_fd() const override { return -1; }

  bool copy_sites_fail = false, learning_fails = false;
  std::vector<TouchedRegion> regions;
  std::vector<CopySiteRow> copy_sites;
  std::map<uint64_t, std::vector<cowprof_frame>> stacks;
  std::vector<Learned> learned;
  std::vector<SiteVerdict> verdicts;
  std::vector<uint32_t> forgotten, unlearned;
};

// The collector's part: processes by serial; the index in the recording is serial - 1.
struct Setting {
  FakeFaults faults;
  Programs programs{ProcFs(), &faults};
  RowCauses causes{&programs, &faults};
  CopySites copy_sites{&programs, &causes, &faults};
  std::vector<FollowedProcess> processes;
  Pull pull;
  absl::Duration now;

  FollowedProcess& Follow(uint32_t serial, pid_t pid, uint32_t parent = 0, uint32_t image = 0) {
    // Distinct ids even for one pid, and the real start time.
    const absl::StatusOr<ProcStat> stat = ProcFs().ReadStat(pid);
    const uint64_t start_ns = stat.ok() ? stat->start_ns() : 0;
    FollowedProcess process = {.id = {pid, start_ns + serial},
                               .origin = parent == 0 ? Origin::kTarget : Origin::kForked,
                               .serial = serial,
                               .image = image};
    if (parent != 0) process.parent = Find(parent).id;
    processes.push_back(process);
    pull.counts[serial] = {};
    programs.Add(process, serial - 1, /*inherits=*/parent != 0);
    return processes.back();
  }
  FollowedProcess& Find(uint32_t serial) {
    return *std::find_if(processes.begin(), processes.end(),
                         [&](const FollowedProcess& process) { return process.serial == serial; });
  }
  std::vector<Event> Learn() { return programs.Learn(processes, now += absl::Minutes(2)); }

  Sample Judge() {
    Sample sample;
    for (const FollowedProcess& process : processes) {
      sample.processes.push_back({.index = static_cast<int>(process.serial) - 1});
    }
    causes.Judge(processes, pull, &sample);
    return sample;
  }
  // Causes as if the process had copied the pages in its rows plus `more`.
  CauseCounts CausesOf(uint32_t serial, uint64_t more = 0) {
    uint64_t copies = more;
    for (const CauseRow& row : pull.causes) copies += row.serial == serial ? row.copies : 0;
    pull.counts[serial].copies = copies;
    for (const ProcessSample& process : Judge().processes) {
      if (process.index == static_cast<int>(serial) - 1) return process.causes.value();
    }
    FAIL("no causes");
    return {};
  }
  void ReadCopySites() {
    const absl::StatusOr<std::vector<CopySiteRow>> rows = faults.PullCopySites();
    if (!rows.ok()) return;
    copy_sites.Read(*rows);
    const Programs::Forgotten forgotten = programs.ForgetEnded();
    causes.Forget(forgotten.images);
    copy_sites.Forget(forgotten);
  }
  Sample TellCopySites() {
    Sample sample;
    copy_sites.Tell(nullptr, &sample);
    return sample;
  }
  Sample ToldCopySites() {
    ReadCopySites();
    return TellCopySites();
  }
  // It is told once more, as ended, then no longer.
  void End(uint32_t serial) {
    Find(serial).exited_ns = 5;
    Judge();
    programs.End(Find(serial).id);
    pull.counts.erase(serial);
    std::erase_if(processes, [&](const FollowedProcess& process) { return process.serial == serial; });
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
