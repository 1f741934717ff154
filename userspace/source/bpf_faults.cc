// Loads the probes, finds the processes that exist already without a gap, and pulls rows and events once a tick. With
// the bpf_*.cc beside it, the only place in user space that spells the layout of the maps.
#include "source/bpf_faults.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cowprof.h"
#include "posix/clock.h"
#include "source/bpf_direct_map.h"
#include "source/bpf_events.h"
#include "source/bpf_handles.h"
#include "source/bpf_heaps.h"
#include "source/bpf_loading.h"
#include "source/bpf_programs.h"
#include "source/bpf_settling.h"
#include "source/bpf_sites.h"
#include "source/bpf_tree.h"
#include "source/kernel_btf.h"
#include "source/probe_plan.h"

namespace cowprof {
namespace {

using Key = cowprof_process_key;
using Row = cowprof_process_row;

// A perf event has no error code: what only that tells is absent. fentry sees most of it in what the kernel does.
FaultCounts CountsOf(const cowprof_counts& c, const BpfOptions& options) {
  const bool error_code = options.faults == kRungTracepoints, outcome = error_code || options.copies == kRungFentry;
  const auto known = [](bool is, uint64_t count) { return is ? Count(count) : std::nullopt; };
  return {.faults = c.faults,
          .kernel_faults = c.kernel_faults,
          .write_protect_faults = known(outcome, c.write_protect_faults),
          .copies = c.rowless_copies,
          .kernel_copies = 0,
          .zero_upgrades = known(outcome, c.zero_upgrades),
          .zero_fill_pages = c.zero_fill_pages,
          .file_copies = known(error_code, c.file_copies),
          .shm_pages = c.shm_pages,
          .swap_ins = known(outcome, c.swap_ins)};
}

// Between two deletions of the regions of ended processes; and what they may cost, of one CPU.
constexpr absl::Duration kRoomEvery = absl::Seconds(5);
constexpr double kRoomShare = 0.01;
constexpr uint32_t kManyMappings = 5000;  // most processes have hundreds

bool ByKernel(unsigned int shape) {
  return shape == COWPROF_SHAPE_KERNEL || shape == COWPROF_SHAPE_FREED_KERNEL || shape == COWPROF_SHAPE_UNSURE_KERNEL;
}

// Moves wanted elements to the end of `to`.
template <typename T, typename Predicate>
void MoveIf(std::vector<T>* from, Predicate wanted, std::vector<T>* to) {
  const auto rest = std::stable_partition(from->begin(), from->end(), wanted);
  to->insert(to->end(), std::make_move_iterator(from->begin()), std::make_move_iterator(rest));
  from->erase(from->begin(), rest);
}

class BpfFaults : public FaultSource {
 public:
  absl::Status Load(const BpfOptions& options, KernelBtf kernel);
  absl::Status Follow(pid_t target) override;
  absl::StatusOr<TreeLook> LookAtTree(bool last) override;
  absl::StatusOr<Pull> PullCounts(const PullRequest&) override { return std::exchange(pulled_, {}); }
  absl::flat_hash_map<uint32_t, FaultCounts> CountFaultsNow() override;
  absl::StatusOr<std::vector<TouchedRegion>> PullRegions() override;
  void MakeRoomForRegions(uint64_t now_ns);
  absl::StatusOr<std::vector<CopySiteRow>> PullCopySites() override { return sites_->Pull(); }
  bool TakeNews(bool again) override;
  std::vector<cowprof_frame> ReadStack(uint64_t stack) override { return sites_->ReadStack(stack); }
  absl::Status LearnImage(uint32_t serial, uint32_t image, const cowprof_image& facts) override;
  absl::Status LearnMalloc(uint32_t serial, const cowprof_malloc& facts) override;
  void Unlearn(uint32_t serial, bool living) override;
  void ForgetImage(uint32_t image) override { bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.images), &image); }
  absl::Status TrustSites(const std::vector<SiteVerdict>& verdicts) override;
  void LogPages(bool on) override { skeleton_->bss->log_pages = on; }
  void WakeAtFork() override { __atomic_store_n(&skeleton_->bss->wake_at_fork, 1, __ATOMIC_RELEASE); }
  int wake_fd() const override { return killed_.fd(); }
  int urgent_wake_fd() const override { return woken_.fd(); }

