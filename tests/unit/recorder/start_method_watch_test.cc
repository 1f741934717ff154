// start_method_watch.cc and the recorder's end of start_method_scout.cc, with a scout whose answers the test gives.
#include "recorder/start_method_watch.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>
#include <variant>

#include "absl/algorithm/container.h"
#include "posix/clock.h"
#include "posix/fd.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

class PlayedScout {
 public:
  PlayedScout() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    recorders_end = std::make_unique<StartMethodScout>(pid, Fd(ends[0]));
    socket_ = Fd(ends[1]);
  }
  void Tell(const ProcessId& id, const char* key, Json report) const {
    const std::string packet = Dump({{"pid", id.pid}, {"start_ns", id.start_ns}, {key, std::move(report)}});
    static_cast<void>(send(socket_.fd(), packet.data(), packet.size(), 0));
  }
  // The requests that have come: 'w', to watch a process, 'l', to look at it, ...
  std::string Requests() const {
    std::string requests;
    char request[256];
    while (recv(socket_.fd(), request, sizeof(request), MSG_DONTWAIT) > 0) requests.push_back(request[0]);
    return requests;
  }
  int Watches() const { return absl::c_count(Requests(), 'w'); }

  std::unique_ptr<StartMethodScout> recorders_end;

 private:
  Fd socket_;
};

}  // namespace

TEST_CASE("scout: a late answer for one process does not end the wait for another") {
  const PlayedScout scout;
  const ProcessId well = {7, 1}, failed = {8, 2};
  scout.Tell(well, "ended", true);
  std::thread late([&] {
    usleep(50'000);
    scout.Tell(failed, "failed", {{"error", "TypeError"}, {"message", "cannot pickle 'dict_keys' object"}});
    scout.Tell(failed, "ended", true);
  });
  const absl::Duration began = BootTime();
  const std::vector<ScoutReport> reports = scout.recorders_end->TakeLast(failed, absl::Seconds(20));
  late.join();
  CHECK(BootTime() - began < absl::Seconds(10));
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].id == failed);
  CHECK(std::get<StartFailed>(reports[0].what).type == "TypeError");
}

