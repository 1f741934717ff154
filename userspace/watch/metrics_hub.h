// The process that serves the metrics of all recorders as one page, without any right, and passes them on to the one
// that writes them to a file.
#ifndef COWPROF_WATCH_METRICS_HUB_H_
#define COWPROF_WATCH_METRICS_HUB_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "posix/fd.h"
#include "serve/serve_address.h"

namespace cowprof {

struct WatchFigures {
  uint64_t recorders = 0, left_out = 0, started = 0, failed = 0, recordings_bytes = 0, removed = 0;
  bool operator==(const WatchFigures&) const = default;
};

class MetricsHub {
 public:
  // Starts it. `file`: "": none. `address`: absent: nothing is served. `at_most`: recorders at a time. The status is
  // meant for the user.
  static absl::StatusOr<std::unique_ptr<MetricsHub>> Start(const std::string& file,
                                                           const std::optional<ServeAddress>& address, size_t at_most);
  // Writes the last text, and ends the process.
  ~MetricsHub();

  // The socket that a new recorder sends its metrics to, which have the label recorder="`slot`" and replace those of
  // the last that had it. Not ok: it has none.
  Fd Add(uint32_t slot);
  void Send(const WatchFigures& figures);
  bool HasDied();                                          // true once
  const std::string& address() const { return address_; }  // "": nothing is served

 private:
  MetricsHub(pid_t pid, Fd control, std::string address)
      : pid_(pid), control_(std::move(control)), address_(std::move(address)) {}

  pid_t pid_;
  Fd control_;
  std::string address_;
};

}  // namespace cowprof

#endif  // COWPROF_WATCH_METRICS_HUB_H_
