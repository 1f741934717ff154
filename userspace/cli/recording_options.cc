#include "cli/recording_options.h"

#include <CLI/CLI.hpp>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/alert_options.h"
#include "cli/serve_options.h"

namespace cowprof {
namespace {

constexpr size_t kLongestLabel = 1000;

// Groups of options in the help, in this order.
constexpr const char *kWhat = "What to record", *kShow = "While it records", *kAlerts = "Alerts", *kMetrics = "Metrics",
                     *kHow = "How to count";
constexpr const char* kColours = "auto|always|never";

std::string ParseLabel(const std::string& text, std::map<std::string, std::string>* labels) {
  const size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const bool valid = equals != text.npos && !key.empty() && absl::c_all_of(key, [](char c) {
                       return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
                     });
  if (!valid) {
    return absl::StrCat("'", text, "' is not KEY=VALUE, with a key of letters, digits, '_', '-' and '.'");
  }
  if (text.size() > kLongestLabel) return absl::StrCat("'", key, "' has more than ", kLongestLabel, " bytes");
  if (!labels->emplace(key, text.substr(equals + 1)).second) return absl::StrCat("'", key, "' is given twice");
  return "";
}

void AddTime(CLI::App* app, const std::string& name, absl::Duration* out, const char* help) {
  app->add_option_function<std::string>(
         name,
         [name, out](const std::string& text) {
           const std::optional<absl::Duration> time = ParseDuration(text);
           if (!time) {
             throw CLI::ValidationError(
                 name, absl::StrCat("'", text, "' is not a duration; give one such as 500ms, 30s or 5m"));
           }
           *out = *time;
         },
         help)
      ->type_name("TIME")
      ->group(kWhat);
}

}  // namespace

std::string ParsePid(const std::string& text, pid_t* out) {
  if (!absl::SimpleAtoi(text, out) || *out <= 0) {
    return absl::StrCat("'", text, "' is not a process id; give a positive number, as shown by ps");
  }
  return "";
}

void AddWithout(CLI::App* app, Options* options) {
  app->add_option(
         "--without", options->without,
         "Leave this out: a rung that doctor lists; or causes, stacks, start-methods, hangs; or faults, copies, "
         "follow, signals, taken from the best rung that provides it; repeatable")
      ->type_name("CAPABILITY")
      ->allow_extra_args(false)
      ->group(kHow);
}

void AddColour(CLI::App* app, Options* options) {
  app->add_option_function<std::string>(
         "--color",
         [options](const std::string& text) {
           constexpr std::pair<absl::string_view, Colour> kNames[] = {
               {"auto", Colour::kAuto}, {"always", Colour::kAlways}, {"never", Colour::kNever}};
           for (const auto& [name, colour] : kNames) {
             if (text == name) return void(options->colour = colour);
           }
           throw CLI::ValidationError("--color", absl::StrCat("'", text, "' is not auto, always or never"));
         },
         "When to use colours (default: auto, on a terminal unless NO_COLOR is set)")
      ->type_name(kColours)
      ->group(kOtherOptions);
}

void AddInterval(CLI::App* app, Options* options) {
  AddTime(app, "--interval", &options->interval, "Time between samples (default: 1s)");
}

void AddHow(CLI::App* app, Options* options) {
  app->add_flag("--every-copy", options->every_copy,
                "Record stack and type of every copy instead of a sample: exact, but copies take twice as long")
      ->group(kHow);
  app->add_flag("--verify", options->verify, "Compare a sample of the copied pages with the parent's, byte by byte")
      ->group(kHow);
  AddWithout(app, options);
  app->add_option_function<std::vector<std::string>>(
         "--label",
         [options](const std::vector<std::string>& labels) {
           for (const std::string& label : labels) {
             if (std::string error = ParseLabel(label, &options->labels); !error.empty())
               throw CLI::ValidationError("--label", error);
           }
         },
         "Note this in the recording, to tell runs apart: run=baseline; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->group(kWhat);
}

void AddRecordOptions(CLI::App* app, Options* options) {
  app->add_option_function<std::string>(
         "--attach",
         [options](const std::string& text) {
           if (std::string error = ParsePid(text, &options->attach); !error.empty())
             throw CLI::ValidationError("--attach", error);
         },
         "Process to profile, with every worker it has or forks")
      ->type_name("PID")
      ->group(kWhat);
  app->add_option(
         "-o,--output", options->output,
         "Where to write the recording (default: cowprof-PID.json); an earlier FILE is kept as FILE.old, once; %h, %j "
         "and %r stand for host, job and rank")
      ->type_name("FILE")
      ->group(kWhat);
  AddTime(app, "--duration", &options->duration,
          "Stop after this time, such as 30s (default: when the target ends, or Ctrl-C)");
  AddInterval(app, options);
  app->add_flag("-q,--quiet", options->quiet, "Print nothing while recording, and no report at the end")->group(kShow);
  app->add_flag("--live", options->live, "Show a live screen if stdout (with -- CMD: stderr) is a terminal")
      ->group(kShow);
  app->add_option_function<std::string>(
         "--serve",
         [options](const std::string& text) {
           if (std::string error = ParseServeAddress(text, &options->serve.emplace()); !error.empty())
             throw CLI::ValidationError("--serve", error);
         },
         "Serve the page during the recording, to this machine only (default: 127.0.0.1 and a free port)")
      ->type_name("[ADDRESS:]PORT")
      ->expected(0, 1)
      ->group(kShow);
  AddHow(app, options);
}

void AddAlertOptions(CLI::App* app, AlertValues* values, Options* options) {
  app->add_option("--alert-at", values->ratios,
                  "Alert when this much of a limit is used: 90% (the default); for one kind of limit and a hold time: "
                  "shm=80%:10s; or off; hang=off: no alert of processes that hang; repeatable")
      ->type_name("[KIND=]RATIO[:TIME]")
      ->allow_extra_args(false)
      ->group(kAlerts);
  app->add_option(
         "--alert-eta", values->etas,
         "Alert when a limit will be reached within this time: 2m (the default), shm=30s:5s, fds=off; repeatable")
      ->type_name("[KIND=]TIME[:TIME]")
      ->allow_extra_args(false)
      ->group(kAlerts);
  app->add_option(
         "--on-alert", options->on_alert,
         "Run this at each alert, without a shell; it gets the alert as JSON on stdin and in COWPROF_* variables")
      ->type_name("CMD")
      ->group(kAlerts);
  app->add_flag("--fail-on-alert", options->fail_on_alert, "Exit with status 3 if there was an alert")->group(kAlerts);
}

void AddMetricsOptions(CLI::App* app, Options* options, bool expands) {
  app->add_option("--metrics-file", options->metrics_file,
                  absl::StrCat("Write metrics to this file at each tick, for node_exporter's textfile collector",
                               expands ? "; %h, %j and %r stand for host, job and rank, as in --output" : ""))
      ->type_name("FILE.prom")
      ->group(kMetrics);
  app->add_option_function<std::string>(
         "--metrics-listen",
         [options](const std::string& text) {
           if (std::string error = ParseServeAddress(text, &options->metrics_listen.emplace(), /*anywhere=*/true);
               !error.empty())
             throw CLI::ValidationError("--metrics-listen", error);
         },
         "Serve metrics to Prometheus at this address, under /metrics; a port alone means 127.0.0.1")
      ->type_name("[ADDRESS:]PORT")
      ->group(kMetrics);
}

}  // namespace cowprof
