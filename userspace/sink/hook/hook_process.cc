// Sends each run as one packet: the text for stdin and the value of each variable, each terminated by a NUL.
#include "sink/hook/hook_process.h"

#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "model/format.h"
#include "posix/clock.h"
#include "posix/invoking_user.h"
#include "posix/keep_only.h"
#include "posix/rights.h"
#include "posix/users.h"

namespace cowprof {
namespace {

constexpr size_t kMostBytes = 64 << 10;      // of a packet
constexpr char kFinish = '.', kReady = '+';  // packets of one byte
constexpr int kLookMs = 20;                  // between two looks at a hook that runs
constexpr int kSearchMs = 10'000;            // for the program: a network file system may not answer
constexpr absl::Duration kFarewell = absl::Seconds(1);

// Fails if the other end is gone or does not keep up, or if it could not receive the whole packet. Never waits, so that
// a hook can't delay a tick.
bool Send(int socket, absl::string_view packet) {
  return packet.size() <= kMostBytes &&
         send(socket, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size());
}

std::string Receive(int socket) {
  std::string packet(kMostBytes, '\0');
  packet.resize(std::max<ssize_t>(recv(socket, packet.data(), packet.size(), 0), 0));
  return packet;
}

std::string Encode(const HookRun& run) {
  const std::string zero(1, '\0');
  return absl::StrCat(run.json, zero, absl::StrJoin(run.values, zero), zero);
}

// Accepts any packet: ignores surplus values, leaves missing ones empty.
HookRun Decode(const std::string& packet) {
  std::vector<std::string> words = absl::StrSplit(packet.substr(0, packet.size() - 1), '\0');
  HookRun run = {.json = std::move(words[0])};
  for (size_t i = 0; i < run.values.size() && i + 1 < words.size(); ++i) run.values[i] = std::move(words[i + 1]);
  return run;
}

std::string Contents(const char* path) { return {std::istreambuf_iterator<char>(std::ifstream(path).rdbuf()), {}}; }

// Sets the variables that tell programs who the user is and where their files are. One of a directory service (LDAP) is
// not in /etc/passwd: then only sudo's word for the name is known.
void SetVariablesOf(uid_t user, const char* sudo_user) {
  for (const char* name : {"HOME", "USER", "LOGNAME"}) unsetenv(name);  // better none than root's
  const std::optional<UserEntry> entry = UserIn(Contents("/etc/passwd"), user);
  if (entry) setenv("HOME", entry->home.c_str(), 1);
  const std::string known_as = entry ? entry->name : sudo_user;
  if (known_as.empty()) return;
  for (const char* name : {"USER", "LOGNAME"}) setenv(name, known_as.c_str(), 1);
}

// With all of the user's groups that /etc/group lists. Where this fails, as in a user namespace or without CAP_SETUID,
// the hook runs as root, and CheckHook() accepts only root's files.
void BecomeInvokingUser() {
  const std::optional<UserIds> user = InvokedBySudo();
  if (!user) return;
  const std::vector<gid_t> groups = GroupsOfInvokingUser(*user);
  static_cast<void>(setgroups(groups.size(), groups.data()));
  const char* const name = getenv("SUDO_USER");
  if (setresgid(user->gid, user->gid, user->gid) == 0 && setresuid(user->uid, user->uid, user->uid) == 0)
    SetVariablesOf(user->uid, name == nullptr ? "" : name);
}

// Runs in the process from its fork to its end.
void RunHooks(absl::StatusOr<std::unique_ptr<AlertHook>> made, int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user resets it, so this comes after
  if (!made.ok()) {
    Send(socket, made.status().message());
    return;
  }
  AlertHook& hook = **made;
  for (Send(socket, {&kReady, 1});;) {
    pollfd news = {socket, POLLIN, 0};
    if (poll(&news, 1, hook.busy() ? kLookMs : -1) > 0) {
      const std::string packet = Receive(socket);
      if (packet.empty()) return;  // the recorder is gone
      if (packet.size() == 1) break;
      hook.Take(Decode(packet));
    }
    hook.Poll();
  }
  hook.Finish();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HookProcess>> HookProcess::Start(absl::string_view command, const sigset_t& signals,
                                                                std::function<void(const std::string&)> report,
                                                                const HookLimits& limits) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ErrnoToStatus(errno, "create a socket pair");
  Fd ours(ends[0]), theirs(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork the process that runs the hook");
  if (pid == 0) {
    const int socket = KeepOnly(theirs.fd());
    BecomeInvokingUser();
    // Before the command is looked up: capabilities of cowprof's file must not reveal to its user what hidden
    // directories contain. Without no_new_privs: a hook may call sudo.
    if (absl::Status status = geteuid() != 0 ? KeepCapabilities(0) : absl::OkStatus(); !status.ok()) {
      Send(socket, status.message());
      _exit(0);
    }
    RunHooks(AlertHook::Create(
                 command, signals, [socket](const std::string& what) { Send(socket, what); }, limits),
             socket);
    _exit(0);
  }
  theirs.Close();
  auto hook = std::unique_ptr<HookProcess>(new HookProcess(pid, std::move(ours), std::move(report), limits));
  // Nobody reads signals yet: without a limit only SIGKILL would end the wait.
  pollfd news = {hook->socket_.fd(), POLLIN, 0};
  if (poll(&news, 1, kSearchMs) == 0) {
    kill(pid, SIGKILL);
    return absl::InvalidArgumentError(
        "its program was not found within 10 s: a folder of its path, or of PATH, seems not to answer");
  }
  const std::string answer = Receive(hook->socket_.fd());
  if (answer.size() == 1) return hook;
  return absl::InvalidArgumentError(answer.empty() ? "the process that runs it ended at once" : answer);
}

HookProcess::~HookProcess() { Reap(); }

// The process now ends by itself, at the latest when we die. If something delays it, that must not delay us.
void HookProcess::Reap() {
  socket_.Close();
  const pid_t pid = std::exchange(pid_, 0);
  if (pid == 0) return;
  for (const absl::Duration end = BootTime() + kFarewell; waitpid(pid, nullptr, WNOHANG) == 0 && BootTime() < end;)
    absl::SleepFor(absl::Milliseconds(5));
}

void HookProcess::Take(const std::vector<Alert>& alerts, const RunModel& model) {
  for (const Alert& alert : alerts) {
    if (!alert.over && pid_ != 0 && !Send(socket_.fd(), Encode(HookRunFor(alert, model)))) ++dropped_;
  }
  Poll();
}

// Reports sentences that have come. Returns whether the process is still there.
bool HookProcess::Listen(int wait_ms) {
  pollfd news = {socket_.fd(), POLLIN, 0};
  while (poll(&news, 1, wait_ms) > 0) {
    const std::string sentence = Receive(socket_.fd());
    if (sentence.empty()) return false;
    report_(sentence);
    wait_ms = 0;
  }
  return true;
}

void HookProcess::Poll() {
  if (pid_ == 0 || Listen(0)) return;
  Reap();
  report_("--on-alert: the process that runs it is gone; alerts no longer run it");
}

void HookProcess::Finish() {
  if (pid_ == 0) return;
  const absl::Duration end = BootTime() + limits_.time + kFarewell;
  bool told = false;  // its queue may be full
  do {
    told = told || Send(socket_.fd(), {&kFinish, 1});
  } while (Listen(kLookMs) && BootTime() < end);
  Reap();
  if (dropped_ > 0)
    report_(absl::StrCat("--on-alert was not run for ", Plural(dropped_, "alert"),
                         ": its process did not keep up, or they were too long"));
}

}  // namespace cowprof
