// Loads the probes, finds the processes that exist already without a gap, and pulls rows and events once a tick. The
// only spelling of the maps' layout in user space; what a row means is documented in model/sample.h.
#include "source/bpf_faults.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cowprof.h"
#include "cowprof.skel.h"
#include "posix/fd.h"

namespace cowprof {
namespace {

using Key = cowprof_process_key;
using Row = cowprof_process_row;

struct SkeletonDeleter {
  void operator()(cowprof_probes* skeleton) const { cowprof_probes::destroy(skeleton); }
};
struct RingDeleter {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

// libbpf explains itself through a print function only: its last warning becomes part of our message.
std::string& LastWarning() {
  static std::string text;
  return text;
}

int KeepWarning(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN) return 0;
  char line[512];
  vsnprintf(line, sizeof(line), format, arguments);
  // A failed raise of RLIMIT_MEMLOCK is no failure: kernels since 5.11 charge BPF memory to the cgroup.
  if (strstr(line, "RLIMIT_MEMLOCK") == nullptr) {
    const absl::string_view one_line = absl::StripAsciiWhitespace(line);
    LastWarning() = std::string(one_line.substr(0, one_line.find('\n')));
  }
  return 0;
}

absl::Status BpfStatus(int error, absl::string_view attempted) {
  std::string message = absl::StrCat(attempted, ": ", strerror(error));
  if (!LastWarning().empty()) absl::StrAppend(&message, " (", LastWarning(), ")");
  return absl::Status(absl::ErrnoToStatusCode(error), message);
}

ProcessId IdOf(const Key& key) { return {static_cast<pid_t>(key.pid), key.start_ns}; }

std::string CommOf(const char (&comm)[COWPROF_COMM_BYTES]) { return std::string(comm, strnlen(comm, sizeof(comm))); }

FaultCounts CountsOf(const cowprof_counts& c) {
  return {.faults = c.faults,
          .kernel_faults = c.kernel_faults,
          .write_protect_faults = c.write_protect_faults,
          .copies = c.copies,
          .kernel_copies = c.kernel_copies,
          .zero_upgrades = c.zero_upgrades,
          .zero_fill_pages = c.zero_fill_pages,
          .file_copies = c.file_copies,
          .shm_pages = c.shm_pages,
          .swap_ins = c.swap_ins};
}

// Whether mark_victim takes a task (new) or a pid (old): stable kernels took the change over, so no version tells.
bool MarkVictimTakesTask() {
  btf* kernel = btf__load_vmlinux_btf();
  if (kernel == nullptr) return true;
  bool takes_task = true;
  const int id = btf__find_by_name_kind(kernel, "btf_trace_mark_victim", BTF_KIND_TYPEDEF);
  if (id > 0) {
    // typedef -> pointer -> function prototype, whose parameter 0 is the probe's own data.
    const btf_type* type = btf__type_by_id(kernel, id);
    type = btf__type_by_id(kernel, type->type);
    type = btf__type_by_id(kernel, type->type);
    if (btf_is_func_proto(type) && btf_vlen(type) >= 2) {
      takes_task = btf_is_ptr(btf__type_by_id(kernel, btf_params(type)[1].type));
    }
  }
  btf__free(kernel);
  return takes_task;
}

class BpfFaults : public FaultSource {
 public:
  absl::Status Load(const BpfOptions& options);
  absl::Status Follow(pid_t target) override;
  absl::StatusOr<Pull> PullCounts() override;
  absl::StatusOr<std::vector<TouchedRegion>> PullRegions() override;
  int wake_fd() const override { return ring_buffer__epoll_fd(ring_.get()); }

 private:
  absl::StatusOr<std::vector<cowprof_task>> ListTasks() const;
  bool Insert(const Key& key, const Key& parent, const char* comm);
  void FollowDescendants(const std::vector<cowprof_task>& tasks, const Key& target);
  absl::Status FollowUnseenForks();
  absl::Status DropTheDead();
  absl::StatusOr<std::vector<std::pair<Key, Row>>> ReadRows() const;
  std::vector<SeenEvent> TakeEvents();
  static int OnEvent(void* context, void* data, size_t size);

