#include "watch/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "posix/clock.h"
#include "posix/exit_status.h"
#include "posix/invoking_user.h"
#include "posix/rights.h"
#include "posix/taken_signals.h"
#include "serve/request_policy.h"
#include "source/namespaces.h"
#include "source/rights_remedy.h"
#include "watch/metrics_hub.h"
#include "watch/recorders.h"
#include "watch/scanner.h"

namespace cowprof {
namespace {

constexpr absl::Duration kTick = absl::Seconds(1), kTidyEvery = absl::Minutes(1);
// With recorders that are to end; those with a hook wait for it, up to 11 s.
constexpr absl::Duration kPatience = absl::Milliseconds(1700), kPatienceWithHook = absl::Seconds(13);

// Those that a recorder has at its start, and those that it takes to become another user.
CapabilitySet CapabilitiesOfRecorders() {
  return WithWhatRootLacks(SetOf({kCapBpf, kCapPerfmon, CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
                                  CAP_IPC_LOCK, CAP_SETUID, CAP_SETGID, CAP_SETPCAP}));
}

bool MayWrite(const Fd& folder) { return faccessat(folder.fd(), ".", W_OK | X_OK, AT_EACCESS) == 0; }

// The folder, made if it is missing, if this user, or the one who called sudo, may write there.
absl::StatusOr<Fd> OpenFolder(const std::string& path) {
  AsInvokingUser user;
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  Fd folder(open(path.c_str(), kFlags));
  const bool missing = !folder.ok() && errno == ENOENT;
  if (missing && mkdir(path.c_str(), 0700) == 0) folder = Fd(open(path.c_str(), kFlags));
  if (folder.ok() && MayWrite(folder)) return folder;
  const int error = errno;
  return absl::PermissionDeniedError(absl::StrCat(
      missing ? "make the folder " : "write recordings into ", path, ": ", strerror(error),
      geteuid() != getuid() ? absl::StrCat(", as user ", geteuid(), ", who called sudo") : "",
      missing && error == EACCES ? absl::StrCat("; run: sudo install -d -o ", geteuid(), " ", ShellQuoted(path), "; or")
                                 : ";",
      " name a folder with --folder"));
}

class SignalSource {
 public:
  SignalSource() {
    const sigset_t taken = TakenSignals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD});
    sigprocmask(SIG_BLOCK, &taken, &inherited_);
    fd_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  const sigset_t& inherited() const { return inherited_; }
  int fd() const { return fd_.fd(); }
  // Whether one of them ends watch.
  bool Read() const {
    bool stop = false;
    signalfd_siginfo info;
    while (read(fd_.fd(), &info, sizeof(info)) == sizeof(info)) stop |= info.ssi_signo != SIGCHLD;
    return stop;
  }

 private:
  sigset_t inherited_;
  Fd fd_;
};

class Watch {
 public:
  Watch(const WatchOptions& options, Fd folder, const SignalSource& signals, std::unique_ptr<MetricsHub> hub)
      : options_(options),
        folder_(std::move(folder)),
        signals_(signals),
        hub_(std::move(hub)),
        scanner_({.match = options.match, .quiet = options.quiet}),
        recorders_({.at_most = options.at_most,
                    .folder = options.folder,
                    .options = options.recording,
                    .signals = signals.inherited()},
                   [this](uint32_t place) { return hub_ != nullptr ? hub_->Add(place) : Fd(); }) {}

  int Run() {
    if (absl::Status status = scanner_.Start(); !status.ok()) return Fail(kInternalFailure, status.message());
    if (!options_.has_hook) {
      if (absl::Status status = LimitCapabilities(CapabilitiesOfRecorders()); !status.ok())
        return Fail(kInternalFailure, absl::StrCat("give up privileges: ", status.message()));
      AsInvokingUser user;
      if (!MayWrite(folder_)) {
        return Fail(kCannotWrite, absl::StrCat("write recordings into ", options_.folder, ": ", strerror(errno),
                                               ": its recorders are root without CAP_DAC_OVERRIDE; name a folder of "
                                               "root's with --folder"));
      }
    }
    const int code = Loop();
    const size_t left = recorders_.StopAll(options_.has_hook ? kPatienceWithHook : kPatience);
    SendFigures();
    if (left == 0) return code;
    return Fail(code != kDone ? static_cast<ExitCode>(code) : kInternalFailure,
                absl::StrCat(left, left == 1 ? " recorder has" : " recorders have", " not ended in time"));
  }