 private:
  absl::Status ReadCauses(const TreeLook& look, Pull* pull) const;
  absl::Status TakeLate(TreeLook* look, Pull* pull);
  FollowedProcess FollowedOf(const Row& row, bool ended) const;
  static int OnEvent(void* context, void* data, size_t size);
  static int OnPages(void* context, void* data, size_t size);

  // Destroyed in reverse order: the ring before the maps it reads.
  BpfOptions options_;
  Skeleton skeleton_;
  std::vector<Link> links_;
  Ring ring_;
  Ring bell_;                 // read before each look only: who is killed during the look makes another tick
  RingWatch woken_, killed_;  // the latter: by the bell
  std::unique_ptr<FollowedTree> tree_;
  std::unique_ptr<BpfSites> sites_;
  std::unique_ptr<Settling> settling_;
  BpfHeaps heaps_;
  absl::flat_hash_set<uint32_t> ended_with_regions_;  // processes whose regions are still in the table
  uint64_t next_room_ns_ = 0;                         // CLOCK_BOOTTIME; when to delete those, if nobody pulls before
  std::vector<cowprof_task> forks_;                   // that the tree is to look at, seen while it was being scanned
  std::vector<SeenEvent> seen_;                       // since the last look
  std::vector<CopiedPage> pages_;
  Pull pulled_;  // read by the last look, so that processes and counts are of one moment
};

absl::Status BpfFaults::Load(const BpfOptions& options, KernelBtf kernel) {
  options_ = options;
  options_.bare_copy_ns = nullptr;  // the caller's: not to be kept
  if (absl::Status status = LoadProbes(options, std::move(kernel), &skeleton_); !status.ok()) return status;
  sites_ = std::make_unique<BpfSites>(*skeleton_);
  settling_ = std::make_unique<Settling>(*skeleton_);
  ring_.reset(ring_buffer__new(bpf_map__fd(skeleton_->maps.events), &BpfFaults::OnEvent, this, nullptr));
  if (ring_ == nullptr) return BpfStatus(errno, "map the ring buffer of events");
  if (int error = ring_buffer__add(ring_.get(), bpf_map__fd(skeleton_->maps.copied_pages), &BpfFaults::OnPages, this)) {
    return BpfStatus(-error, "map the ring buffer of pages");
  }
  const auto ignore = [](void*, void*, size_t) { return 0; };
  bell_.reset(ring_buffer__new(bpf_map__fd(skeleton_->maps.bell), ignore, nullptr, nullptr));
  if (bell_ == nullptr) return BpfStatus(errno, "map the ring buffer that only wakes");
  const auto& maps = skeleton_->maps;
  if (absl::Status status = woken_.Watch({maps.events, maps.copied_pages}); !status.ok()) return status;
  if (absl::Status status = killed_.Watch({maps.bell}); !status.ok()) return status;
  tree_ = std::make_unique<FollowedTree>(*skeleton_, ring_.get(), forks_);
  std::optional<DirectMapHint> hint;
  if (!options.bare_copy_ns || UseDirectMap(options.bare_copy_ns())) hint.emplace(*skeleton_);
  // The first run also learns our own namespaces and the direct map, which must be known before the first event.
  if (absl::StatusOr<std::string> tasks = RunIterator(skeleton_->progs.list_tasks); !tasks.ok()) return tasks.status();
  // From here on every fork of the host is reported, until Follow() has closed the tree.
  skeleton_->bss->scanning = 1;
  if (absl::Status status = AttachProbes(options, *skeleton_, &links_); !status.ok()) return status;
  const Key overflow = {};
  Row row = {};
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.processes), &overflow, &row, BPF_ANY) != 0) {
    return BpfStatus(errno, "write the overflow row");
  }
  return absl::OkStatus();
}

absl::Status BpfFaults::Follow(pid_t target) {
  const absl::Status status = tree_->Follow(target);
  forks_ = {};  // of the whole host
  return status;
}

