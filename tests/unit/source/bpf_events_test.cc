// Ring buffer records as the probes write them, and truncated ones.
#include "source/bpf_events.h"

#include <sys/sysmacros.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "cowprof.h"

namespace cowprof {
namespace {

template <typename Record>
std::optional<SeenEvent> Seen(const Record& record, size_t size = sizeof(Record)) {
  return SeenEventOf(&record, size);
}

cowprof_delivery BusError() {
  cowprof_delivery record = {};
  record.event = {.kind = COWPROF_SIGNAL_DELIVERED, .signal = 7, .process = {.pid = 42, .start_ns = 9}};
  record.event.code = 2;
  record.event.address = 0x5000;
  record.ip = 0x1234;
  record.frames[0] = {0x100, 1};
  record.frames[1] = {0x200, 2};
  record.file = {.kind = COWPROF_MEMORY_FILE, .device = 7 << 20 | 300, .inode = 8, .bytes = 4096, .offset = 100};
  record.file.capacity_pages = 16;
  memset(record.file.name, 'x', sizeof(record.file.name));  // without a NUL
  return record;
}

template <typename What, typename Record>
What SeenAs(const Record& record) {
  const std::optional<SeenEvent> seen = Seen(record);
  REQUIRE(seen);
  REQUIRE(seen->event.Is<What>());
  return *seen->event.As<What>();
}

}  // namespace

TEST_CASE("ring records: a delivered signal") {
  const SeenEvent seen = *Seen(BusError());
  CHECK(seen.process == ProcessId{42, 9});
  CHECK(seen.ip == 0x1234);
  CHECK(seen.frames.size() == 2);
  const auto delivered = SeenAs<SignalDelivered>(BusError());
  CHECK((delivered.signal == 7 && delivered.code == 2 && delivered.address == 0x5000));
  REQUIRE(delivered.file);
  CHECK(delivered.file->device == makedev(7, 300));
  CHECK(delivered.file->name == std::string(COWPROF_NAME_BYTES, 'x'));
  CHECK(delivered.file->in_memory);
  CHECK(delivered.file->capacity_bytes == Count(65536));
}

TEST_CASE("ring records: for other signals the file is the code's") {
  cowprof_delivery record = BusError();
  record.event.signal = 11;
  strcpy(record.file.name, "libfast.so");
  CHECK(SeenAs<SignalDelivered>(record).module == "libfast.so");
  CHECK(!SeenAs<SignalDelivered>(record).file);
}

TEST_CASE("ring records: no file, and an unbounded tmpfs") {
  cowprof_delivery record = BusError();
  record.file.capacity_pages = 0;
  CHECK(SeenAs<SignalDelivered>(record).file->capacity_bytes == Count());
  record.file.kind = COWPROF_NO_FILE;
  CHECK(!SeenAs<SignalDelivered>(record).file);
}

TEST_CASE("ring records: the OOM killer's limit") {
  cowprof_oom record = {};
  record.event.kind = COWPROF_OOM_VICTIM;
  CHECK(!SeenAs<OomVictim>(record).limit);  // nobody could look: no word of the host
  record.looked = 1;
  CHECK(SeenAs<OomVictim>(record).limit->kind == LimitKind::kHost);
  record.cgroup = 5;
  record.limit_pages = 100;
  record.used_pages = 99;
  strcpy(record.name, "job");
  CHECK(Seen(record)->cgroup == 5);
  CHECK(*SeenAs<OomVictim>(record).limit == LimitSample{LimitKind::kCgroupV2, "job", 409'600, 405'504});
}

TEST_CASE("ring records: the program of an exec") {
  cowprof_exec record = {};
  record.event.kind = COWPROF_EXEC;
  strcpy(record.event.comm, "train.sh");
  CHECK(SeenAs<ProcessExeced>(record).executable.empty());
  strcpy(record.program, "bash");
  CHECK(SeenAs<ProcessExeced>(record) == ProcessExeced{.comm = "train.sh", .command = "", .executable = "bash"});
  CHECK(Seen(record, sizeof(cowprof_event))->event.As<ProcessExeced>()->executable.empty());
}

TEST_CASE("ring records: what the kernel knows of a signal that it sent") {
  cowprof_signal record = {.event = {.kind = COWPROF_SIGNAL_SENT, .signal = 9}};
  CHECK(SeenAs<SignalSent>(record) == SignalSent{.signal = 9});
  record.cpu_limit = 2;
  record.sender_exiting = 1;
  CHECK(SeenAs<SignalSent>(record) == SignalSent{.signal = 9, .cpu_limit_seconds = 2, .sender_exiting = true});
}

TEST_CASE("ring records: not an event, or truncated") {
  cowprof_event record = {};
  for (const cowprof_event_kind kind : {COWPROF_FORK, COWPROF_EXIT, COWPROF_NEWS, COWPROF_FORK_SEEN}) {
    record.kind = kind;
    CHECK(!Seen(record));
  }
  record.kind = COWPROF_SIGNAL_SENT;
  memcpy(record.comm, "0123456789abcdef", 16);
  CHECK(SeenAs<SignalSent>(record).sender_comm == "0123456789abcdef");
  CHECK(!Seen(record, sizeof(record) - 1));
  CHECK(!Seen(BusError(), sizeof(cowprof_event))->event.As<SignalDelivered>()->file);
}

TEST_CASE("at no moment is a child there before its parent, or after its parent's end was told") {
  // Both rows are read after all of it has happened.
  const cowprof_process_row parent = {.forked_ns = 10, .exited_ns = 30, .serial = 1};
  const cowprof_process_row child = {.forked_ns = 20, .exited_ns = 25, .serial = 2};
  for (uint64_t now = 0; now < 40; ++now) {
    INFO(now);
    const RowState of_parent = StateAt(now, parent), of_child = StateAt(now, child);
    if (of_child != RowState::kNotYet) CHECK(of_parent != RowState::kNotYet);
    if (of_parent == RowState::kEnded) CHECK(of_child != RowState::kNotYet);
  }
  CHECK(StateAt(20, child) == RowState::kNotYet);
  CHECK(StateAt(21, child) == RowState::kLiving);
  CHECK(StateAt(25, child) == RowState::kLiving);
  CHECK(StateAt(26, child) == RowState::kEnded);
  CHECK(StateAt(26, {.forked_ns = 20}) == RowState::kNotYet);  // its fork is being written down
}

}  // namespace cowprof
