// Lines of a run that is watched: how many, and what they say of a limit.
#include "sink/terminal/terminal.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "model/judge/findings.h"
#include "sink/report/report_forecast.h"

namespace cowprof {

TEST_CASE("there is one line an interval, however many ticks") {
  Run run;
  run.model.info.interval = absl::Seconds(1);
  char* text = nullptr;
  size_t size = 0;
  FILE* const out = open_memstream(&text, &size);
  {
    const std::unique_ptr<Sink> terminal = NewTerminal(TerminalMode::kLines, out, /*coloured=*/false, "");
    // Ten ticks a second, as forks and ends of workers ask for.
    for (int i = 0; i <= 100; ++i) {
      const Sample sample = {.t = absl::Milliseconds(100 * i)};
      Append(sample, &run);
      const Findings findings = Judge(run);
      REQUIRE(terminal->Write({sample, run.model, findings, {}}).ok());
    }
  }
  fclose(out);
  const std::string lines(text, size);
  free(text);
  INFO(lines);
  // The first one, and one for each of ten intervals or, since a tick may be a little early, eleven.
  const auto count = std::count(lines.begin(), lines.end(), '\n');
  CHECK(count >= 10);
  CHECK(count <= 12);
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

}  // namespace cowprof