int BpfFaults::OnEvent(void* context, void* data, size_t size) {
  auto& faults = *static_cast<BpfFaults*>(context);
  const auto& fork = *static_cast<const cowprof_fork_seen*>(data);
  if (size >= sizeof(fork) && fork.event.kind == COWPROF_FORK_SEEN) {
    faults.forks_.push_back(fork.child);
  } else if (std::optional<SeenEvent> seen = SeenEventOf(data, size)) {
    faults.seen_.push_back(*std::move(seen));
  }
  return 0;
}

int BpfFaults::OnPages(void* context, void* data, size_t size) {
  if (size < sizeof(cowprof_page_log)) return 0;
  const auto& log = *static_cast<const cowprof_page_log*>(data);
  constexpr uint64_t kInPage = 4095;  // the shape stands in these bits
  for (uint32_t i = log.first; i < std::min<uint32_t>(log.count, COWPROF_PAGE_LOG); ++i) {
    static_cast<BpfFaults*>(context)->pages_.push_back(
        {log.serial, log.pages[i] & ~kInPage, static_cast<cowprof_shape>(log.pages[i] & kInPage)});
  }
  return 0;
}

// Rows of a process that has ended are final; deletes them.
absl::Status BpfFaults::ReadCauses(const TreeLook& look, Pull* pull) const {
  const int map = bpf_map__fd(skeleton_->maps.causes);
  const auto rows = ReadHash<cowprof_cause_key, uint64_t>(map, "causes");
  if (!rows.ok()) return rows.status();
  absl::flat_hash_set<uint32_t> ended;
  for (const FollowedProcess& process : look.processes) {
    if (process.exited_ns != 0) ended.insert(process.serial);
  }
  int room = static_cast<int>(bpf_map__max_entries(skeleton_->maps.causes)) - static_cast<int>(rows->size());
  for (const auto& [key, copies] : *rows) {
    if (key.serial == 0) pull->losses.unattributed_copies += copies;  // of processes that share the overflow row
    const auto counts = pull->counts.find(key.serial);
    if (counts == pull->counts.end()) continue;
    *counts->second.copies += copies;
    if (ByKernel(key.shape)) *counts->second.kernel_copies += copies;
    pull->causes.push_back({.serial = key.serial,
                            .image = key.image,
                            .shape = static_cast<cowprof_shape>(key.shape),
                            .told = key.told != 0,
                            .ip = key.ip,
                            .copies = copies});
    if (ended.contains(key.serial) && bpf_map_delete_elem(map, &key) == 0) ++room;
  }
  skeleton_->bss->cause_rows_left = room / 2;
  return absl::OkStatus();
}

FollowedProcess BpfFaults::FollowedOf(const Row& row, bool ended) const {
  const ProcessId id = IdOf(row.id);
  return {.id = id,
          .parent = IdOf(row.parent),
          .origin = tree_->is_target(id)   ? Origin::kTarget
                    : tree_->was_there(id) ? Origin::kFoundAtAttach
                                           : Origin::kForked,
          .vforked = row.vforked != 0,
          .serial = row.serial,
          .image = row.image,
          .forked_ns = row.forked_ns,
          .exited_ns = ended ? row.exited_ns : 0,
          .exit_status = ended ? std::optional<int>(row.exit_code) : std::nullopt,
          .comm = TextIn(row.comm)};
}

