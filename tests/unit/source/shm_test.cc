// Looks at shared memory on hosts built as folders: named and unnamed segments, who maps and who holds them, hostile
// entries; and when ShmWatch looks.
#include "source/shm.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fixture_tree.h"
#include "model/facts/shm.h"
#include "posix/clock.h"
#include "posix/fd.h"
#include "recorder/shm_watch.h"

namespace cowprof {
namespace {

const std::string kRoot = "/proc/12/root";  // of the process, in the tree

using Pids = std::vector<pid_t>;

// Process 12 sees dev/shm of its root; other processes have only what a test writes.
struct Host {
  FixtureTree tree{"/dev/shm"};  // a tmpfs
  int descriptors = 3;

  Host() {
    std::filesystem::create_directories(Shm(""));
    Process(12);
    Process(1);
  }
  std::string Shm(const std::string& name) const { return tree.root() + kRoot + "/dev/shm/" + name; }
  ProcFs Proc() const { return ProcFs(tree.root() + "/proc"); }

  void Process(pid_t pid, const std::string& status = "", int threads = 1) const {
    tree.Write(absl::StrCat("/proc/", pid, "/stat"),
               absl::StrCat(pid, " (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 ", threads, " 0 5 8 1 2\n"));
    tree.Write(absl::StrCat("/proc/", pid, "/maps"), "1000-2000 rw-p 00000000 00:00 0 \n");
    tree.Write(absl::StrCat("/proc/", pid, "/status"), absl::StrCat("RssAnon:\t4 kB\nNSpid:\t", pid, status, "\n"));
    std::filesystem::create_directories(tree.root() + absl::StrCat("/proc/", pid, "/fd"));
  }
  void Thread(pid_t pid, pid_t tid, const std::string& state) const {
    const std::string folder = absl::StrCat("/proc/", pid, "/task/", tid);
    tree.Write(folder + "/stat", absl::StrCat(tid, " (x) ", state, " 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 8 1 2\n"));
    tree.Write(folder + "/status", "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t1\n");
  }
  void File(const std::string& name, size_t bytes) const {
    tree.Write(kRoot + "/dev/shm/" + name, std::string(bytes, 'x'));
  }
  // One line of maps for a file of the mount; `path` as the kernel prints it.
  void Map(pid_t pid, const std::string& name, const std::string& path) const {
    struct stat info;
    REQUIRE(stat(Shm(name).c_str(), &info) == 0);
    std::ofstream(tree.root() + absl::StrCat("/proc/", pid, "/maps"), std::ios::app)
        << absl::StrFormat("7f0000000000-7f0000002000 rw-s 00000000 %02x:%02x %d    %s\n", major(info.st_dev),
                           minor(info.st_dev), info.st_ino, path);
  }
  void Open(pid_t pid, const std::string& name) {
    tree.Link(absl::StrCat("/proc/", pid, "/fd/", descriptors++), Shm(name));
  }

