// The recorder's side of a served page: binds the address, starts the process that serves, and looks whether it lives.
// Called by `record`. All that the process gets is the listening socket, the timeline to read, stderr, and a pipe that
// tells it what to serve and, by its end, that the recording ended; see serve_page.cc for its own side.
#ifndef COWPROF_SERVE_PAGE_SERVER_H_
#define COWPROF_SERVE_PAGE_SERVER_H_

#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "posix/fd.h"
#include "serve/door.h"
#include "serve_options.h"

namespace cowprof {

// The descriptors that the serving process finds.
inline constexpr int kListeningFd = 3, kTimelineFd = 4, kLifelineFd = 5;

// What it finds in the pipe, each ended by a NUL: address, port, token, user, group, path of the recording.
inline constexpr int kServeSettings = 6;

class PageServer {
 public:
  // Before anything is started: a port that is taken is an error of the command line.
  static absl::StatusOr<std::unique_ptr<PageServer>> Bind(const ServeAddress& address);
  ~PageServer();

  // `timeline`: the recording, open for reading alone. `signals`: the mask that the process starts with.
  absl::Status Start(Fd timeline, const std::string& path, const sigset_t& signals);
  // With its token: whoever knows it may look.
  std::string address() const { return AddressOf(door_); }

  pid_t pid() const { return pid_; }  // of its process; 0: there is none

  // Why there is no page any more; once.
  std::optional<std::string> Death();
  // The recording ended: lets open pages take the last of it, which is over in a few seconds, and ends the process.
  void Finish();

 private:
  PageServer(Door door, Fd listening) : door_(std::move(door)), listening_(std::move(listening)) {}

  Door door_;
  Fd listening_, lifeline_;
  pid_t pid_ = 0;  // 0: none, or it ended
};

}  // namespace cowprof

#endif  // COWPROF_SERVE_PAGE_SERVER_H_