absl::StatusOr<TreeLook> BpfFaults::LookAtTree(bool last) {
  // Before the look: what was dropped until now was a process's that the look shows.
  const uint64_t regions_dropped = skeleton_->bss->losses.regions_dropped;
  skeleton_->bss->ended_since_pull = 0;
  woken_.Take();
  killed_.Take();
  if (int error = ring_buffer__consume(bell_.get()); error < 0) return BpfStatus(-error, "read the ring buffer");
  // Events first: they are of processes whose rows exist.
  if (int error = ring_buffer__consume(ring_.get()); error < 0) return BpfStatus(-error, "read the ring buffer");
  if (absl::Status status = settling_->Run(/*all=*/last); !status.ok()) return status;
  // The table is read row by row while processes come and go: a child could be seen without its parent, whose row was
  // read before it was there, or whose end is told before the child. So this look is of now; what comes later waits for
  // the next one.
  const uint64_t now = skeleton_->bss->settled_ns;
  settling_->BeginRows();
  std::vector<pid_t> living;
  const auto rows = ReadHash<Key, Row>(bpf_map__fd(skeleton_->maps.processes), "processes");
  if (!rows.ok()) return rows.status();
  TreeLook look = {.events = std::exchange(seen_, {})};
  Pull pull = {.pages = std::exchange(pages_, {})};
  const cowprof_losses& losses = skeleton_->bss->losses;
  pull.losses = {.events_dropped = losses.events_dropped,
                 .processes_dropped = losses.processes_dropped,
                 .regions_dropped = regions_dropped,
                 .unclassified_copies = losses.cause_rows_dropped,
                 .unplaced_copies = losses.place_rows_dropped,
                 .unplaced_new_pages = losses.growth_dropped,
                 .heaps_dropped = losses.heaps_dropped,
                 .pages_dropped = losses.pages_dropped,
                 .threads_refused = losses.threads_refused,
                 .probes_skipped = SkippedRuns(*skeleton_)};
  for (const auto& [key, row] : *rows) {
    if (key.pid == 0) {
      pull.losses.unattributed_copies = row.counts.rowless_copies;  // the overflow row
      continue;
    }
    if (row.exited_ns == 0) living.push_back(static_cast<pid_t>(row.id.pid));
    const RowState state = StateAt(now, row);
    if (state == RowState::kNotYet) continue;
    const bool ended = state == RowState::kEnded;
    look.processes.push_back(FollowedOf(row, ended));
    pull.counts[row.serial] = CountsOf(row.counts, options_);
    if (row.mappings >= kManyMappings) pull.mappings[row.serial] = row.mappings;
    pull.most_mappings = std::max<uint64_t>(pull.most_mappings, row.mappings);
    heaps_.Look(row, ended);
    if (ended) {
      bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.learned_images), &row.serial);
      bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.mallocs), &row.serial);
      tree_->Forget(key, IdOf(row.id));
      ended_with_regions_.insert(row.serial);
      sites_->AddEnded(row.serial);
    }
  }
  settling_->EndRows(living);
  if (absl::Status status = heaps_.MakeRoom(*skeleton_); !status.ok()) return status;
  if (absl::Status status = ReadCauses(look, &pull); !status.ok()) return status;
  std::sort(look.processes.begin(), look.processes.end(), [](const FollowedProcess& a, const FollowedProcess& b) {
    return std::tie(a.forked_ns, a.serial) < std::tie(b.forked_ns, b.serial);
  });
  if (absl::Status status = TakeLate(&look, &pull); !status.ok()) return status;
  MakeRoomForRegions(now);
  pulled_ = std::move(pull);
  return look;
}

absl::flat_hash_map<uint32_t, FaultCounts> BpfFaults::CountFaultsNow() {
  absl::flat_hash_map<uint32_t, FaultCounts> counts;
  if (!settling_->Run(/*all=*/false).ok()) return counts;
  const auto rows = ReadHash<Key, Row>(bpf_map__fd(skeleton_->maps.processes), "processes");
  if (!rows.ok()) return counts;
  for (const auto& [key, row] : *rows) {
    if (key.pid == 0) continue;
    counts[row.serial] = CountsOf(row.counts, options_);
    counts[row.serial].copies.reset();
  }
  return counts;
}

// A process whose end stands in the rows is forgotten after this look, so all that came before its end is told with it.
// One that was forked may run what its parent called exec for since the ring was read. What belongs to a process
// without a row yet stays for the next look.
absl::Status BpfFaults::TakeLate(TreeLook* look, Pull* pull) {
  if (int error = ring_buffer__consume(ring_.get()); error < 0) return BpfStatus(-error, "read the ring buffer");
  absl::flat_hash_set<pid_t> pids;
  absl::flat_hash_set<uint32_t> serials;
  for (const FollowedProcess& process : look->processes) {
    pids.insert(process.id.pid);
    serials.insert(process.serial);
  }
  MoveIf(
      &seen_, [&](const SeenEvent& event) { return pids.contains(event.process.pid); }, &look->events);
  MoveIf(
      &pages_, [&](const CopiedPage& page) { return serials.contains(page.serial); }, &pull->pages);
  return absl::OkStatus();
}