  // Destroyed in reverse order: the ring before the maps it reads.
  std::unique_ptr<cowprof_probes, SkeletonDeleter> skeleton_;
  std::unique_ptr<ring_buffer, RingDeleter> ring_;
  absl::flat_hash_set<ProcessId> inserted_;      // found at attach, not forked under our eyes
  absl::flat_hash_set<uint32_t> ended_serials_;  // whose regions are still in the table
  std::vector<cowprof_event> events_;            // since the last pull
  Key target_ = {};
};

absl::Status BpfFaults::Load(const BpfOptions& options) {
  libbpf_set_print(KeepWarning);
  LastWarning().clear();
  skeleton_.reset(cowprof_probes::open());
  if (skeleton_ == nullptr) return BpfStatus(errno, "open the probes");
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton_->obj) bpf_program__set_autoload(program, true);
  const bool takes_task = MarkVictimTakesTask();
  bpf_program__set_autoload(takes_task ? skeleton_->progs.oom_victim_pid : skeleton_->progs.oom_victim_task, false);
  bpf_map__set_max_entries(skeleton_->maps.regions, options.max_regions);
  if (int error = cowprof_probes::load(skeleton_.get())) return BpfStatus(-error, "load the BTF tracepoint programs");
  ring_.reset(ring_buffer__new(bpf_map__fd(skeleton_->maps.events), &BpfFaults::OnEvent, this, nullptr));
  if (ring_ == nullptr) return BpfStatus(errno, "map the ring buffer of events");
  // From here on every fork of the host is reported, until Follow() has closed the tree.
  skeleton_->bss->scanning = 1;
  bpf_program__set_autoattach(skeleton_->progs.list_tasks, false);
  if (int error = cowprof_probes::attach(skeleton_.get()))
    return BpfStatus(-error, "attach the BTF tracepoint programs");
  const Key overflow = {};
  Row row = {};
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.processes), &overflow, &row, BPF_ANY) != 0) {
    return BpfStatus(errno, "write the overflow row");
  }
  return absl::OkStatus();
}

int BpfFaults::OnEvent(void* context, void* data, size_t size) {
  if (size >= sizeof(cowprof_event)) {
    static_cast<BpfFaults*>(context)->events_.push_back(*static_cast<const cowprof_event*>(data));
  }
  return 0;
}

// Every process of the host with its exact start time, which /proc cuts to 10 ms.
absl::StatusOr<std::vector<cowprof_task>> BpfFaults::ListTasks() const {
  std::unique_ptr<bpf_link, decltype(&bpf_link__destroy)> link(
      bpf_program__attach_iter(skeleton_->progs.list_tasks, nullptr), &bpf_link__destroy);
  if (link == nullptr) return BpfStatus(errno, "attach iter/task");
  Fd fd(bpf_iter_create(bpf_link__fd(link.get())));
  if (!fd.ok()) return BpfStatus(errno, "start iter/task");
  std::string bytes;
  char chunk[16384];
  for (;;) {
    const ssize_t got = read(fd.fd(), chunk, sizeof(chunk));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return BpfStatus(errno, "read iter/task");
    if (got == 0) break;
    bytes.append(chunk, got);
  }
  std::vector<cowprof_task> tasks(bytes.size() / sizeof(cowprof_task));
  memcpy(tasks.data(), bytes.data(), tasks.size() * sizeof(cowprof_task));
  return tasks;
}

// False if the process has a row already, made by us or by the fork probe.
bool BpfFaults::Insert(const Key& key, const Key& parent, const char* comm) {
  Row row = {};
  row.parent = parent;
  row.serial = __atomic_add_fetch(&skeleton_->bss->last_serial, 1, __ATOMIC_RELAXED);
  memcpy(row.comm, comm, sizeof(row.comm));
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.processes), &key, &row, BPF_NOEXIST) != 0) {
    // The fork probe was first (EEXIST): nothing to do. A full table is counted like a fork's.
    if (errno != EEXIST) __atomic_fetch_add(&skeleton_->bss->losses.processes_dropped, 1, __ATOMIC_RELAXED);
    return false;
  }
  inserted_.insert(IdOf(key));
  return true;
}

