#include "cli/fleet_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "posix/invoking_user.h"

namespace cowprof {
namespace {

constexpr size_t kMostThreads = 4;         // others work on this host, too
constexpr size_t kMostRowsOfRanks = 1024;  // each is a run of its own while it is read
constexpr size_t kMostOfMessage = 5000;    // a path has up to 4095 bytes

// All zero: not known.
struct stat StatOf(const std::string& path) {
  struct stat file = {};
  if (!AsEitherUser([&] { return stat(path.c_str(), &file) == 0; })) file = {};
  return file;
}

// 0: not known, as of a pipe.
uint64_t SizeOf(const std::string& path) {
  const struct stat file = StatOf(path);
  return S_ISREG(file.st_mode) ? file.st_size : 0;
}

// The rows of these ranks of one recording.
absl::StatusOr<std::vector<FleetRow>> ReadRanks(const std::string& path, const std::vector<RanksApart::Rank>& ranks,
                                                ReadingNote* note) {
  if (note != nullptr) note->Expect(SizeOf(path));
  std::vector<Run> runs(ranks.size());
  std::vector<MemoryCurve> memory(ranks.size());
  const bool target_trains = absl::c_any_of(ranks, [](const RanksApart::Rank& rank) { return rank.index == 0; });
  const absl::StatusOr<TimelineContents> contents =
      ReadTimeline(path,
                   {[&](const RunInfo& info) {
                      for (size_t i = 0; i < runs.size(); ++i) {
                        const bool target = ranks[i].index == 0;
                        runs[i].model = {.info = info,
                                         .is_part = true,
                                         .target_is_rank = target,
                                         .target_is_other_rank = target_trains && !target};
                      }
                    },
                    [&](const Sample& sample, const std::vector<Alert>& raised) {
                      for (size_t i = 0; i < runs.size(); ++i) {
                        const OtherRanks& others = ranks[i].others;
                        Append(Without(others, sample), Without(others, raised), &runs[i]);
                        memory[i].Add(runs[i].model);
                      }
                    }},
                   note);
  if (!contents.ok()) return contents.status();
  std::vector<FleetRow> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    rows.push_back(RowOf(path, runs[i], Judge(runs[i], Detail::kScreen), contents->complete));
    rows.back().memory = std::move(memory[i]);
  }
  return rows;
}

struct Operand {
  std::string path;
  bool from_folder = false;
};

// The files named `*.json` of each folder, in order of their names, and what was named itself. Adds to `problems` what
// folders can't be read.
std::vector<Operand> Operands(const std::vector<std::string>& paths, std::vector<std::string>* problems) {
  std::vector<Operand> operands;
  for (const std::string& path : paths) {
    if (!IsFolder(path)) {
      operands.push_back({path});
      continue;
    }
    std::error_code error;
    std::vector<std::string> files;
    const auto list = [&] {
      files.clear();
      for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
           entry.increment(error)) {
        if (entry->path().extension() == ".json") files.push_back(entry->path());
      }
      errno = error.value();
      return !error;
    };
    if (!AsEitherUser(list))
      problems->push_back(Printable(absl::StrCat("read the folder ", path, ": ", error.message()), kMostOfMessage));
    std::sort(files.begin(), files.end());
    for (std::string& file : files) operands.push_back({std::move(file), true});
  }
  return operands;
}

using Rows = absl::StatusOr<std::vector<FleetRow>>;

// Reading it may never end: a FIFO, a device. What is named may be one: a pipe of the shell.
bool IsSpecial(const std::string& path) {
  const mode_t mode = StatOf(path).st_mode;
  return mode != 0 && !S_ISREG(mode);
}

Rows RowsIn(const Operand& operand, ReadingNote* note) {
  if (operand.from_folder && IsSpecial(operand.path))
    return absl::InvalidArgumentError(absl::StrCat("read ", operand.path, ": it is not a regular file"));
  WholeRecording recording = {.note = note};
  if (absl::Status status = ReadRecording(operand.path, {}, &recording); !status.ok()) return status;
  return RowsOf(recording, Judge(recording.run, Detail::kScreen));
}

// In the order of the operands. A recording is read by one thread, and each thread holds one.
std::vector<Rows> RowsInAll(const std::vector<Operand>& operands, ReadingNote* note) {
  std::vector<Rows> rows(operands.size());
  std::atomic<size_t> next = 0;
  const auto read = [&] {
    for (size_t i = next++; i < operands.size(); i = next++) rows[i] = RowsIn(operands[i], note);
  };
  const size_t threads = std::min({operands.size(), kMostThreads, size_t{std::thread::hardware_concurrency()}});
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < threads) others.emplace_back(read);
    } catch (const std::system_error&) {
      // There are as many threads as there may be.
    }
    read();
  }  // joins them
  return rows;
}

}  // namespace