 private:
  int Loop() {
    for (absl::Duration next = BootTime();;) {
      const timespec timeout = absl::ToTimespec(std::max(next - BootTime(), absl::ZeroDuration()));
      pollfd fds[] = {{signals_.fd(), POLLIN, 0}, {scanner_.wake_fd(), POLLIN, 0}};
      ppoll(fds, std::size(fds), &timeout, nullptr);
      if (fds[0].revents != 0 && signals_.Read()) return kDone;
      if (fds[1].revents != 0) {
        std::string reason;
        if (scanner_.Read(&roots_, &reason) == Scanner::News::kGone)
          return Fail(kInternalFailure, absl::StrCat("the process that looks for training runs ", reason));
      }
      if (BootTime() < next) continue;
      next = BootTime() + kTick;
      Tick(BootTime());
    }
  }

  void Tick(absl::Duration now) {
    if (const std::string stuck = scanner_.Tick(now); !stuck.empty()) Fail(kDone, stuck);
    for (const std::string& sentence : recorders_.Update(roots_, now)) Fail(kDone, sentence);
    if (now >= next_tidy_) {
      next_tidy_ = now + kTidyEvery;
      const Tidied tidied = TidyFolder(folder_, options_.keep);
      figures_.removed += tidied.removed;
      figures_.recordings_bytes = tidied.left_bytes;
      if (tidied.failure != failure_ && !tidied.failure.empty()) Fail(kDone, tidied.failure);
      failure_ = tidied.failure;
    }
    if (hub_ == nullptr) return;
    if (hub_->HasDied()) {
      Fail(kDone, "the process that serves metrics has ended: there are none from now on; recording continues");
      hub_ = nullptr;
      return;
    }
    SendFigures();
  }

  void SendFigures() {
    if (hub_ == nullptr) return;
    figures_.recorders = recorders_.running();
    figures_.left_out = recorders_.left_out();
    figures_.started = recorders_.started();
    figures_.failed = recorders_.failed();
    hub_->Send(figures_);
  }

  const WatchOptions& options_;
  Fd folder_;
  const SignalSource& signals_;
  std::unique_ptr<MetricsHub> hub_;  // or none
  Scanner scanner_;
  Recorders recorders_;
  std::vector<Root> roots_;
  WatchFigures figures_;
  absl::Duration next_tidy_ = -absl::InfiniteDuration();
  std::string failure_;
};

}  // namespace

int RunWatch(const WatchOptions& options) {
  if (absl::Status status = CheckProc(); !status.ok()) return Fail(kHostCannot, status.message());
  absl::StatusOr<Fd> folder = OpenFolder(options.folder);
  if (!folder.ok()) return Fail(kCannotWrite, folder.status().message());
  signal(SIGPIPE, SIG_IGN);
  const SignalSource signals;
  std::unique_ptr<MetricsHub> hub;
  if (!options.metrics_file.empty() || options.metrics_listen) {
    absl::StatusOr<std::unique_ptr<MetricsHub>> started =
        MetricsHub::Start(options.metrics_file, options.metrics_listen, options.at_most);
    if (!started.ok())
      return Fail(absl::IsInvalidArgument(started.status()) ? kUsage : kCannotWrite, started.status().message());
    hub = *std::move(started);
  }
  if (!options.quiet) {
    const bool served = hub != nullptr && !hub->address().empty();
    Fail(kDone, absl::StrCat("watching for training runs; recordings go to ", options.folder,
                             served ? absl::StrCat("; metrics at ", hub->address()) : "",
                             served && !IsLoopback(options.metrics_listen->host)
                                 ? ", for every machine that reaches this address"
                                 : ""));
  }
  return Watch(options, *std::move(folder), signals, std::move(hub)).Run();
}

}  // namespace cowprof
