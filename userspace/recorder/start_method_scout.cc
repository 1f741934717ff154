// Sends requests to the process and reads its reports.
#include "recorder/start_method_scout.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "posix/clock.h"
#include "posix/keep_only.h"
#include "recorder/scout_process.h"
#include "timeline/json_start_methods.h"

namespace cowprof {
namespace {

constexpr absl::Duration kMostToEnd = absl::Milliseconds(100);

ProcessId IdOf(const Json& json) { return {NumberOf<pid_t>(json, "pid"), NumberOf<uint64_t>(json, "start_ns")}; }

std::optional<ScoutReport> ReportOf(const Json& json) {
  const ProcessId id = IdOf(json);
  if (const auto look = json.find("look"); look != json.end())
    return ScoutReport{id, StartMethodsSeen{DecodeLook(*look)}};
  if (const auto error = json.find("error"); error != json.end()) {
    return ScoutReport{
        id, LastErrorSeen{TextOf(*error, "error"), TextOf(*error, "message"), BoolOf(*error, "importing_main")}};
  }
  const auto failed = json.find("failed");
  if (failed == json.end()) return std::nullopt;
  StartFailed error = {.type = TextOf(*failed, "error"),
                       .message = TextOf(*failed, "message"),
                       .package = TextOf(*failed, "package"),
                       .method = TextOf(*failed, "method"),
                       .raised_in = TextOf(*failed, "raised_in"),
                       .path = TextOf(*failed, "path"),
                       .look = {}};
  if (const auto look = failed->find("look"); look != failed->end()) error.look = DecodeLook(*look);
  return ScoutReport{id, std::move(error)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StartMethodScout>> StartMethodScout::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ErrnoToStatus(errno, "create a socket pair");
  Fd ours(ends[0]), theirs(ends[1]);
  const pid_t recorder = getpid(), pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork the process that judges start methods");
  if (pid == 0) RunScout(KeepOnly(theirs.fd()), recorder);
  return std::make_unique<StartMethodScout>(pid, std::move(ours));
}

// The recorder's filter forbids kill(2). A read of the target that never returns must not hold the recorder: when that
// ends, the kernel kills this process (PR_SET_PDEATHSIG).
StartMethodScout::~StartMethodScout() {
  socket_.Close();
  const absl::Duration end = BootTime() + kMostToEnd;
  while (waitpid(pid_, nullptr, WNOHANG) == 0 && BootTime() < end) absl::SleepFor(absl::Milliseconds(1));
}

void StartMethodScout::Send(char what, const ProcessId& id, const ProcessId& other) {
  const ScoutRequest request = {what, id, other};
  send(socket_.fd(), &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void StartMethodScout::Watch(const ProcessId& id) { Send(kWatch, id); }

void StartMethodScout::WatchStarted(const ProcessId& id) { Send(kWatchStarted, id); }

void StartMethodScout::Look(const ProcessId& id, const ProcessId& worker) { Send(kLook, id, worker); }

void StartMethodScout::LookAtPickling(const ProcessId& id) { Send(kPickling, id); }

std::vector<ScoutReport> StartMethodScout::TakeLast(const ProcessId& id, absl::Duration most) {
  Send(kEnded, id);
  return Receive(id, most);
}

// Waits, but not longer than `most`, until all is told of `ended`.
std::vector<ScoutReport> StartMethodScout::Receive(const ProcessId& ended, absl::Duration most) {
  std::vector<ScoutReport> reports;
  bool told_all = false;
  const absl::Duration end = BootTime() + most;
  while (!gone()) {
    pollfd news = {socket_.fd(), POLLIN, 0};
    const absl::Duration left = told_all ? absl::ZeroDuration() : end - BootTime();
    const timespec timeout = absl::ToTimespec(std::max(left, absl::ZeroDuration()));
    if (ppoll(&news, 1, &timeout, nullptr) <= 0) break;
    std::string packet(kMostOfScoutPacket, '\0');
    const ssize_t got = recv(socket_.fd(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (got <= 0) {
      socket_.Close();
      break;
    }
    packet.resize(got);
    const Json json = Json::parse(packet, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    // The answer for another process may come late.
    told_all |= json.contains("ended") && IdOf(json) == ended;
    if (std::optional<ScoutReport> report = ReportOf(json)) reports.push_back(*std::move(report));
  }
  return reports;
}

}  // namespace cowprof
