// Declares the command line for CLI11, and checks what CLI11 can't.
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/alert_options.h"
#include "cli/command_table.h"
#include "cli/manual.h"
#include "cli/serve_options.h"
#include "cli/watch_options.h"
#include "source/probe_plan.h"

namespace cowprof {
namespace {

constexpr size_t kLongestLabel = 1000;

// Groups of options in the help, in this order.
constexpr const char *kWhat = "What to record", *kShow = "While it records", *kAlerts = "Alerts", *kMetrics = "Metrics",
                     *kHow = "How to count", *kOther = "Other";
constexpr const char* kColours = "auto|always|never";

std::string ParsePid(const std::string& text, pid_t* out) {
  if (!absl::SimpleAtoi(text, out) || *out <= 0) {
    return absl::StrCat("'", text, "' is not a process id; give a positive number, as shown by ps");
  }
  return "";
}

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

void AddWithout(CLI::App* app, Options* options) {
  app->add_option("--without", options->without,
                  "Do not use this: a rung that doctor lists, the best rung for faults, copies, follow or signals, "
                  "causes, or stacks; repeatable")
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
      ->group(kOther);
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

// What `prove` takes, too.
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
         "Where to write the recording (default: cowprof-PID.json); %h, %j and %r stand for host, job and rank")
      ->type_name("FILE")
      ->group(kWhat);
  AddTime(app, "--duration", &options->duration,
          "Stop after this time, such as 30s (default: when the target ends, or Ctrl-C)");
  AddInterval(app, options);
  app->add_flag("-q,--quiet", options->quiet, "Print nothing while recording, and no report at the end")->group(kShow);
  app->add_flag("--live", options->live, "Show a live screen if stdout is a terminal")->group(kShow);
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

CLI::Option* AddPid(CLI::App* command, const char* help, Options* options) {
  return command
      ->add_option_function<std::string>(
          "PID",
          [options](const std::string& text) {
            if (std::string error = ParsePid(text, &options->pid); !error.empty())
              throw CLI::ValidationError("PID", error);
          },
          help)
      ->type_name("PID");
}

// Values of --alert-at and --alert-eta in order, to be parsed once all are known.
struct AlertValues {
  std::vector<std::string> ratios, etas;
};

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

// `expands`: %h, %j and %r in names.
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

// Options of recording that `watch` takes as well, for its recorders.
void AddWatchCommand(CLI::App* app, AlertValues* alerts, Options* options) {
  CLI::App* watch = app->add_subcommand("watch", "Find trainers on this host and record each");
  AddWatchOptions(watch, &options->watch);
  AddInterval(watch, options);
  AddHow(watch, options);
  AddAlertOptions(watch, alerts, options);
  watch->remove_option(watch->get_option("--fail-on-alert"));
  AddMetricsOptions(watch, options, /*expands=*/false);
}

void AddSubcommands(CLI::App* app, AlertValues* alerts, Options* options) {
  CLI::App* report =
      app->add_subcommand("report", "Print the verdict on a recording, or on several of one job, as text or JSON");
  report->add_option("TIMELINE", options->timelines, "Recordings made by cowprof, or a folder of them")
      ->required()
      ->type_name("FILE");
  report->add_flag("--json", options->json, "Print JSON (cowprof.report/1; of several, cowprof.fleet/1)");
  AddColour(report, options);
  CLI::App* view =
      app->add_subcommand("view", "Make one HTML page from a recording, from two to compare, or from those of a job");
  view->add_option("TIMELINE", options->timelines, "Recordings made by cowprof, or a folder of them")
      ->required()
      ->type_name("FILE");
  view->add_option("-o,--output", options->output,
                   "Where to write the page (default: TIMELINE.html, A-vs-B.html, A-and-7-more.html or FOLDER.html)")
      ->type_name("FILE.html");
  view->add_option_function<std::string>(
          "--as",
          [options](const std::string& text) { options->view_as = text == "job" ? ViewAs::kJob : ViewAs::kCompare; },
          "What the recordings are: two runs to compare, or ranks or nodes of one job (default: by what is in them)")
      ->type_name("compare|job")
      ->check(CLI::IsMember({"compare", "job"}).description(""));
  CLI::App* doctor = app->add_subcommand("doctor", "Show what this host, and a process on it, allows cowprof to do");
  doctor->add_flag("--json", options->json, "Print JSON (cowprof.doctor/1)");
  AddWithout(doctor, options);
  AddPid(doctor, "Process to check", options);
  doctor->add_option("--workers", options->workers, "Show what this many workers of the process will cost at most")
      ->type_name("N")
      ->check(CLI::Range(1, 65536).description(""));
  CLI::App* shm = app->add_subcommand("shm", "Show /dev/shm: how full it is, every segment, and who owns it");
  shm->add_flag("--json", options->json, "Print JSON (cowprof.shm/1)");
  AddPid(shm, "Process whose /dev/shm to show (default: that of this shell)", options);
  CLI::App* pickle = app->add_subcommand(
      "pickle",
      "Show what the start methods spawn and forkserver would fail to pickle in a process, and what they would send");
  pickle->add_flag("--json", options->json, "Print JSON (cowprof.pickle/1)");
  AddPid(pickle, "Process whose objects to judge", options)->required();
  pickle
      ->add_option("--object", options->object,
                   "Judge this object, such as __main__.dataset.rows[0] (default: what a DataLoader or Process sends)")
      ->type_name("EXPR");
  pickle->add_flag_callback(
      "--no-time", [options] { options->time = false; },
      "Do not run the interpreter's executable, in a process of its own, to measure how long pickling takes");
  CLI::App* hang =
      app->add_subcommand("hang", "Show which processes of a tree wait for what no living thread will ever release");
  hang->add_flag("--json", options->json, "Print JSON (cowprof.hang/1)");
  AddPid(hang, "Process to look at, with all that it has forked", options)->required();
  AddCompareCommands(app, &options->compare, &options->timeline, &options->output);
  AddExportCommand(app, &options->export_format, &options->timeline, &options->output);
  CLI::App* prove = app->get_subcommand("prove");
  AddInterval(prove, options);
  AddHow(prove, options);
  CLI::App* demo = app->add_subcommand("demo", "Record a small Python program, explain it, fix it and compare");
  demo->add_option("-o,--output", options->output, "Where to write the page (default: cowprof-demo.html)")
      ->type_name("FILE.html");
  demo->add_flag_callback(
      "--no-open", [options] { options->open = false; }, "Do not open the page where there is a desktop");
  AddWithout(demo, options);
  AddColour(demo, options);
  CLI::App* completions = app->add_subcommand("completions", "Print completions for a shell");
  completions->add_option("SHELL", options->shell, "Shell to complete in")
      ->required()
      ->type_name("bash|zsh|fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  AddWatchCommand(app, alerts, options);
  app->add_subcommand("serve-page")->group("");  // internal: --serve starts it
  app->require_subcommand(0, 1);
}

// The whole command line. `man`: whether the hidden --man was given.
void Declare(CLI::App* app, Options* options, AlertValues* alerts, bool* man) {
  app->set_help_flag("-h,--help", "Print this help; after a command, its own")->group(kOther);
  app->set_version_flag("--version", "cowprof " COWPROF_VERSION, "Print the version")->group(kOther);
  AddRecordOptions(app, options);
  AddAlertOptions(app, alerts, options);
  AddMetricsOptions(app, options, /*expands=*/true);
  AddColour(app, options);
  app->add_option_function<std::string>("--watched",
                                        [options](const std::string& text) {
                                          if (std::string error = ParseWatched(text, &options->watched.emplace());
                                              !error.empty())
                                            throw CLI::ValidationError("--watched", error);
                                        })
      ->group("");
  app->add_flag("--man", *man, "Print the man page")->group("");
  AddSubcommands(app, alerts, options);
}

// ---- The table of it ----

ValueKind KindOf(const std::string& value) {
  if (value.empty()) return ValueKind::kNone;
  if (absl::StartsWith(value, "FILE")) return ValueKind::kFile;
  if (value == "PID") return ValueKind::kPid;
  if (value == "CMD") return ValueKind::kProgram;
  if (value == "CAPABILITY" || absl::StrContains(value, '|')) return ValueKind::kChoice;
  return ValueKind::kText;
}

std::vector<std::string> ChoicesOf(const std::string& value) {
  if (KindOf(value) != ValueKind::kChoice) return {};
  if (value == "CAPABILITY") return WithoutNames();
  return absl::StrSplit(value, '|');
}

CommandRow RowOf(const CLI::App& app) {
  CommandRow row = {.name = app.get_parent() != nullptr ? app.get_name() : "", .summary = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    const std::string value = option->get_items_expected_max() == 0 ? "" : option->get_type_name();
    if (option->get_positional()) {
      row.operands.push_back({.name = option->get_name(true),
                              .about = option->get_description(),
                              .required = option->get_required(),
                              .kind = KindOf(value),
                              .choices = ChoicesOf(value)});
    } else if (!option->get_group().empty()) {
      const auto &shorts = option->get_snames(), &longs = option->get_lnames();
      row.options.push_back({.short_name = shorts.empty() ? "" : "-" + shorts[0],
                             .long_name = longs.empty() ? "" : "--" + longs[0],
                             .value = value,
                             .value_optional = !value.empty() && option->get_items_expected_min() == 0,
                             .repeatable = option->get_items_expected_max() > 1,
                             .about = option->get_description(),
                             .group = row.name.empty() ? option->get_group() : "Options",
                             .kind = KindOf(value),
                             .choices = ChoicesOf(value)});
    }
  }
  // The options that every program has come last.
  std::stable_partition(row.options.begin(), row.options.end(),
                        [](const OptionRow& option) { return option.group != kOther && option.long_name != "--help"; });
  return row;
}

ParsedOptions UsageError(const std::string& message) {
  return {
      .exit_now = true, .exit_code = kUsage, .message = absl::StrCat("cowprof: ", message, " (see cowprof --help)\n")};
}

// Checks that involve more than one option.
std::string Contradiction(const Options& options, bool separator) {
  if (options.command == "doctor" && options.workers != 0 && options.pid == 0)
    return "doctor --workers needs the PID of a process, as in: cowprof doctor 4242 --workers 8";
  if (options.view_as == ViewAs::kCompare && options.timelines.size() != 2)
    return "view --as compare takes two recordings";
  if (options.interval < absl::Milliseconds(10)) return "--interval below 10ms would cost more than it shows";
  if (options.command == "prove" && options.program.empty())
    return "prove needs the program as it is, as in: cowprof prove --fix 'python3 fixed.py' -- python3 train.py";
  if (options.command != "record") {
    return (separator && options.command != "diff" && options.command != "prove") || options.attach != 0
               ? absl::StrCat("'", options.command, "' takes neither --attach nor a program to start")
               : "";
  }
  if (separator && options.program.empty())
    return "nothing to start after '--'; give a command, as in: cowprof -- python3 train.py";
  if (!options.program.empty() && options.attach != 0) return "--attach and a program to start are mutually exclusive";
  if (options.program.empty() && options.attach == 0) {
    return "nothing to profile; give --attach PID, or -- and a command";
  }
  return "";
}

bool IsNumber(absl::string_view text) { return !text.empty() && absl::c_all_of(text, absl::ascii_isdigit); }

// Recognises how py-spy, perf, gdb and strace are told a process: PID, attach PID, -p PID, -pPID, --pid=PID. "": none.
std::string MeantToAttach(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = words[i];
    const bool next_is_pid = word == "attach" || word == "-p" || word == "--pid";
    absl::string_view pid;
    if (next_is_pid && i + 1 < words.size()) pid = words[i + 1];
    if ((i == 0 && IsNumber(word)) || absl::ConsumePrefix(&word, "--pid=") || absl::ConsumePrefix(&word, "-p"))
      pid = next_is_pid ? pid : word;
    if (IsNumber(pid)) return absl::StrCat("; did you mean: cowprof --attach ", pid, "?");
  }
  return "";
}

// Packages set SOURCE_DATE_EPOCH, so that two builds give the same bytes.
std::string DateOfManPage() {
  int64_t epoch = 0;
  const char* const fixed = getenv("SOURCE_DATE_EPOCH");
  const bool given = fixed != nullptr && absl::SimpleAtoi(fixed, &epoch);
  return absl::FormatTime("%Y-%m-%d", given ? absl::FromUnixSeconds(epoch) : absl::Now(), absl::UTCTimeZone());
}

}  // namespace

std::vector<CommandRow> CommandTable() {
  CLI::App app("Record a process and all that it forks", "cowprof");
  Options options;
  AlertValues alerts;
  bool man = false;
  Declare(&app, &options, &alerts, &man);
  std::vector<CommandRow> table = {RowOf(app)};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) table.push_back(RowOf(*command));
  }
  AddProse(&table);
  return table;
}