  ShmSample Look(ShmLookPlan plan = {.viewer = 12}) const {
    absl::StatusOr<ShmLook> look = ShmLook::Begin(Proc(), plan);
    REQUIRE(look.ok());
    REQUIRE(look->Run(absl::InfiniteDuration()));
    return look->Take();
  }
};

const ShmSegment* Find(const ShmSample& sample, const std::string& name) {
  const auto found = std::find_if(sample.segments.begin(), sample.segments.end(),
                                  [&](const ShmSegment& segment) { return segment.name == name; });
  return found == sample.segments.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("named segments: sizes, kinds, and who maps or holds them") {
  Host host;
  host.Process(13);
  host.File("psm_a", 8192);
  host.File("cache/deep/x.npy", 4096);
  host.Map(12, "psm_a", "/dev/shm/psm_a");
  host.Map(12, "psm_a", "/dev/shm/psm_a");
  host.Open(13, "psm_a");
  host.Open(13, "psm_a");
  const ShmSample sample = host.Look();
  CHECK(sample.whole);
  CHECK(sample.capacity_bytes > 0);
  REQUIRE(sample.segments.size() == 2);
  const ShmSegment* psm = Find(sample, "psm_a");
  REQUIRE(psm != nullptr);
  CHECK(psm->length_bytes == 8192);
  CHECK(psm->mapped_by == Pids{12});
  CHECK(psm->opened_by == Pids{13});
  CHECK_FALSE(psm->deleted);
  REQUIRE(Find(sample, "cache/deep/x.npy") != nullptr);
  CHECK_FALSE(Find(sample, "cache/deep/x.npy")->has_owner());
}

TEST_CASE("an unnamed segment is found through its mapping, and counted once") {
  Host host;
  host.Process(13);
  host.File("gone", 8192);
  host.Map(12, "gone", "/dev/shm/torch_12_5_0 (deleted)");
  host.Map(13, "gone", "/dev/shm/torch_12_5_0 (deleted)");
  const uint64_t inode = [&] {
    struct stat info;
    REQUIRE(stat(host.Shm("gone").c_str(), &info) == 0);
    return info.st_ino;
  }();
  const Fd keeps_the_inode(open(host.Shm("gone").c_str(), O_RDONLY));
  unlink(host.Shm("gone").c_str());
  const ShmSample sample = host.Look();
  REQUIRE(sample.segments.size() == 1);
  const ShmSegment& segment = sample.segments[0];
  CHECK(segment.name == "torch_12_5_0");
  CHECK(segment.kind == SegmentKind::kTorch);
  CHECK(segment.creator == 12);
  CHECK(segment.deleted);
  CHECK(segment.inode == inode);
  CHECK(segment.mapped_by == Pids{12, 13});
  CHECK(segment.bytes == 8192);  // no map_files here: the mapped size
}

TEST_CASE("links are not followed, files not opened, other file systems not entered") {
  Host host;
  host.File("psm_real", 4096);
  std::filesystem::create_symlink("/etc/passwd", host.Shm("psm_link"));
  std::filesystem::create_symlink("/proc", host.Shm("folder_link"));
  REQUIRE(mkfifo(host.Shm("psm_fifo").c_str(), 0600) == 0);
  std::filesystem::create_hard_link(host.Shm("psm_real"), host.Shm("psm_twice"));
  const ShmSample sample = host.Look();
  CHECK(sample.segments.size() == 1);
}

TEST_CASE("a link in the process's own root stays inside it") {
  Host host;
  std::filesystem::remove_all(host.Shm(""));
  host.tree.Write(kRoot + "/run/shm/psm_inside", "x");
  host.tree.Link(kRoot + "/dev/shm", "/run/shm");
  CHECK(Find(host.Look(), "psm_inside") != nullptr);
}

TEST_CASE("memfds and System V segments are those of followed processes, and not on the mount") {
  Host host;
  host.Process(13);
  for (const pid_t pid : {12, 13}) {
    std::ofstream(host.tree.root() + absl::StrCat("/proc/", pid, "/maps"), std::ios::app)
        << "7f0000000000-7f0000004000 rw-s 00000000 00:01 " << pid << "    /memfd:a b (deleted)\n"
        << "7f0000010000-7f0000012000 rw-s 00000000 00:01 " << pid << "    /SYSV00000000 (deleted)\n";
  }
  ShmSample sample = host.Look({.viewer = 12, .first = {13}});
  REQUIRE(sample.segments.size() == 2);
  for (const ShmSegment& segment : sample.segments) {
    CHECK(segment.mapped_by == Pids{13});
    CHECK(segment.device != sample.device);
  }
  CHECK(Find(sample, "memfd:a b")->kind == SegmentKind::kMemfd);
  CHECK(Find(sample, "memfd:a b")->length_bytes == 0x4000);
  CHECK(Find(sample, "SYSV00000000")->kind == SegmentKind::kSysV);
  CHECK(host.Look({.viewer = 12, .first = {13}, .foreign = true}).segments.size() == 4);
}

TEST_CASE("a creator is searched in every pid namespace") {
  Host host;
  host.File("torch_7_1_0", 4096);
  host.File("torch_8_1_0", 4096);
  host.Process(13, "\t7");
  const ShmSample sample = host.Look();
  CHECK(Find(sample, "torch_7_1_0")->creator_alive);
  CHECK_FALSE(Find(sample, "torch_8_1_0")->creator_alive);
}

TEST_CASE("a process that has the pid of a creator and is another") {
  Host host;
  const FixtureTree elsewhere;  // not on the same file system
  host.File("torch_7_1_0", 4096);
  SECTION("it started after the segment was made") {
    host.Process(7);
    const int64_t later = absl::ToInt64Seconds(BootTime()) + 60;
    host.tree.Write("/proc/7/stat",
                    absl::StrCat("7 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 ", 100 * later, " 8 1 2\n"));
  }
  SECTION("it sees another /dev/shm") {
    host.Process(13, "\t7");
    elsewhere.Write("/dev/shm/other", "");
    host.tree.Link("/proc/13/root", elsewhere.root());
  }
  CHECK_FALSE(Find(host.Look(), "torch_7_1_0")->creator_alive);
}

TEST_CASE("the maps of a stranger that hangs are not read, and it may own anything") {
  Host host;
  host.Process(13, "", /*threads=*/2);
  host.Thread(13, 13, "S");
  host.Thread(13, 14, "S");
  for (const char* name : {"psm_mapped", "psm_open"}) host.File(name, 8192);
  host.Map(13, "psm_mapped", "/dev/shm/psm_mapped");
  host.Open(13, "psm_open");
  const auto owners = [](const ShmSample& sample) { return OwnersOf(*Find(sample, "psm_mapped")); };
  const ShmSample before = host.Look();
  CHECK(owners(before) == Pids{13});
  host.Thread(13, 14, "D");
  absl::StatusOr<ShmLook> look = ShmLook::Begin(host.Proc(), {.viewer = 12});
  REQUIRE(look.ok());
  REQUIRE(look->Run(absl::InfiniteDuration()));
  const ShmSample sample = look->Take();
  CHECK(sample.unreadable == before.unreadable + 1);
  CHECK(owners(sample).empty());
  CHECK(OwnershipOf(sample, *Find(sample, "psm_mapped")) == Ownership::kUnknown);
  CHECK(Find(sample, "psm_open")->opened_by == Pids{13});
  CHECK(std::count(look->living().begin(), look->living().end(), 13) == 1);
  CHECK(owners(host.Look({.viewer = 12, .first = {13}})) == Pids{13});
}

TEST_CASE("any bytes are accepted") {
  Host host;
  host.File("two\nlines\x1b[0m\xff", 1);
  host.tree.Write("/proc/13/maps", std::string("\0\n1-2\n7f00-zz r\n1000-2000 rw-s 0 zz:1 5 /dev/shm/x\n", 44));
  host.tree.Write("/proc/14/maps", "1000-2000 rw-s 00000000 00:01 99 /memfd:" + std::string(70'000, 'y'));
  host.tree.Write("/proc/15/stat", "");
  const ShmSample sample = host.Look();
  CHECK(Find(sample, "two\nlines\x1b[0m\xff") != nullptr);
  CHECK(sample.unreadable == 0);
}

TEST_CASE("more entries than the limit") {
  Host host;
  for (int i = 0; i < 30; ++i) host.File(absl::StrCat("psm_", i), 10);
  const ShmSample sample = host.Look({.viewer = 12, .most_entries = 20});
  CHECK(sample.segments.size() == 20);
  CHECK(sample.unlisted == 10);
}

TEST_CASE("no such process, no such folder") {
  Host host;
  CHECK(absl::IsNotFound(ShmLook::Begin(host.Proc(), {.viewer = 99}).status()));
  std::filesystem::remove_all(host.Shm(""));
  CHECK(absl::IsNotFound(ShmLook::Begin(host.Proc(), {.viewer = 12}).status()));
}

TEST_CASE("a plain folder of a disk is not shared memory") {
  Host host;
  const FixtureTree disk;
  struct statfs filesystem;
  REQUIRE(statfs(disk.root().c_str(), &filesystem) == 0);
  if (filesystem.f_type == TMPFS_MAGIC) return;
  disk.Write("/dev/shm/psm_a", std::string(8192, 'x'));
  host.Process(13);
  host.tree.Link("/proc/13/root", disk.root());
  const absl::Status status = ShmLook::Begin(host.Proc(), {.viewer = 13}).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(absl::StrContains(status.message(), "/dev/shm is not a tmpfs"));
}

TEST_CASE("a look in many small steps finds the same") {
  Host host;
  for (int i = 0; i < 200; ++i) host.File(absl::StrCat("psm_", i), 10);
  for (pid_t pid = 20; pid < 60; ++pid) {
    host.Process(pid);
    host.Map(pid, "psm_7", "/dev/shm/psm_7");
  }
  absl::StatusOr<ShmLook> look = ShmLook::Begin(host.Proc(), {.viewer = 12});
  REQUIRE(look.ok());
  int steps = 1;
  while (!look->Run(absl::ZeroDuration())) ++steps;
  CHECK(steps > 5);
  const ShmSample sample = look->Take();
  CHECK(sample.segments.size() == 200);
  CHECK(Find(sample, "psm_7")->mapped_by.size() == 40);
  CHECK(look->living().size() == 42);
}

TEST_CASE("live: a memfd of this process") {
  const Fd file(memfd_create("cowprof-test", MFD_CLOEXEC));
  REQUIRE(file.ok());
  REQUIRE(posix_fallocate(file.fd(), 0, 1 << 20) == 0);
  absl::StatusOr<ShmLook> look = ShmLook::Begin(ProcFs(), {.viewer = 0, .first = {getpid()}, .whole = false});
  REQUIRE(look.ok());
  REQUIRE(look->Run(absl::InfiniteDuration()));
  const ShmSample sample = look->Take();
  const ShmSegment* segment = Find(sample, "memfd:cowprof-test");
  REQUIRE(segment != nullptr);
  CHECK(segment->bytes == 1 << 20);
  CHECK(segment->opened_by == Pids{getpid()});
  CHECK_FALSE(sample.whole);
}

// ---- When ShmWatch looks ----

namespace {

struct Watched {
  Host host;
  ShmWatch watch{host.Proc()};
  LimitSample mount = {LimitKind::kShm, "/dev/shm", 1000, 0};

  std::optional<ShmSample> At(int seconds, bool changed = false) {
    return watch.Run({.t = absl::Seconds(seconds),
                      .interval = absl::Seconds(1),
                      .target = 12,
                      .mount = &mount,
                      .processes_changed = changed},
                     [] { return Pids{12}; });
  }
  // A quick look, then a whole one.
  void Start() {
    const auto quick = At(0), whole = At(1);
    REQUIRE(quick);
    CHECK_FALSE(quick->whole);
    REQUIRE(whole);
    CHECK(whole->whole);
  }
};

}  // namespace

TEST_CASE("looks at the start, then if something changed, but not within ten ticks") {
  Watched watched;
  watched.Start();
  for (int t = 2; t < 30; ++t) CHECK_FALSE(watched.At(t));
  SECTION("bytes") {
    watched.mount.used = 1;
    CHECK(watched.At(30));
  }
  SECTION("processes") { CHECK(watched.At(30, /*changed=*/true)); }
  SECTION("names") {
    watched.host.File("features.npy", 1);
    CHECK(watched.At(30));
  }
  watched.mount.used = 20;
  for (int t = 31; t < 40; ++t) CHECK_FALSE(watched.At(t));
  const auto look = watched.At(40);
  REQUIRE(look);
  CHECK(look->whole);
}

TEST_CASE("while little comes and goes, whole looks wait four times as long as they cost") {
  Watched watched;
  REQUIRE(watched.At(0));
  const absl::Duration before = watched.watch.cost();
  REQUIRE(watched.At(1));
  // A thousandth of a core, and ten ticks.
  const absl::Duration cost = watched.watch.cost() - before,
                       due = absl::Seconds(1) + std::max(absl::Seconds(10), 1000 * cost);
  const int calm = static_cast<int>(absl::ToDoubleSeconds(due + 3000 * cost)) + 1;
  watched.mount.used = 1;
  for (int t = 2; t < calm; ++t) CHECK_FALSE(watched.At(t));
  SECTION("little") { CHECK(watched.At(calm)); }
  SECTION("a process came") {
    watched.mount.used = 0;
    CHECK(watched.At(calm - 1, /*changed=*/true).has_value() == (absl::Seconds(calm - 1) >= due));
  }
}

TEST_CASE("a look that could not begin is made at the next tick") {
  Watched watched;
  watched.Start();
  const std::string shm = watched.host.Shm(""), aside = watched.host.tree.root() + "/aside";
  std::filesystem::rename(shm, aside);
  watched.mount.used = 1;
  CHECK_FALSE(watched.At(300));  // with sanitizers the first looks may have cost tens of milliseconds
  std::filesystem::rename(aside, shm);
  const auto look = watched.At(301);
  REQUIRE(look);
  CHECK(look->whole);
}

TEST_CASE("while shared memory fills up: quick looks at the followed processes only") {
  Watched watched;
  watched.Start();
  watched.mount.used = 124;
  CHECK_FALSE(watched.At(2));
  watched.mount.used = 125;  // an eighth
  const auto look = watched.At(3);
  REQUIRE(look);
  CHECK_FALSE(look->whole);
  watched.mount.used = 250;
  CHECK_FALSE(watched.At(4));
  CHECK(watched.At(5));
}

TEST_CASE("what fills up again after it was emptied is looked at again") {
  Watched watched;
  watched.Start();
  watched.mount.used = 990;
  REQUIRE(watched.At(3));
  watched.mount.used = 0;
  CHECK_FALSE(watched.At(5));
  watched.mount.used = 125;
  const auto look = watched.At(6);
  REQUIRE(look);
  CHECK_FALSE(look->whole);
}

TEST_CASE("apparent leftovers are looked at again although nothing changes") {
  Watched watched;
  watched.host.File("psm_left", 4096);
  watched.Start();
  CHECK_FALSE(watched.At(10));
  const auto again = watched.At(11);
  REQUIRE(again);
  REQUIRE(again->segments.size() == 1);
  CHECK(again->segments[0].looks_unowned == 2);
}

TEST_CASE("after the target's end: through another process that sees the same mount") {
  Watched watched;
  watched.Start();
  std::filesystem::rename(watched.host.tree.root() + "/proc/12", watched.host.tree.root() + "/proc/13");
  const ShmTick end = {.t = absl::Seconds(1), .interval = absl::Seconds(1), .target = 12, .target_alive = false};
  const auto look = watched.watch.Run(end, [] { return Pids{}; });
  REQUIRE(look);
  CHECK(look->whole);
  std::filesystem::remove_all(watched.host.tree.root() + "/proc/13/root");
  CHECK_FALSE(watched.watch.Run(end, [] { return Pids{}; }));
}

TEST_CASE("after the target's end: leftovers are looked at until cleaned up or certain") {
  Watched watched;
  watched.Start();
  watched.host.File("psm_left", 4096);
  std::filesystem::rename(watched.host.tree.root() + "/proc/12", watched.host.tree.root() + "/proc/13");
  const auto look =
      watched.watch.Run({.t = absl::Seconds(1), .interval = absl::Seconds(1), .target = 12, .target_alive = false},
                        [] { return Pids{}; });
  REQUIRE(look);
  REQUIRE(look->segments.size() == 1);
  CHECK(look->segments[0].looks_unowned >= 2);
}

}  // namespace cowprof
