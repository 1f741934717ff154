#include "cli/manual.h"

#include <algorithm>
#include <utility>

namespace cowprof {
namespace {

const std::vector<CommandRow>& Prose() {
  static const auto& prose = *new std::vector<CommandRow>{
      {.name = "",
       .usage = {"cowprof --attach PID [OPTIONS]", "cowprof [OPTIONS] -- CMD ARGS...", "cowprof COMMAND [OPTIONS]"},
       .details =
           {"cowprof shows what copy-on-write costs a program that forks: how much inherited memory each worker "
            "copies, and why; how much more it can copy; how close each limit is.",
            "It reads the program from outside: nothing is restarted, imported or injected. Without root it "
            "records processes of the same user, with less detail; cowprof doctor says what is missing. Under sudo "
            "CMD runs as root."},
       .examples = {{"sudo $(command -v cowprof) --attach 4242 --live", "watch a trainer that runs"},
                    {R"(sudo env "PATH=$PATH" cowprof -- python3 train.py)", "record it from its first instruction"},
                    {"sudo $(command -v cowprof) --attach 4242 --metrics-listen 9464", "metrics for Prometheus"},
                    {"cowprof report cowprof-4242.json", "read the verdict again"},
                    {"cowprof view cowprof-4242.json", "make the page of it"}},
       .statuses = {kDone, kInternalFailure, kUsage, kGateHit, kNoProcess, kHostCannot, kCannotWrite}},
      {.name = "report",
       .usage = {"cowprof report TIMELINE... [--json]", "cowprof report FOLDER [--json]"},
       .details = {"Reads a recording, also one that still runs or was cut off, and prints what happened, what to do, "
                   "and the tables behind it. Of several recordings of one job it prints a row for each rank, who died "
                   "first and of what, what all have in common, and who is unlike the rest. Needs no privileges."},
       .examples = {{"cowprof report cowprof-4242.json", "the verdict in words"},
                    {"cowprof report cowprof-4242.json --json", "the same for programs"},
                    {"cowprof report rank-0.json rank-1.json", "the ranks of a job"}},
       .statuses = {kDone, kUsage, kCannotWrite}},
      {.name = "view",
       .usage = {"cowprof view TIMELINE [-o FILE.html]", "cowprof view BEFORE AFTER [-o FILE.html]",
                 "cowprof view TIMELINE... [--as job] [-o FILE.html]", "cowprof view FOLDER [-o FILE.html]"},
       .details =
           {"Reads recordings and writes one HTML page, which needs no network and no server. Prints the path of the "
            "page. Needs no privileges.",
            "Of two runs, the page shows both on the same axes. Of several recordings, or of a folder, it has a row "
            "for each rank or node of the job, who died first, and the memory of all on one clock. Two recordings "
            "are one job if they ran at the same time, have the same job id or none, and share no rank or, where ranks "
            "have no numbers, are of two hosts of a job that has an id. Otherwise they are compared. --as decides."},
       .examples = {{"cowprof view cowprof-4242.json", "writes cowprof-4242.html"},
                    {"cowprof view before.json after.json -o fix.html", "before and after a fix"},
                    {"cowprof view recordings/", "the ranks of a job: writes recordings.html"}},
       .statuses = {kDone, kUsage, kCannotWrite}},
      {.name = "diff",
       .usage = {"cowprof diff A B [--format FORMAT]", "cowprof diff [--format FORMAT] A1 A2 -- B1 B2"},
       .details =
           {"Says whether two recordings of one program can be compared, then whether the second is better, worse "
            "or the same, and which figures, lines and types have changed. Copies are counted exactly, so one "
            "recording a side is enough. What can't be compared gets no verdict, and status 2."},
       .examples = {{"cowprof diff before.json after.json", "did it help?"},
                    {"cowprof diff a1.json a2.json -- b1.json b2.json", "several recordings of each side"},
                    {"cowprof diff a.json b.json --format markdown", "a table for a pull request"}},
       .statuses = {kDone, kUsage, kCannotWrite}},
      {.name = "check",
       .usage = {"cowprof check TIMELINE [BOUNDS] [--budget FILE] [--format FORMAT]"},
       .details =
           {"Holds a recording against bounds: sizes with their unit (20MiB), or shares of a baseline recording "
            "(105%:base.json). Lists all that are broken, each with the line of the finding that explains it, if "
            "there is one. Without bounds it reads cowprof.budget.json. A bound that can't be decided is never kept: "
            "status 2."},
       .examples = {{"cowprof check run.json --max-copied 20MiB", "a gate for CI"},
                    {"cowprof check run.json --max-private 105%:base.json", "against a baseline"},
                    {"cowprof check run.json --no-diagnosis cow-refcount", "a finding that must not be there"}},
       .statuses = {kDone, kUsage, kGateHit, kCannotWrite}},
      {.name = "prove",
       .usage = {"cowprof prove --fix CMD -- CMD ARGS...", "cowprof prove --fix-env NAME=VALUE -- CMD ARGS..."},
       .details =
           {"Records a program before and after a fix, in turn and under the same conditions, and holds what was "
            "predicted against what was measured. Leaves the recordings, a page of both and a table for a pull "
            "request in a folder. Options of recording hold for both; those that are not listed below come before the "
            "command: cowprof --fail-on-alert prove --fix CMD -- CMD."},
       .examples = {{R"(sudo env "PATH=$PATH" cowprof prove --fix 'python3 new.py' -- python3 old.py)",
                     "the fix is another program"},
                    {R"(sudo env "PATH=$PATH" cowprof prove --fix-env ROWS=buffer -- python3 train.py)",
                     "the fix is an environment variable"}},
       .statuses = {kDone, kInternalFailure, kUsage, kGateHit, kNoProcess, kHostCannot, kCannotWrite}},
      {.name = "export",
       .usage = {"cowprof export pprof|perfetto|speedscope|folded|csv TIMELINE [-o FILE]"},
       .details =
           {"Writes a recording in the format of another tool, and prints the path of the file. The sums that the "
            "other tool shows are those of the report. Needs no privileges."},
       .examples = {{"cowprof export pprof cowprof-4242.json", "then: go tool pprof -list . cowprof-4242.pb.gz"},
                    {"cowprof export perfetto cowprof-4242.json", "for ui.perfetto.dev"},
                    {"cowprof export csv cowprof-4242.json -o -", "a table of all processes over time"}},
       .statuses = {kDone, kUsage, kCannotWrite}},
      {.name = "doctor",
       .usage = {"cowprof doctor [PID] [--workers N] [--json]"},
       .details =
           {"Shows each way to count copies, whether this host allows it, and what to do if not. With a PID also "
            "what can be read of that process, its limits, and what would go wrong if it forked now. Loads the "
            "probes to be sure, and removes them."},
       .examples = {{"sudo $(command -v cowprof) doctor", "what this host allows"},
                    {"sudo $(command -v cowprof) doctor 4242 --workers 8",
                     "the most that 8 workers can cost, before the fork"}},
       .statuses = {kDone, kUsage, kNoProcess, kHostCannot, kCannotWrite}},
      {.name = "shm",
       .usage = {"cowprof shm [PID] [--json]"},
       .details =
           {"Shows /dev/shm as a process sees it: its capacity, and every segment with its size, owner and kind, "
            "whether it is deleted, and whether anybody still uses it."},
       .examples = {{"cowprof shm", "/dev/shm of this shell"},
                    {"sudo $(command -v cowprof) shm 4242", "that of a trainer, in its container"}},
       .statuses = {kDone, kUsage, kNoProcess, kHostCannot, kCannotWrite}},
      {.name = "pickle",
       .usage = {"cowprof pickle PID [--object EXPR] [--no-time] [--json]"},
       .details = {"Reads the objects that a DataLoader or Process of that Python program would send to a worker, and "
                   "shows what the start methods spawn and forkserver would fail to pickle, with path, type and fix, "
                   "and how many bytes they would send each worker. Nothing is run in the program."},
       .examples = {{"sudo $(command -v cowprof) pickle 4242", "before changing the start method"},
                    {"sudo $(command -v cowprof) pickle 4242 --object __main__.dataset", "one object"}},
       .statuses = {kDone, kUsage, kNoProcess, kHostCannot, kCannotWrite}},
      {.name = "hang",
       .usage = {"cowprof hang PID [--json]"},
       .details =
           {"Looks at a process and all that it has forked, and shows which of them wait for a lock that no living "
            "thread can release, or for a thread that is gone; who holds it; and what to change."},
       .examples = {{"sudo $(command -v cowprof) hang 4242", "why the workers stand still"},
                    {"sudo $(command -v cowprof) hang 4242 --json", "the same for programs"}},
       .statuses = {kDone, kUsage, kNoProcess, kHostCannot, kCannotWrite}},
      {.name = "watch",
       .usage = {"cowprof watch [--match REGEX] [-d FOLDER] [--keep AGE,SIZE] [OPTIONS]"},
       .details =
           {"Runs until it is stopped, looks once a second for trainers, and starts a recorder for each: for a Python "
            "that has a rank in its environment, for one that keeps workers of a DataLoader or of a pool, and for what "
            "--match names. Recorders get the options of recording that are given here.",
            "Recordings that have ended are removed by --keep, and no other file. The metrics of all are one page or "
            "file, where each series has the label recorder. SIGTERM and Ctrl-C end all recorders, and so does the end "
            "of watch by any cause: each recording is whole."},
       .examples = {{"sudo $(command -v cowprof) watch -d recordings", "record what trains on this host"},
                    {"sudo $(command -v cowprof) watch --match '^gunicorn: master'",
                     "also a server that forks its workers"},
                    {"sudo $(command -v cowprof) watch -d rec --metrics-listen 9464", "with metrics for Prometheus"}},
       .statuses = {kDone, kInternalFailure, kUsage, kHostCannot, kCannotWrite}},
      {.name = "demo",
       .usage = {"cowprof demo [-o FILE.html] [--no-open]"},
       .details =
           {"Starts a small Python program with two forked workers and records it, prints the verdict and makes "
            "the page. Then it does the same with the program fixed, and compares. Needs python3 on the PATH and "
            "nothing else, and takes about 12 seconds. Without root it counts by the page map.",
            "The program and the recordings are in temporary folders; the page is in the current folder, or "
            "beside the recordings where that can't be written."},
       .examples = {{"sudo $(command -v cowprof) demo", "every copy counted"},
                    {"cowprof demo -o /tmp/page.html", "without root, with the page elsewhere"}},
       .statuses = {kDone, kInternalFailure, kUsage, kHostCannot, kCannotWrite}},
      {.name = "completions",
       .usage = {"cowprof completions bash|zsh|fish"},
       .details = {"Prints the completions of a shell, made from the options of this version."},
       .examples = {{"source <(cowprof completions bash)", "for this shell"},
                    {"cowprof completions fish > ~/.config/fish/completions/cowprof.fish", "for good"}},
       .statuses = {kDone, kUsage, kCannotWrite}},
  };
  return prose;
}

}  // namespace

void AddProse(std::vector<CommandRow>* table) {
  for (CommandRow& row : *table) {
    const auto of_row =
        std::find_if(Prose().begin(), Prose().end(), [&](const CommandRow& prose) { return prose.name == row.name; });
    if (of_row == Prose().end()) continue;
    row.usage = of_row->usage;
    row.details = of_row->details;
    row.examples = of_row->examples;
    row.statuses = of_row->statuses;
  }
}

std::string MeaningOf(ExitCode code, absl::string_view command) {
  switch (code) {
    case kDone:
      return "done";
    case kInternalFailure:
      return "internal failure";
    case kUsage:
      if (command == "check") return "a bound can't be decided, or wrong command line";
      if (command == "prove") return "no verdict, or wrong command line";
      if (command.empty()) return "wrong command line, no readable recording, or no verdict (check, diff, prove)";
      if (command == "diff") return "no verdict, wrong command line, or a file that is not a readable recording";
      if (command == "report" || command == "view" || command == "export")
        return "wrong command line, or a file that is not a readable recording";
      return "wrong command line";
    case kGateHit:
      if (command == "check") return "a bound is broken";
      if (command == "prove") return "there was an alert, and --fail-on-alert was given";
      return "a bound is broken, or there was an alert and --fail-on-alert was given";
    case kNoProcess:
      return "no such process, or no right to look at it";
    case kHostCannot:
      return "this host can do nothing for the request";
    case kCannotWrite:
      if (command == "check") return "a file can't be read, or is not a recording; or the output can't be written";
      if (command.empty()) return "the output can't be written, or what check needs can't be read";
      return "the output can't be written";
  }
  return "";
}

}  // namespace cowprof