ParsedOptions ParseOptions(int argc, const char* const* argv) {
  // Everything after the first "--" belongs to the program, including flags.
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const auto separator = std::find(words.begin(), words.end(), "--");
  const bool separated = separator != words.end();
  ParsedOptions parsed;
  Options& options = parsed.options;
  if (separated) options.program.assign(separator + 1, words.end());
  words.erase(separator, words.end());
  const std::string hint = MeantToAttach(words);
  std::reverse(words.begin(), words.end());  // CLI11 expects them reversed

  CLI::App app("", "cowprof");
  AlertValues alert_values;
  bool man = false;
  Declare(&app, &options, &alert_values, &man);
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return {.exit_now = true, .message = HelpText(CommandTable(), chosen.empty() ? "" : chosen[0]->get_name())};
  } catch (const CLI::CallForVersion&) {
    return {.exit_now = true, .message = "cowprof " COWPROF_VERSION "\n"};
  } catch (const CLI::ParseError& error) {
    return UsageError(absl::StrCat(absl::StrReplaceAll(error.what(), {{"\n", " "}}), hint));
  }
  if (man) return {.exit_now = true, .message = ManPage(CommandTable(), DateOfManPage())};
  if (!app.get_subcommands().empty()) options.command = app.get_subcommands()[0]->get_name();
  if (options.command == "watch") {
    WatchOptions& watch = options.watch;
    watch.recording = WordsForRecorders(*app.get_subcommands()[0]);
    watch.has_hook = !options.on_alert.empty();
    watch.metrics_file = options.metrics_file;
    watch.metrics_listen = options.metrics_listen;
  }
  options.expand_names = options.command == "record";
  if (std::string error = ParseAlertRatios(alert_values.ratios, &options.alerts); !error.empty())
    return UsageError(absl::StrCat("--alert-at: ", error));
  if (std::string error = ParseAlertEtas(alert_values.etas, &options.alerts); !error.empty())
    return UsageError(absl::StrCat("--alert-eta: ", error));
  if (std::string error = FinishCompareOptions(options.command, separated, options.program, &options.compare);
      !error.empty())
    return UsageError(error);
  if (std::string error = Contradiction(options, separated); !error.empty()) return UsageError(error);
  return parsed;
}

}  // namespace cowprof