TEST_CASE("scout: its process answers, and keeps no descriptor that cowprof was started with") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  const auto scout = StartMethodScout::Start();
  REQUIRE(scout.ok());
  writing.Close();
  pollfd end = {reading.fd(), 0, 0};  // POLLHUP comes unasked
  CHECK(poll(&end, 1, /*ms=*/30'000) == 1);
  const absl::Duration began = BootTime();
  CHECK((*scout)->TakeLast({1, 1}, absl::Seconds(20)).empty());
  CHECK(BootTime() - began < absl::Seconds(10));
  CHECK_FALSE((*scout)->gone());
}

TEST_CASE("start methods: the last error of a worker that spawn started") {
  PlayedScout scout;
  StartMethodWatch watch(std::move(scout.recorders_end));
  Processes processes((ProcFs()));
  const FollowedProcess trainer = {.id = {1001, 1}, .serial = 1};
  FollowedProcess worker = {.id = {1002, 1}, .parent = trainer.id, .serial = 2};
  processes.Add(trainer);
  processes.Add(worker);
  const int index = processes.Find(worker.serial)->index;
  const std::string command = "python -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)";
  Sample started;
  started.events = {{.index = index, .what = ProcessExeced{.command = command}},
                    {.index = index, .what = PythonFound{.version = "3.12.1"}}};
  watch.Run({trainer, worker}, processes, &started);
  scout.Tell(worker.id, "error", {{"error", "RuntimeError"}, {"message", "text"}, {"importing_main", true}});
  scout.Tell(worker.id, "ended", true);
  worker.exited_ns = 2;
  worker.exit_status = 1 << 8;
  Sample ended;
  watch.Run({trainer, worker}, processes, &ended);
  REQUIRE(ended.events.size() == 1);
  CHECK(ended.events[0].index == index);
  REQUIRE(ended.events[0].Is<LastErrorSeen>());
  CHECK(*ended.events[0].As<LastErrorSeen>() == LastErrorSeen{"RuntimeError", "text", /*importing_main=*/true});
}

TEST_CASE("start methods: a trainer is watched closely again when it starts a worker") {
  PlayedScout scout;
  StartMethodWatch watch(std::move(scout.recorders_end));
  Processes processes((ProcFs()));
  const FollowedProcess trainer = {.id = {1001, 1}, .serial = 1},
                        worker = {.id = {1002, 1}, .parent = trainer.id, .serial = 2};
  processes.Add(trainer);
  Sample found, started;
  found.events = {{.index = processes.Find(trainer.serial)->index, .what = PythonFound{.version = "3.12.1"}}};
  watch.Run({trainer}, processes, &found);
  CHECK(scout.Watches() == 1);
  processes.Add(worker);
  started.events = {{.index = processes.Find(worker.serial)->index,
                     .what = ProcessExeced{.command = "python -c from multiprocessing.spawn import spawn_main"}}};
  watch.Run({trainer, worker}, processes, &started);
  CHECK(scout.Watches() == 1);
}

TEST_CASE("start methods: after a plain Process a DataLoader is looked at, and after that another of its process") {
  PlayedScout scout;
  StartMethodWatch watch(std::move(scout.recorders_end));
  Processes processes((ProcFs()));
  const ProcessId trainer = {1001, 1};
  std::vector<FollowedProcess> followed = {{.id = trainer, .serial = 1}};
  processes.Add(followed[0]);
  Sample last;
  // What is asked of the scout in a tick.
  const auto run = [&](double seconds, std::vector<Event> events) {
    last = {.t = absl::Seconds(seconds), .events = std::move(events)};
    for (Event& event : last.events) event.t = last.t;
    watch.Run(followed, processes, &last);
    return scout.Requests();
  };
  const auto fork = [&](double seconds, const ProcessId& parent) {
    const auto serial = static_cast<uint32_t>(followed.size() + 1);
    followed.push_back({.id = {static_cast<pid_t>(1000 + serial), 1}, .parent = parent, .serial = serial});
    processes.Add(followed.back());
    return run(seconds, {{.index = processes.Find(serial)->index, .what = ProcessStarted{}}});
  };
  CHECK(run(0, {{.index = 0, .what = PythonFound{.version = "3.12.1"}}}) == "w");
  CHECK(fork(20, trainer) == "l");
  scout.Tell(trainer, "look", {{"root", "p"}, {"of_loader", false}});
  CHECK(fork(20.2, trainer).empty());  // too early
  CHECK(last.events.size() == 2);
  CHECK(run(20.5, {}).empty());
  CHECK(run(21.5, {}) == "l");
  scout.Tell(trainer, "look", {{"root", ""}, {"of_loader", nullptr}});
  CHECK(run(22, {}).empty());
  CHECK(last.events.empty());  // nothing new
  CHECK(fork(30, trainer) == "l");
  scout.Tell(trainer, "look", {{"root", "loader"}, {"of_loader", true}});
  CHECK(run(31, {}).empty());
  REQUIRE(last.events.size() == 1);
  CHECK(last.events[0].As<StartMethodsSeen>()->look.of_loader == true);
  CHECK(fork(60, followed[1].id).empty());  // that has no loader
  CHECK(run(61, {}).empty());
  for (const int seconds : {100, 120, 140}) CHECK(fork(seconds, trainer) == "l");
  CHECK(fork(160, trainer).empty());  // that were six
  CHECK(run(180, {}).empty());
}

TEST_CASE("start methods: a tick waits once for a scout that does not answer, however many processes failed") {
  PlayedScout scout;
  StartMethodWatch watch(std::move(scout.recorders_end));
  Processes processes((ProcFs()));
  std::vector<FollowedProcess> followed;
  Sample started, ended;
  for (uint32_t serial = 1; serial <= 5; ++serial) {
    followed.push_back({.id = {static_cast<pid_t>(1000 + serial), 1}, .serial = serial});
    processes.Add(followed.back());
    started.events.push_back({.index = processes.Find(serial)->index, .what = PythonFound{.version = "3.11"}});
  }
  watch.Run(followed, processes, &started);
  for (FollowedProcess& process : followed) {
    process.exited_ns = 2;
    process.exit_status = 1 << 8;
  }
  const absl::Duration began = BootTime();
  watch.Run(followed, processes, &ended);
  const absl::Duration took = BootTime() - began;
  CHECK(took >= absl::Milliseconds(400));
  CHECK(took < absl::Milliseconds(1500));
}

}  // namespace cowprof
