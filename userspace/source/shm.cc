// A step is one entry of the folder, one thread, one read of a maps file, or one descriptor, so that a hundred thousand
// of any of them do not delay a tick.
#include "source/shm.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "model/facts/shm.h"
#include "model/saturating.h"
#include "posix/clock.h"
#include "posix/fd.h"
#include "posix/open_in_root.h"
#include "source/namespaces.h"
#include "source/wait_state.h"

namespace cowprof {
namespace {

constexpr size_t kDeepestFolder = 16;
constexpr absl::Duration kLasting = absl::Seconds(1);
constexpr absl::Duration kClockStep = absl::Seconds(2);  // by which the wall clock may have been corrected meanwhile

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

Directory ListOf(int fd) {
  DIR* directory = fd < 0 ? nullptr : fdopendir(fd);
  if (fd >= 0 && directory == nullptr) close(fd);
  return Directory(directory, closedir);
}

// Without asking a server: a descriptor on a dead NFS mount must not block. False: it is gone, or not permitted.
bool Stat(int directory, const char* name, int flags, struct statx* out) {
  return statx(directory, name, flags | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, out) == 0;
}

uint64_t DeviceOf(const struct statx& info) { return makedev(info.stx_dev_major, info.stx_dev_minor); }

absl::Time TimeOf(const statx_timestamp& stamp) {
  return absl::FromUnixSeconds(stamp.tv_sec) + absl::Nanoseconds(stamp.tv_nsec);
}

std::string RootOf(const ProcFs& proc, pid_t viewer) {
  return viewer == 0 ? absl::StrCat(proc.root(), "/self/root") : proc.PathOf(viewer, "root");
}

}  // namespace

struct ShmLook::State {
  using Key = std::tuple<uint64_t, uint64_t, bool>;  // device, inode, System V: its ids are a space of their own

  ProcFs proc;
  ShmLookPlan plan;
  Fd root;
  absl::Time began = absl::Now();
  ShmSample sample;
  std::string device_text;  // the mount's device as maps prints it: "00:28 "
  std::map<Key, ShmSegment> segments;
  uint64_t entries = 0;
  std::map<Key, absl::Time> changed;          // named segments: not made later
  std::set<pid_t> creators;                   // pids in names
  std::map<pid_t, absl::Time> seen_creators;  // those of them that are alive, and since when

  struct Folder {
    Directory entries;
    std::string path;  // "" or "cache/"
  };
  std::vector<Folder> folders;  // open ones, innermost last

  std::vector<pid_t> pids;
  size_t next_pid = 0;
  // State of the current process.
  enum class Part { kBegin, kMaps, kDescriptors } part = Part::kBegin;
  bool has_memory = false, refused = false, hangs = false;
  LockCheck locks;
  Fd maps;
  std::string text;  // incomplete last line of maps
  Directory descriptors{nullptr, closedir};
  std::vector<pid_t> living;