void BpfFaults::FollowDescendants(const std::vector<cowprof_task>& tasks, const Key& target) {
  absl::flat_hash_map<ProcessId, std::vector<const cowprof_task*>> children;
  for (const cowprof_task& task : tasks) children[IdOf(task.parent)].push_back(&task);
  std::vector<Key> open = {target};
  absl::flat_hash_set<ProcessId> seen = {IdOf(target)};
  for (size_t i = 0; i < open.size(); ++i) {
    const auto found = children.find(IdOf(open[i]));
    if (found == children.end()) continue;
    for (const cowprof_task* task : found->second) {
      if (!seen.insert(IdOf(task->process)).second) continue;
      Insert(task->process, task->parent, task->comm);
      open.push_back(task->process);
    }
  }
}

// A process that we had not inserted yet may have forked between the look at the tree and its insertion; its fork was
// reported as one of a stranger. Once a pass inserts nobody, every member of the tree was followed before its next
// fork.
absl::Status BpfFaults::FollowUnseenForks() {
  size_t next = 0;
  for (bool inserted = true; inserted;) {
    inserted = false;
    if (int error = ring_buffer__consume(ring_.get()); error < 0) return BpfStatus(-error, "read the ring buffer");
    for (; next < events_.size(); ++next) {
      const cowprof_event& event = events_[next];
      Row row;
      if (event.kind != COWPROF_FORK_SEEN ||
          bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.processes), &event.parent, &row) != 0) {
        continue;
      }
      inserted |= Insert(event.process, event.parent, event.comm);
    }
  }
  return absl::OkStatus();
}

absl::Status BpfFaults::Follow(pid_t target) {
  absl::StatusOr<std::vector<cowprof_task>> tasks = ListTasks();
  if (!tasks.ok()) return tasks.status();
  const auto is_target = [&](const cowprof_task& task) { return static_cast<pid_t>(task.process.pid) == target; };
  const auto root = std::find_if(tasks->begin(), tasks->end(), is_target);
  if (root == tasks->end()) return absl::NotFoundError(absl::StrCat("no process ", target));
  target_ = root->process;
  Insert(target_, Key{}, root->comm);
  // The list is older than the target's row: a second one sees what was forked in between, or the probe did.
  tasks = ListTasks();
  if (!tasks.ok()) return tasks.status();
  FollowDescendants(*tasks, target_);
  if (absl::Status status = FollowUnseenForks(); !status.ok()) return status;
  skeleton_->bss->scanning = 0;
  if (absl::Status status = DropTheDead(); !status.ok()) return status;
  return inserted_.contains(IdOf(target_)) ? absl::OkStatus() : absl::NotFoundError("it has just ended");
}

// One that ended between the look at the tree and its row's insertion: the exit probe did not know it.
absl::Status BpfFaults::DropTheDead() {
  const absl::StatusOr<std::vector<cowprof_task>> tasks = ListTasks();
  if (!tasks.ok()) return tasks.status();
  absl::flat_hash_set<ProcessId> living;
  for (const cowprof_task& task : *tasks) living.insert(IdOf(task.process));
  const int map = bpf_map__fd(skeleton_->maps.processes);
  for (const ProcessId& id : std::vector<ProcessId>(inserted_.begin(), inserted_.end())) {
    const Key key = {static_cast<unsigned>(id.pid), 0, id.start_ns};
    Row row;
    if (living.contains(id) || bpf_map_lookup_elem(map, &key, &row) != 0 || row.exited_ns != 0) continue;
    bpf_map_delete_elem(map, &key);
    inserted_.erase(id);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<Key, Row>>> BpfFaults::ReadRows() const {
  const int map = bpf_map__fd(skeleton_->maps.processes);
  std::vector<std::pair<Key, Row>> rows;
  std::vector<Key> keys(512);
  std::vector<Row> values(512);
  uint32_t position = 0;  // the kernel's cursor of a hash is 4 bytes
  for (bool first = true;; first = false) {
    uint32_t count = keys.size();
    const int error =
        bpf_map_lookup_batch(map, first ? nullptr : &position, &position, keys.data(), values.data(), &count, nullptr);
    if (error != 0 && error != -ENOENT) return BpfStatus(-error, "read the process table");
    for (uint32_t i = 0; i < count; ++i) rows.emplace_back(keys[i], values[i]);
    if (error == -ENOENT) return rows;
  }
}

absl::StatusOr<Pull> BpfFaults::PullCounts() {
  // Events first: an exit that is reported here has its row in the same pull.
  if (int error = ring_buffer__consume(ring_.get()); error < 0) return BpfStatus(-error, "read the ring buffer");
  absl::StatusOr<std::vector<std::pair<Key, Row>>> rows = ReadRows();
  if (!rows.ok()) return rows.status();
  Pull pull;
  const cowprof_losses& losses = skeleton_->bss->losses;
  pull.losses = {.events_dropped = losses.events_dropped,
                 .processes_dropped = losses.processes_dropped,
                 .regions_dropped = losses.regions_dropped};
  for (const auto& [key, row] : *rows) {
    if (key.pid == 0) {
      pull.losses.unattributed_copies = row.counts.copies;  // the overflow row
      continue;
    }
    const ProcessId id = IdOf(key);
    const bool found = inserted_.contains(id);
    pull.processes.push_back({.id = id,
                              .parent = IdOf(row.parent),
                              .origin = id == IdOf(target_) ? Origin::kTarget
                                        : found             ? Origin::kFoundAtAttach
                                                            : Origin::kForked,
                              .serial = row.serial,
                              .forked_ns = row.forked_ns,
                              .exited_ns = row.exited_ns,
                              .exit_status = row.exit_code,
                              .comm = CommOf(row.comm),
                              .counts = CountsOf(row.counts)});
    if (row.exited_ns != 0) {
      bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.processes), &key);
      inserted_.erase(id);
      ended_serials_.insert(row.serial);
    }
  }
  std::sort(pull.processes.begin(), pull.processes.end(), [](const FollowedProcess& a, const FollowedProcess& b) {
    return std::tie(a.forked_ns, a.serial) < std::tie(b.forked_ns, b.serial);
  });
  pull.events = TakeEvents();
  return pull;
}