bool IsFolder(const std::string& path) { return S_ISDIR(StatOf(path).st_mode); }

absl::Status CheckIsNotRead(const std::string& output, const std::vector<std::string>& paths) {
  const struct stat there = StatOf(output);
  std::vector<std::string> unread;  // folders, of which reading says more
  for (const Operand& operand : Operands(paths, &unread)) {
    const struct stat one = StatOf(operand.path);
    if (there.st_mode != 0 && one.st_mode != 0 && there.st_dev == one.st_dev && there.st_ino == one.st_ino)
      return absl::InvalidArgumentError(
          absl::StrCat("create ", output, ": it is a recording that is read; choose another name with --output"));
  }
  return absl::OkStatus();
}

absl::Status ReadRecording(const std::string& path, const OnSample& on_sample, WholeRecording* recording) {
  recording->path = path;
  Run* run = &recording->run;
  const absl::StatusOr<TimelineContents> contents =
      ReadTimeline(path,
                   {[&](const RunInfo& info) { run->model.info = info; },
                    [&](const Sample& sample, const std::vector<Alert>& raised) {
                      recording->apart.Add(sample);
                      Append(sample, raised, run);
                      recording->memory.Add(run->model);
                      if (on_sample) on_sample(sample, raised, *run);
                    }},
                   recording->note);
  if (!contents.ok()) return contents.status();
  recording->complete = contents->complete;
  recording->stopped_by_target = contents->stopped_by_target;
  const size_t ranks = HasRanks(run->model) ? recording->apart.Of(run->model).size() : 0;
  if (ranks > kMostRowsOfRanks && recording->note == nullptr) {
    std::fprintf(stderr, "cowprof: %s has %s, which are reported together: at most %s get a row each\n",
                 Printable(path, 300).c_str(), Plural(ranks, "rank").c_str(), HumanCount(kMostRowsOfRanks).c_str());
  }
  return absl::OkStatus();
}

bool TellsRanksApart(const WholeRecording& recording) {
  const RunModel& model = recording.run.model;
  return HasRanks(model) && recording.apart.Of(model).size() <= kMostRowsOfRanks;
}

absl::StatusOr<std::vector<FleetRow>> RowsOf(const WholeRecording& recording, const Findings& findings) {
  std::vector<RanksApart::Rank> ranks = recording.apart.Of(recording.run.model);
  if (ranks.size() > kMostRowsOfRanks) ranks.clear();
  if (!ranks.empty() && !S_ISREG(StatOf(recording.path).st_mode))
    return absl::InvalidArgumentError(
        absl::StrCat("read ", recording.path, ": a recording with ranks is read twice; give a file instead of a pipe"));
  if (!ranks.empty()) return ReadRanks(recording.path, ranks, recording.note);
  std::vector<FleetRow> rows = {RowOf(recording.path, recording.run, findings, recording.complete)};
  rows[0].memory = recording.memory;
  return rows;
}

absl::StatusOr<FleetFiles> ReadFleet(const std::vector<std::string>& paths) {
  FleetFiles files;
  std::vector<FleetRow> rows;
  std::vector<std::string> problems, notes;
  size_t skipped = 0;
  const std::vector<Operand> operands = Operands(paths, &problems);
  uint64_t bytes = 0;
  for (const Operand& operand : operands) bytes += SizeOf(operand.path);
  ReadingNote note(absl::StrCat(operands.size(), " files"), bytes);
  std::vector<Rows> found = RowsInAll(operands, &note);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (found[i].ok()) {
      std::move(found[i]->begin(), found[i]->end(), std::back_inserter(rows));
    } else if (operands[i].from_folder && absl::IsInvalidArgument(found[i].status())) {
      ++skipped;  // a folder may have other files; what was named must be a recording
    } else {
      problems.push_back(Printable(std::string(found[i].status().message()), kMostOfMessage));
    }
  }
  files.problem = absl::StrJoin(problems, "; ");
  for (const std::string& problem : problems) notes.push_back(absl::StrCat("Left out: ", Printable(problem, 300)));
  if (rows.empty()) {
    return absl::InvalidArgumentError(!files.problem.empty()
                                          ? files.problem
                                          : absl::StrCat("no recording in ", paths.front(),
                                                         ": give a folder with recordings (*.json), or their names"));
  }
  if (skipped > 0)
    notes.push_back(skipped == 1 ? "1 file of the folder was left out: not a recording."
                                 : absl::StrCat(skipped, " files of the folder were left out: not recordings."));
  files.fleet = FleetOf(std::move(rows));
  std::move(notes.begin(), notes.end(), std::back_inserter(files.fleet.notes));
  return files;
}

}  // namespace cowprof