  void ListPids();
  void ListEntry();
  void AddNamed(const std::string& name, const struct statx& info);
  ShmSegment* Find(uint64_t device, uint64_t inode, const std::string& name);
  void Begin(pid_t pid);
  void NoteCreator(pid_t pid);
  bool LivesCreatorOf(const Key& key, const ShmSegment& segment) const;
  bool MayBeShared(absl::string_view line) const;
  void ReadMaps(pid_t pid);
  void ReadDescriptor(pid_t pid);
  void AddUnreadable(pid_t pid);
  void End(pid_t pid);
  void AddMapping(pid_t pid, const Mapping& mapping);
  bool Step();
};

void ShmLook::State::ListPids() {
  pids = plan.first;
  if (!plan.whole) return;
  const std::set<pid_t> first(pids.begin(), pids.end());
  for (const pid_t pid : proc.ListPids()) {
    if (!first.contains(pid)) pids.push_back(pid);
  }
}

void ShmLook::State::AddNamed(const std::string& name, const struct statx& info) {
  ShmSegment& segment = segments[{sample.device, info.stx_ino, false}];
  if (!segment.name.empty()) return;  // a second name of the same file
  segment = {.name = name,
             .kind = KindOfName(name),
             .device = sample.device,
             .inode = info.stx_ino,
             .bytes = info.stx_blocks * 512,
             .length_bytes = info.stx_size,
             .lasting_name = began - TimeOf(info.stx_ctime) >= kLasting,
             .creator = CreatorInName(name)};
  changed[{sample.device, info.stx_ino, false}] = TimeOf(info.stx_ctime);
  if (segment.creator != 0) creators.insert(segment.creator);
}

void ShmLook::State::ListEntry() {
  const Folder& folder = folders.back();
  const dirent* entry = readdir(folder.entries.get());
  if (entry == nullptr) return folders.pop_back();
  const std::string entry_name = entry->d_name;
  if (entry_name == "." || entry_name == "..") return;
  if (++entries > plan.most_entries) {
    ++sample.unlisted;
    if (sample.unlisted > plan.most_entries) folders.clear();  // entries that keep being added must not hold us up
    return;
  }
  struct statx info;
  if (!Stat(dirfd(folder.entries.get()), entry_name.c_str(), AT_SYMLINK_NOFOLLOW, &info)) return;
  if (DeviceOf(info) != sample.device) return;
  if (S_ISREG(info.stx_mode)) return AddNamed(folder.path + entry_name, info);
  if (!S_ISDIR(info.stx_mode) || folders.size() >= kDeepestFolder) return;
  Directory inner =
      ListOf(openat(dirfd(folder.entries.get()), entry_name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  std::string path = absl::StrCat(folder.path, entry_name, "/");
  if (inner != nullptr) folders.push_back({std::move(inner), std::move(path)});
}

// The segment that a process maps or holds, by the name that the kernel prints; null if it is not shared memory.
ShmSegment* ShmLook::State::Find(uint64_t device, uint64_t inode, const std::string& name) {
  const bool memfd = absl::StartsWith(name, "/memfd:"), sysv = absl::StartsWith(name, "/SYSV");
  if (device != sample.device && !memfd && !sysv) return nullptr;
  ShmSegment& segment = segments[{device, inode, sysv}];
  if (segment.inode != 0) return &segment;
  absl::string_view bare = name;
  const bool deleted = absl::ConsumeSuffix(&bare, " (deleted)");
  if (!absl::ConsumePrefix(&bare, "/dev/shm/")) absl::ConsumePrefix(&bare, "/");
  const SegmentKind kind = memfd ? SegmentKind::kMemfd : sysv ? SegmentKind::kSysV : KindOfName(bare);
  segment = {.name = std::string(bare), .kind = kind, .device = device, .inode = inode, .deleted = deleted};
  if (!memfd && !sysv) segment.creator = CreatorInName(bare);
  return &segment;
}

void ShmLook::State::AddMapping(pid_t pid, const Mapping& mapping) {
  if (mapping.inode == 0 && !absl::StartsWith(mapping.name, "/SYSV")) return;
  ShmSegment* segment = Find(mapping.device, mapping.inode, mapping.name);
  if (segment == nullptr) return;
  if (segment->mapped_by.empty() || segment->mapped_by.back() != pid) segment->mapped_by.push_back(pid);
  if (segment->length_bytes > 0) return;
  // It has no name and maybe no descriptor to stat. map_files needs CAP_CHECKPOINT_RESTORE; without it the mapped part
  // counts as used.
  struct statx info;
  const std::string file = absl::StrFormat("map_files/%x-%x", mapping.begin, mapping.end);
  const bool known = Stat(AT_FDCWD, proc.PathOf(pid, file).c_str(), 0, &info);
  segment->length_bytes = known ? info.stx_size : mapping.offset + (mapping.end - mapping.begin);
  segment->bytes = known ? info.stx_blocks * 512 : segment->length_bytes;
}

// A stranger's lock must not stop the caller for good. The maps of the first processes are read elsewhere, too.
void ShmLook::State::Begin(pid_t pid) {
  const bool stranger = next_pid >= plan.first.size();
  const LockCheck::Result lock = stranger ? locks.Step(proc, pid) : LockCheck::Result::kFree;
  if (lock == LockCheck::Result::kAgain) pids.push_back(pids[next_pid]);
  next_pid += lock == LockCheck::Result::kAgain || lock == LockCheck::Result::kKernel;
  if (lock != LockCheck::Result::kFree && lock != LockCheck::Result::kHangs) return;
  has_memory = hangs = lock == LockCheck::Result::kHangs;
  text.clear(), part = Part::kMaps;
  maps = Fd(hangs ? -1 : open(proc.PathOf(pid, "maps").c_str(), O_RDONLY | O_CLOEXEC));
  refused = !maps.ok() && (errno == EACCES || errno == EPERM);
  if (!creators.empty()) NoteCreator(pid);
}

// The pid in a name is that of the creator's pid namespace, where another container may have another process.
void ShmLook::State::NoteCreator(pid_t pid) {
  const absl::StatusOr<std::string> status = proc.ReadFile(pid, "status");
  if (!status.ok()) return;
  const ProcStatus known = ParseStatus(*status);
  if (!known.anon_bytes) return;  // it has ended and has no memory any more, whether or not its parent knows
  for (const pid_t inner : known.namespace_pids) {
    if (!creators.contains(inner)) continue;
    struct statx info;
    const Fd shm = OpenFolderInRoot(RootOf(proc, pid), "dev/shm");
    if (shm.ok() && Stat(shm.fd(), "", AT_EMPTY_PATH, &info) && DeviceOf(info) != sample.device) return;
    const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
    const absl::Time started = stat.ok() ? WallTimeOf(absl::Nanoseconds(stat->start_ns())) : absl::InfinitePast();
    absl::Time& first = seen_creators.try_emplace(inner, started).first->second;
    first = std::min(first, started);
  }
}

// Not one of the same pid that started after the segment was made. That can't be told once the wall clock was set.
bool ShmLook::State::LivesCreatorOf(const Key& key, const ShmSegment& segment) const {
  static const absl::Time boot_at_first = WallTimeOf(absl::ZeroDuration());
  const bool clock_was_set = absl::AbsDuration(WallTimeOf(absl::ZeroDuration()) - boot_at_first) > kClockStep;
  const auto seen = seen_creators.find(segment.creator);
  const auto made = changed.find(key);
  return seen != seen_creators.end() &&
         (clock_was_set || made == changed.end() || seen->second <= made->second + kClockStep);
}

// Whether the line may be about shared memory: only few of the thousands of lines are worth parsing.
bool ShmLook::State::MayBeShared(absl::string_view line) const {
  return absl::StrContains(line, device_text) || absl::StrContains(line, "/memfd:") || absl::StrContains(line, "/SYSV");
}

// One read: the kernel returns at most a page at a time.
void ShmLook::State::ReadMaps(pid_t pid) {
  char buffer[16384];
  const ssize_t got = maps.ok() ? read(maps.fd(), buffer, sizeof(buffer)) : 0;
  if (got < 0 && errno == EINTR) return;
  if (got > 0) {
    has_memory = true;
    text.append(buffer, got);
    const size_t lines = text.rfind('\n') + 1;  // 0 if there is none
    for (absl::string_view line : absl::StrSplit(absl::string_view(text).substr(0, lines), '\n')) {
      if (!MayBeShared(line)) continue;
      for (const Mapping& mapping : ParseMaps(line)) AddMapping(pid, mapping);
    }
    text.erase(0, lines);
    return;
  }
  refused |= got < 0 && (errno == EACCES || errno == EPERM);
  maps = Fd(-1);
  descriptors = ListOf(open(proc.PathOf(pid, "fd").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  refused |= descriptors == nullptr && (errno == EACCES || errno == EPERM);
  part = Part::kDescriptors;
}

void ShmLook::State::ReadDescriptor(pid_t pid) {
  const dirent* entry = descriptors == nullptr ? nullptr : readdir(descriptors.get());
  if (entry == nullptr) return End(pid);
  if (entry->d_name[0] == '.') return;
  const int directory = dirfd(descriptors.get());
  struct statx info;
  if (!Stat(directory, entry->d_name, 0, &info) || !S_ISREG(info.stx_mode)) return;
  const uint64_t device = DeviceOf(info);
  char name[4096];
  // Read its name only if it may be shared memory, which has no block device and therefore major number 0.
  if (device != sample.device && info.stx_dev_major != 0) return;
  const ssize_t length = readlinkat(directory, entry->d_name, name, sizeof(name));
  if (length <= 0) return;
  ShmSegment* segment = Find(device, info.stx_ino, std::string(name, length));
  if (segment == nullptr) return;
  segment->bytes = info.stx_blocks * 512;
  segment->length_bytes = info.stx_size;
  if (device == sample.device) segment->deleted = info.stx_nlink == 0;
  if (segment->opened_by.empty() || segment->opened_by.back() != pid) segment->opened_by.push_back(pid);
}

// On some hosts not even root may read every process, but everyone may read how much shared memory it has resident. One
// that hangs may have mapped more, which it never touched or which was swapped out since.
void ShmLook::State::AddUnreadable(pid_t pid) {
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
  const absl::StatusOr<std::string> status = proc.ReadFile(pid, "status");
  if (!stat.ok() || stat->is_kernel_thread() || stat->state == 'Z') return;
  const Count resident = status.ok() && !hangs ? ParseStatus(*status).shmem_bytes : std::nullopt;
  const uint64_t bytes = resident.value_or(UINT64_MAX);
  sample.unreadable += bytes > 0;
  sample.unreadable_bytes = std::max(sample.unreadable_bytes, bytes);
}

void ShmLook::State::End(pid_t pid) {
  descriptors.reset();
  if (has_memory) living.push_back(pid);
  if (refused || hangs) AddUnreadable(pid);
  part = Part::kBegin;
  ++next_pid;
}

// Takes one step; false if nothing is left to do.
bool ShmLook::State::Step() {
  if (!folders.empty()) {
    ListEntry();
    if (folders.empty()) ListPids();
    return true;
  }
  if (next_pid >= pids.size()) return false;
  const pid_t pid = pids[next_pid];
  part == Part::kBegin ? Begin(pid) : part == Part::kMaps ? ReadMaps(pid) : ReadDescriptor(pid);
  return true;
}

ShmLook::ShmLook(std::unique_ptr<State> state) : state_(std::move(state)) {}
ShmLook::ShmLook(ShmLook&&) = default;
ShmLook::~ShmLook() = default;

absl::StatusOr<ShmLook> ShmLook::Begin(const ProcFs& proc, const ShmLookPlan& plan) {
  auto state = std::make_unique<State>();
  const std::string root = RootOf(proc, plan.viewer);
  state->proc = proc, state->plan = plan;
  state->root = OpenFolderInRoot(root, "dev/shm");
  struct statfs size;
  struct statx info;
  if (!state->root.ok() || fstatfs(state->root.fd(), &size) != 0 || !Stat(state->root.fd(), "", AT_EMPTY_PATH, &info))
    return absl::ErrnoToStatus(errno, absl::StrCat("open ", root, "/dev/shm"));
  if (size.f_type != TMPFS_MAGIC)
    return absl::FailedPreconditionError(absl::StrCat(root, "/dev/shm is not a tmpfs and holds no shared memory"));
  ShmSample& sample = state->sample;
  sample.mount = "/dev/shm";
  sample.device = DeviceOf(info);
  state->device_text = absl::StrFormat("%02x:%02x ", info.stx_dev_major, info.stx_dev_minor);
  sample.whole = plan.whole;
  if (size.f_blocks > 0) sample.capacity_bytes = uint64_t{size.f_blocks} * size.f_frsize;  // 0: mounted with size=0
  sample.used_bytes = uint64_t{SaturatingSubtract(size.f_blocks, size.f_bfree)} * size.f_frsize;
  // Unseen processes use it, too: with docker's --ipc=host, or where /proc hides others' (hidepid), as process 1.
  if ((!HasHostPids() && HasHostIpc()) || !proc.ReadStat(1).ok())
    sample.unreadable = 1, sample.unreadable_bytes = sample.used_bytes;
  Directory top = ListOf(openat(state->root.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (top == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("list ", root, "/dev/shm"));
  state->folders.push_back({std::move(top), ""});
  return ShmLook(std::move(state));
}

bool ShmLook::Run(absl::Duration budget) {
  constexpr int kStepsBetweenClocks = 32;
  const absl::Duration end = ReadClock(CLOCK_THREAD_CPUTIME_ID) + budget;
  do {
    for (int i = 0; i < kStepsBetweenClocks; ++i) {
      if (!state_->Step()) return true;
    }
  } while (ReadClock(CLOCK_THREAD_CPUTIME_ID) < end);
  return false;
}

bool ShmLook::IsStillThere(const ShmSegment& segment) const {
  struct statx info;
  return Stat(state_->root.fd(), segment.name.c_str(), AT_SYMLINK_NOFOLLOW, &info) && info.stx_ino == segment.inode;
}

ShmSample ShmLook::Take() {
  State& state = *state_;
  const std::set<pid_t> ours(state.plan.first.begin(), state.plan.first.end());
  for (auto& [key, segment] : state.segments) {
    segment.creator_alive = state.LivesCreatorOf(key, segment);
    const std::vector<pid_t> owners = OwnersOf(segment);
    const bool of_ours =
        state.plan.foreign || std::any_of(owners.begin(), owners.end(), [&](pid_t pid) { return ours.contains(pid); });
    if (!IsOnMount(state.sample, segment) && !of_ours) continue;
    // A segment that nobody uses may have been removed properly while this look was in progress.
    if (OwnershipOf(state.sample, segment) != Ownership::kOwned && !IsStillThere(segment)) continue;
    state.sample.segments.push_back(std::move(segment));
  }
  std::stable_sort(state.sample.segments.begin(), state.sample.segments.end(),
                   [](const ShmSegment& a, const ShmSegment& b) { return a.bytes > b.bytes; });
  return std::move(state.sample);
}

const std::vector<pid_t>& ShmLook::living() const { return state_->living; }

absl::Time LastNameChange(const ProcFs& proc, pid_t viewer) {
  struct statx info;
  const Fd shm = OpenFolderInRoot(RootOf(proc, viewer), "dev/shm");
  const bool known = shm.ok() && Stat(shm.fd(), "", AT_EMPTY_PATH, &info);
  return known ? TimeOf(info.stx_mtime) : absl::InfinitePast();
}

std::optional<pid_t> FindViewer(const ProcFs& proc, uint64_t device) {
  std::vector<pid_t> candidates = proc.ListPids();
  candidates.insert(candidates.begin(), 0);
  for (const pid_t pid : candidates) {
    struct statx info;
    const Fd shm = OpenFolderInRoot(RootOf(proc, pid), "dev/shm");
    if (shm.ok() && Stat(shm.fd(), "", AT_EMPTY_PATH, &info) && DeviceOf(info) == device) return pid;
  }
  return std::nullopt;
}

}  // namespace cowprof
