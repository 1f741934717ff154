#include "sink/metrics/metrics_sink.h"

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "builders.h"
#include "model/judge/run.h"

namespace cowprof {

TEST_CASE("metrics sink: a sample was taken when the clock says so now, not when the recording began by it") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd theirs(ends[1]);
  Run run;
  MetricsSink sink(MetricsFile::Over(Fd(ends[0])), run.model, [](const std::string&) {});
  run.model.info.started = absl::FromUnixSeconds(1'000'000'000);  // the clock was wrong
  const Sample sample = {.t = absl::Seconds(2), .events = {Started(0, -1)}, .processes = {RowWithCopies(0, 1)}};
  const std::vector<Alert> raised;
  Append(sample, raised, &run);
  const Findings findings = Judge(run, Detail::kTick);
  const absl::Time before = absl::Now();
  REQUIRE(sink.Write({sample, run.model, findings, raised}).ok());
  const absl::Time after = absl::Now();
  std::string text(64 << 10, '\0');
  const ssize_t bytes = read(theirs.fd(), text.data(), text.size());
  REQUIRE(bytes > 0);
  text.resize(bytes);
  const std::string name = "\ncowprof_last_sample_timestamp_seconds ";
  const size_t row = text.find(name), begin = row + name.size();
  REQUIRE(row != text.npos);
  double said = 0;
  REQUIRE(absl::SimpleAtod(text.substr(begin, text.find('\n', begin) - begin), &said));
  const absl::Time sampled = absl::UnixEpoch() + absl::Seconds(said);
  CHECK(sampled >= before - absl::Milliseconds(1));
  CHECK(sampled <= after + absl::Milliseconds(1));
}

TEST_CASE("metrics sink: a recording that ended before its first sample no longer records") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd theirs(ends[1]);
  REQUIRE(shutdown(theirs.fd(), SHUT_WR) == 0);  // it does not wait for answers
  const RunModel model;
  MetricsSink sink(MetricsFile::Over(Fd(ends[0])), model, [](const std::string&) {});
  REQUIRE(sink.Finish(absl::ZeroDuration(), "target ended").ok());
  std::string text(64 << 10, '\0');
  const ssize_t bytes = read(theirs.fd(), text.data(), text.size());
  REQUIRE(bytes > 0);
  CHECK(absl::StrContains(text, "\ncowprof_recording 0\n"));
}

}  // namespace cowprof
