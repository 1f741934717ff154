// The command line, by way of CLI11.
#include "options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "alert_options.h"

namespace cowprof {
namespace {

constexpr const char* kDescription =
    "cowprof finds out what copy-on-write costs a program that forks: which worker copies how much of the memory it "
    "shares with\n"
    "its parent, how much it can still copy, and how far each limit is.\n\n"
    "  sudo cowprof --attach PID            profile a running process and every worker it has or forks\n"
    "  sudo cowprof [options] -- CMD ARGS   start CMD and profile it from its first instruction\n";

// A number without a unit is seconds.
std::string ParseTime(const std::string& text, absl::Duration* out) {
  double seconds = 0;
  const bool plain = absl::SimpleAtod(text, &seconds);
  absl::Duration parsed = absl::Seconds(seconds);
  // "inf", "nan" and 1e300 are infinite.
  const bool known = plain || absl::ParseDuration(text, &parsed);
  if (!known || parsed <= absl::ZeroDuration() || parsed == absl::InfiniteDuration()) {
    return absl::StrCat("'", text, "' is no duration; give one such as 500ms, 30s or 5m");
  }
  *out = parsed;
  return "";
}

std::string ParsePid(const std::string& text, pid_t* out) {
  if (!absl::SimpleAtoi(text, out) || *out <= 0) {
    return absl::StrCat("'", text, "' is no process id; give a positive number, as ps shows it");
  }
  return "";
}

void AddWithout(CLI::App* app, Options* options) {
  app->add_option("--without", options->without,
                  "Do without this: a rung that doctor lists, or a step down for faults, copies, follow or signals, or "
                  "no causes, or no stacks; repeatable")
      ->type_name("CAPABILITY")
      ->allow_extra_args(false);
}

void AddRecordOptions(CLI::App* app, Options* options) {
  app->add_option_function<std::string>(
         "--attach",
         [options](const std::string& text) {
           if (std::string error = ParsePid(text, &options->attach); !error.empty())
             throw CLI::ValidationError("--attach", error);
         },
         "Process to profile, with every worker it has or forks")
      ->type_name("PID");
  app->add_option("-o,--output", options->output, "Where to write the recording (default: cowprof-PID.json)")
      ->type_name("FILE");
  const auto add_time = [app](const char* name, absl::Duration* out, const char* help) {
    app->add_option_function<std::string>(
           name,
           [name, out](const std::string& text) {
             if (std::string error = ParseTime(text, out); !error.empty()) throw CLI::ValidationError(name, error);
           },
           help)
        ->type_name("TIME");
  };
  add_time("--duration", &options->duration,
           "Stop after this time, such as 30s (default: when the target ends, or Ctrl-C)");
  add_time("--interval", &options->interval, "Time between samples (default: 1s)");
  app->add_flag("-q,--quiet", options->quiet, "Print nothing while recording, and no report at the end");
  app->add_flag("--live", options->live, "A screen that refreshes, where stdout is a terminal");
  app->add_option_function<std::string>(
         "--serve",
         [options](const std::string& text) {
           if (std::string error = ParseServeAddress(text, &options->serve.emplace()); !error.empty())
             throw CLI::ValidationError("--serve", error);
         },
         "Show the page while it records, to this machine alone (default: 127.0.0.1 and a free port)")
      ->type_name("[ADDRESS:]PORT")
      ->expected(0, 1);
  app->add_flag(
      "--every-copy", options->every_copy,
      "Look at the stack and the type of every copy, not of one in a few: exact, and a copy takes twice as long");
  app->add_flag("--verify", options->verify, "Compare a sample of the copied pages with the parent's, byte by byte");
  AddWithout(app, options);
}

void AddPid(CLI::App* command, const char* help, Options* options) {
  command
      ->add_option_function<std::string>(
          "PID",
          [options](const std::string& text) {
            if (std::string error = ParsePid(text, &options->pid); !error.empty())
              throw CLI::ValidationError("PID", error);
          },
          help)
      ->type_name("PID");
}

// `values`: of --alert-at and --alert-eta, in their order, to be parsed when all are there.
struct AlertValues {
  std::vector<std::string> ratios, etas;
};

void AddAlertOptions(CLI::App* app, AlertValues* values, Options* options) {
  app->add_option("--alert-at", values->ratios,
                  "Alert when so much of a limit is used: 90% (the default), or for one kind, and held for a time, "
                  "shm=80%:10s; or off; repeatable")
      ->type_name("[KIND=]RATIO[:TIME]")
      ->allow_extra_args(false);
  app->add_option("--alert-eta", values->etas,
                  "Alert when a limit will be met within this time: 2m (the default), shm=30s:5s, fds=off; repeatable")
      ->type_name("[KIND=]TIME[:TIME]")
      ->allow_extra_args(false);
  app->add_option(
         "--on-alert", options->on_alert,
         "Run this at each alert, without a shell; the alert is on its stdin as JSON and in COWPROF_* variables")
      ->type_name("CMD");
  app->add_flag("--fail-on-alert", options->fail_on_alert, "Exit with status 3 if there was an alert");
}

void AddSubcommands(CLI::App* app, Options* options) {
  CLI::App* report = app->add_subcommand("report", "The verdict on a recording, in words or as JSON");
  report->add_option("TIMELINE", options->timeline, "Recording made by cowprof")->required()->type_name("FILE");
  report->add_flag("--json", options->json, "As cowprof.report/1");
  CLI::App* view =
      app->add_subcommand("view", "Make one self-contained HTML page of a recording, or of two to compare");
  view->add_option("TIMELINE", options->timeline, "Recording made by cowprof")->required()->type_name("FILE");
  view->add_option("OTHER", options->other_timeline, "A second one: what is different in it, on the same axes")
      ->type_name("FILE");
  view->add_option("-o,--output", options->output,
                   "The page (default: TIMELINE with .html, of two TIMELINE-vs-OTHER.html)")
      ->type_name("FILE.html");
  CLI::App* doctor = app->add_subcommand("doctor", "What this host, and a process on it, allows cowprof to do");
  doctor->add_flag("--json", options->json, "As cowprof.doctor/1");
  AddWithout(doctor, options);
  AddPid(doctor, "Process to look at", options);
  doctor->add_option("--workers", options->workers, "What so many workers of the process will cost at most")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  CLI::App* shm = app->add_subcommand("shm", "/dev/shm: how full, every segment, whose it is");
  shm->add_flag("--json", options->json, "As cowprof.shm/1");
  AddPid(shm, "Process whose /dev/shm is meant (default: that of this shell)", options);
  app->add_subcommand("serve-page")->group("");  // --serve starts it; see serve_page.cc
  app->require_subcommand(0, 1);
}

ParsedOptions UsageError(const std::string& message) {
  return {
      .exit_now = true, .exit_code = kUsage, .message = absl::StrCat("cowprof: ", message, " (see cowprof --help)\n")};
}

// What can't be told from one option alone.
std::string Contradiction(const Options& options, bool separator) {
  if (options.command == "doctor" && options.workers != 0 && options.pid == 0)
    return "doctor --workers: of which process? give its PID, as in: cowprof doctor 4242 --workers 8";
  if (options.command != "record") {
    return separator || options.attach != 0
               ? absl::StrCat("'", options.command, "' takes no --attach and no program to start")
               : "";
  }
  if (separator && options.program.empty())
    return "nothing to start after '--'; give a command, as in: cowprof -- python3 train.py";
  if (!options.program.empty() && options.attach != 0) return "--attach and a program to start exclude each other";
  if (options.program.empty() && options.attach == 0) {
    return "nothing to profile; give --attach PID, or -- and a command";
  }
  if (options.interval < absl::Milliseconds(10)) return "--interval below 10ms would cost more than it shows";
  return "";
}

}  // namespace

ParsedOptions ParseOptions(int argc, const char* const* argv) {
  // What follows the first "--" belongs to the program, flags included.
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const auto separator = std::find(words.begin(), words.end(), "--");
  const bool separated = separator != words.end();
  ParsedOptions parsed;
  Options& options = parsed.options;
  if (separated) options.program.assign(separator + 1, words.end());
  words.erase(separator, words.end());
  std::reverse(words.begin(), words.end());  // as CLI11 wants them

  CLI::App app(kDescription, "cowprof");
  app.set_version_flag("--version", "cowprof " COWPROF_VERSION);
  AddRecordOptions(&app, &options);
  AlertValues alert_values;
  AddAlertOptions(&app, &alert_values, &options);
  AddSubcommands(&app, &options);
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return {.exit_now = true, .message = chosen.empty() ? app.help() : chosen[0]->help()};
  } catch (const CLI::CallForVersion&) {
    return {.exit_now = true, .message = "cowprof " COWPROF_VERSION "\n"};
  } catch (const CLI::ParseError& error) {
    return UsageError(absl::StrReplaceAll(error.what(), {{"\n", " "}}));
  }
  if (!app.get_subcommands().empty()) options.command = app.get_subcommands()[0]->get_name();
  if (std::string error = ParseAlertRatios(alert_values.ratios, &options.alerts); !error.empty())
    return UsageError(absl::StrCat("--alert-at: ", error));
  if (std::string error = ParseAlertEtas(alert_values.etas, &options.alerts); !error.empty())
    return UsageError(absl::StrCat("--alert-eta: ", error));
  if (std::string error = Contradiction(options, separated); !error.empty()) return UsageError(error);
  return parsed;
}

}  // namespace cowprof