// Deletes the rows of processes that had ended by the last look: the probes can't, since they know only addresses.
absl::StatusOr<std::vector<TouchedRegion>> BpfFaults::PullRegions() {
  const int map = bpf_map__fd(skeleton_->maps.regions);
  const auto rows = ReadHash<cowprof_region_key, uint8_t>(map, "regions");
  if (!rows.ok()) return rows.status();
  std::vector<TouchedRegion> regions;
  for (const auto& [key, unused] : *rows) {
    const uint32_t serial = key >> 36;
    if (ended_with_regions_.contains(serial)) {
      bpf_map_delete_elem(map, &key);
    } else {
      regions.push_back({serial, (key & ((1ull << 36) - 1)) << COWPROF_REGION_SHIFT});
    }
  }
  ended_with_regions_.clear();
  return regions;
}

// Rounds of sweeps may be minutes apart, and each epoch has new workers.
void BpfFaults::MakeRoomForRegions(uint64_t now_ns) {
  if (ended_with_regions_.empty() || now_ns < next_room_ns_) return;
  const absl::Duration before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
  static_cast<void>(PullRegions());
  const absl::Duration cost = ReadClock(CLOCK_THREAD_CPUTIME_ID) - before;
  next_room_ns_ = now_ns + absl::ToInt64Nanoseconds(std::max(kRoomEvery, cost / kRoomShare));
}

bool BpfFaults::TakeNews(bool again) {
  return again ? __atomic_exchange_n(&skeleton_->bss->news, 0, __ATOMIC_ACQ_REL) != 0
               : __atomic_load_n(&skeleton_->bss->news, __ATOMIC_ACQUIRE) != 0;
}

absl::Status BpfFaults::LearnImage(uint32_t serial, uint32_t image, const cowprof_image& facts) {
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.images), &image, &facts, BPF_ANY) != 0 ||
      bpf_map_update_elem(bpf_map__fd(skeleton_->maps.learned_images), &serial, &image, BPF_ANY) != 0) {
    return BpfStatus(errno, "write the table of images");
  }
  __atomic_add_fetch(&skeleton_->bss->images_learned, 1, __ATOMIC_RELEASE);
  return absl::OkStatus();
}

absl::Status BpfFaults::LearnMalloc(uint32_t serial, const cowprof_malloc& facts) {
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.mallocs), &serial, &facts, BPF_ANY) != 0)
    return BpfStatus(errno, "write the table of allocators");
  return absl::OkStatus();
}

// An image that is still there came after the exec, which deletes it. The probes may have taken it over already, so it
// is overwritten with "unknown". An inherited one has no row here yet. A process that has ended gets none.
void BpfFaults::Unlearn(uint32_t serial, bool living) {
  const uint32_t unknown = 0;
  bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.mallocs), &serial);
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.learned_images), &serial, &unknown,
                          living ? BPF_ANY : BPF_EXIST) == 0)
    __atomic_add_fetch(&skeleton_->bss->images_learned, 1, __ATOMIC_RELEASE);
}

absl::Status BpfFaults::TrustSites(const std::vector<SiteVerdict>& verdicts) {
  if (verdicts.empty()) return absl::OkStatus();
  for (const SiteVerdict& verdict : verdicts) {
    const cowprof_site_key key = {verdict.ip, verdict.image};
    const uint8_t shape = verdict.shape;
    if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.sites), &key, &shape, BPF_ANY) != 0)
      return BpfStatus(errno, "write the table of instructions");
  }
  __atomic_add_fetch(&skeleton_->bss->verdicts_known, 1, __ATOMIC_RELEASE);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FaultSource>> LoadBpfFaults(const BpfOptions& options, KernelBtf kernel) {
  auto faults = std::make_unique<BpfFaults>();
  if (absl::Status status = faults->Load(options, std::move(kernel)); !status.ok()) return status;
  return faults;
}

}  // namespace cowprof
