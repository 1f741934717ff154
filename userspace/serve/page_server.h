// The recorder's side of a served page: binds the address, starts the serving process and checks that it is alive. That
// process gets the listening socket, the timeline for reading, stderr, and a pipe that brings its settings and whose
// end of file means that the recording ended. Its own side is cli/serve_page.cc.
#ifndef COWPROF_SERVE_PAGE_SERVER_H_
#define COWPROF_SERVE_PAGE_SERVER_H_

#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "posix/fd.h"
#include "serve/request_policy.h"
#include "serve/serve_address.h"

namespace cowprof {

// File descriptors of the serving process.
inline constexpr int kListeningFd = 3, kTimelineFd = 4, kLifelineFd = 5;

// Number of settings in the pipe, each terminated by a NUL: address, port, token, user, group, path of the recording.
inline constexpr int kServeSettings = 6;

class PageServer {
 public:
  // Call before anything is started: a port in use is an error of the command line.
  static absl::StatusOr<std::unique_ptr<PageServer>> Bind(const ServeAddress& address);
  ~PageServer();

  // `timeline`: the recording, opened for reading only. `signals`: the signal mask of the new process.
  absl::Status Start(Fd timeline, const std::string& path, const sigset_t& signals);
  // Includes the token, which grants access.
  std::string address() const { return AddressOf(request_policy_); }

  pid_t pid() const { return pid_; }  // of the serving process; 0: none

  // Returns, once, why the serving process ended early.
  std::optional<std::string> Death();
  // The recording ended: gives open pages a few seconds to fetch the rest, then ends the process.
  void Finish();

 private:
  PageServer(RequestPolicy policy, Fd listening)
      : request_policy_(std::move(policy)), listening_(std::move(listening)) {}

  RequestPolicy request_policy_;
  Fd listening_, lifeline_;
  pid_t pid_ = 0;  // 0: not running
};

}  // namespace cowprof

#endif  // COWPROF_SERVE_PAGE_SERVER_H_
