// The recorder's side of a served page and of served metrics: binds the addresses, starts the serving process and
// checks that it is alive. That process gets the listening sockets, the timeline for reading, stderr, and a pipe that
// brings its settings and whose end of file means that the recording ended. Its own side is cli/serve_page.cc.
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

// File descriptors of the serving process. /dev/null stands for a socket that there is not.
inline constexpr int kListeningFd = 3, kTimelineFd = 4, kLifelineFd = 5, kMetricsFd = 6;

// Number of settings in the pipe, each terminated by a NUL: address, port and token of the page, user, group, path of
// the recording, address and port of the metrics. Port 0: not served.
inline constexpr int kServeSettings = 8;

class PageServer {
 public:
  struct Listening {
    RequestPolicy policy;  // port 0: nothing is served
    Fd socket;
  };
  // A socket at that address; `what`: for messages. Without an address there is none.
  static absl::StatusOr<Listening> Listen(const std::optional<ServeAddress>& address, absl::string_view what);

  // Call before anything is started: a port in use is an error of the command line.
  static absl::StatusOr<std::unique_ptr<PageServer>> Bind(const std::optional<ServeAddress>& page,
                                                          const std::optional<ServeAddress>& metrics);
  ~PageServer();

  // `timeline`: the recording, opened for reading only. `signals`: the signal mask of the new process.
  absl::Status Start(Fd timeline, const std::string& path, const sigset_t& signals);
  // Includes the token, which grants access. "": no page is served.
  std::string address() const { return listening_.policy.port != 0 ? AddressOf(listening_.policy) : ""; }
  std::string metrics_address() const { return metrics_.policy.port != 0 ? MetricsAddressOf(metrics_.policy) : ""; }

  pid_t pid() const { return pid_; }  // of the serving process; 0: none

  // Returns, once, why the serving process ended early.
  std::optional<std::string> Death();
  // The recording ended: gives open pages a few seconds to fetch the rest, then ends the process.
  void Finish();

 private:
  PageServer(Listening page, Listening metrics) : listening_(std::move(page)), metrics_(std::move(metrics)) {}

  Listening listening_, metrics_;
  Fd lifeline_;
  pid_t pid_ = 0;  // 0: not running
};

}  // namespace cowprof

#endif  // COWPROF_SERVE_PAGE_SERVER_H_
