// Lines of a run that is watched: how many, what they say of a limit, and what becomes of them if nobody reads.
#include "sink/terminal/terminal.h"

#include <fcntl.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "builders.h"
#include "model/judge/findings.h"
#include "posix/fd.h"
#include "posix/nonblocking_output.h"
#include "sink/report/report_forecast.h"
#include "slow_reader.h"

namespace cowprof {

namespace {

// A recording whose lines go to a pipe.
class Lines {
 public:
  Lines() { run_.model.info.interval = absl::Seconds(1); }
  void Write(absl::Duration t, const std::vector<Alert>& raised = {}) {
    const Sample sample = {.t = t};
    Append(sample, &run_);
    const Findings findings = Judge(run_);
    REQUIRE(terminal_->Write({sample, run_.model, findings, raised}).ok());
  }
  void Finish() { REQUIRE(terminal_->Finish(run_.model.t, "interrupted").ok()); }
  SlowReader& reader() { return reader_; }
  std::string Read() {
    out_.Flush();
    return reader_.Read();
  }

 private:
  Run run_;
  SlowReader reader_;
  NonblockingOutput out_{reader_.fd()};
  std::unique_ptr<Sink> terminal_ = NewTerminal(TerminalMode::kLines, &out_, /*coloured=*/false, "");
};

}  // namespace

TEST_CASE("there is one line an interval, however many ticks") {
  Lines recording;
  // Ten ticks a second, as forks and ends of workers ask for.
  for (int i = 0; i <= 100; ++i) recording.Write(absl::Milliseconds(100 * i));
  const std::string lines = recording.Read();
  INFO(lines);
  // The first one, and one for each of ten intervals or, since a tick may be a little early, eleven.
  const auto count = std::count(lines.begin(), lines.end(), '\n');
  CHECK(count >= 10);
  CHECK(count <= 12);
}

TEST_CASE("while nobody reads, alerts wait, and lines are skipped and counted") {
  const Alert alert = {.rule = AlertRule::kEta, .kind = LimitKind::kShm, .text = "it fills up"};
  Lines recording;
  recording.Write(absl::Seconds(1));
  recording.reader().Read();
  recording.reader().Stop();
  recording.Write(absl::Seconds(2));
  recording.Write(absl::Seconds(3), {alert});
  recording.Write(absl::Seconds(4));
  CHECK(recording.reader().Read() == "");
  SECTION("until somebody reads again") {
    const std::string lines = recording.Read();
    INFO(lines);
    CHECK(absl::StartsWith(lines, "!!! cowprof: "));
    CHECK(absl::StrContains(lines, "it fills up"));
    CHECK(absl::StrContains(lines, "\ncowprof: 2 lines skipped: nobody read them\n"));
    CHECK(absl::StrContains(lines, "4.0 s"));
    CHECK_FALSE(absl::StrContains(lines, "3.0 s"));
    recording.Write(absl::Seconds(5));
    CHECK_FALSE(absl::StrContains(recording.Read(), "skipped"));
  }
  SECTION("until the end") {
    recording.Finish();
    const std::string lines = recording.Read();
    INFO(lines);
    CHECK(absl::StartsWith(lines, "!!! cowprof: "));
    CHECK_FALSE(absl::StrContains(lines, "4.0 s"));
  }
}

TEST_CASE("copies that can't be counted are not 0, nor is what was not measured yet") {
  Run run;
  Append({.events = {Started(0, -1), Started(1, 0)}, .processes = {{.index = 1}}}, &run);
  const std::string line = TickLine(run.model, Judge(run));
  INFO(line);
  CHECK(absl::StrContains(line, "1 worker  copied - (-)  private -  still shared -  "));
  CHECK(absl::StrContains(line, "[1001 -]"));
  Append({.t = absl::Seconds(1), .processes = {RowWithCopies(1, 256)}}, &run);
  CHECK(absl::StrContains(TickLine(run.model, Judge(run)), "copied 1.0 MiB (+1.0 MiB/s)"));
}

TEST_CASE("a limit that will be met is named with its time and its pace") {
  Forecast forecast;
  forecast.first_limit = 0;
  forecast.limits = {{.now = {LimitKind::kHost, "host", uint64_t{64} << 30, uint64_t{40} << 30},
                      .eta = absl::Minutes(47),
                      .per_second = 8.0 * (1 << 20),
                      .outlook = Outlook::kWillExceed}};
  CHECK(FormatForecast(forecast) == "-> the host's memory full in about 47 min at 8.0 MiB/s");
  forecast.limits[0].eta = absl::ZeroDuration();
  CHECK(FormatForecast(forecast) == "-> the host's memory full");
}

TEST_CASE("a terminal that is not the controlling one shows lines, not a screen that never comes") {
  const Fd master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(master.ok());
  REQUIRE(grantpt(master.fd()) == 0);
  REQUIRE(unlockpt(master.fd()) == 0);
  const Fd terminal(open(ptsname(master.fd()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(isatty(terminal.fd()));
  setenv("TERM", "xterm", 1);
  FILE* const out = fdopen(dup(terminal.fd()), "w");
  REQUIRE(out != nullptr);
  CHECK_FALSE(CanShowScreen(out));
  std::fclose(out);
}

}  // namespace cowprof