std::vector<SeenEvent> BpfFaults::TakeEvents() {
  std::vector<SeenEvent> seen;
  for (const cowprof_event& event : events_) {
    SeenEvent out = {.process = IdOf(event.process), .time_ns = event.time_ns};
    switch (event.kind) {
      case COWPROF_EXEC:
        out.event.kind = EventKind::kExec;
        out.event.comm = CommOf(event.comm);
        break;
      case COWPROF_SIGNAL_SENT:
        out.event.kind = EventKind::kSignalSent;
        break;
      case COWPROF_SIGNAL_DELIVERED:
        out.event.kind = EventKind::kSignalDelivered;
        break;
      case COWPROF_OOM_VICTIM:
        out.event.kind = EventKind::kOomVictim;
        break;
      default:  // forks and exits stand in the rows, which a full ring buffer can't lose
        continue;
    }
    out.event.signal = event.signal;
    out.event.code = event.code;
    out.event.sender = event.sender;
    out.event.address = event.address;
    seen.push_back(std::move(out));
  }
  events_.clear();
  return seen;
}

// Regions of processes that ended by the last PullCounts() are deleted here: the probes can't, knowing only addresses.
absl::StatusOr<std::vector<TouchedRegion>> BpfFaults::PullRegions() {
  const int map = bpf_map__fd(skeleton_->maps.regions);
  std::vector<TouchedRegion> regions;
  std::vector<cowprof_region_key> keys(4096), stale;
  std::vector<uint8_t> values(4096);
  uint32_t position = 0;  // the kernel's cursor of a hash is 4 bytes
  for (bool first = true, more = true; more; first = false) {
    uint32_t count = keys.size();
    const int error =
        bpf_map_lookup_batch(map, first ? nullptr : &position, &position, keys.data(), values.data(), &count, nullptr);
    if (error != 0 && error != -ENOENT) return BpfStatus(-error, "read the region table");
    more = error == 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t serial = keys[i] >> 36;
      if (ended_serials_.contains(serial)) {
        stale.push_back(keys[i]);
      } else {
        regions.push_back({serial, (keys[i] & ((1ull << 36) - 1)) << COWPROF_REGION_SHIFT});
      }
    }
  }
  for (const cowprof_region_key key : stale) bpf_map_delete_elem(map, &key);
  ended_serials_.clear();
  return regions;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FaultSource>> LoadBpfFaults(const BpfOptions& options) {
  auto faults = std::make_unique<BpfFaults>();
  if (absl::Status status = faults->Load(options); !status.ok()) return status;
  return faults;
}

}  // namespace cowprof
