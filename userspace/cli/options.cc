// Declares the command line for CLI11, and checks what CLI11 can't.
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/alert_options.h"
#include "cli/command_table.h"
#include "cli/flag_words.h"
#include "cli/manual.h"
#include "cli/recording_options.h"
#include "cli/watch_options.h"

namespace cowprof {
namespace {

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
  view->add_option(
          "-o,--output", options->output,
          "Where to write it; - for stdout (default: TIMELINE.html, A-vs-B.html, A-and-7-more.html or FOLDER.html)")
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
      app->add_subcommand("hang", "Show which processes of a tree wait for a lock that no living thread can release");
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
  app->set_help_flag("-h,--help", "Print this help; after a command, its own")->group(kOtherOptions);
  app->set_version_flag("--version", "cowprof " COWPROF_VERSION, "Print the version")->group(kOtherOptions);
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
  if (options.output == "-" && options.command != "view" && options.command != "export")
    return "--output - means stdout, which only view and export can write to; give a name";
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
  CLI::App app("", "cowprof");
  AlertValues alert_values;
  bool man = false;
  Declare(&app, &options, &alert_values, &man);
  if (std::string error = ArrangeFlags(app, &words); !error.empty()) return UsageError(error);
  std::reverse(words.begin(), words.end());  // CLI11 expects them reversed
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
