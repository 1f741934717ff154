// Appends by overwriting the closing bytes in one write; reads line by line, so that memory use is independent of the
// file's size.
#include "timeline/timeline_file.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "posix/invoking_user.h"
#include "timeline/json_fields.h"
#include "timeline/sample_reader.h"
#include "timeline/samples_ahead.h"

namespace cowprof {
namespace {

constexpr absl::string_view kClosing = "\n]}\n";
constexpr uintmax_t kWorthAThread = 4 << 20;  // bytes of a file; a pipe has none, and may never end

// At most a piece more than kMostBytesOfLine.
std::string ReadDocument(std::istream& in) {
  std::string text;
  char piece[16 << 10];
  while (text.size() <= kMostBytesOfLine && (in.read(piece, sizeof(piece)) || in.gcount() > 0))
    text.append(piece, in.gcount());
  return text;
}

// Rewrites the JSON text of a timeline so that the header and each record are on lines of their own.
absl::StatusOr<std::string> InOurLayout(absl::string_view document) {
  // Anywhere: the keys may have been sorted. Without it no tree is built.
  if (!absl::StrContains(document, "cowprof.timeline"))
    return absl::InvalidArgumentError("not a cowprof recording: it has no schema cowprof.timeline");
  if (document.size() > kMostBytesOfLine)
    return absl::FailedPreconditionError(absl::StrCat("another program reformatted it, and it has more than ",
                                                      kMostBytesOfLine >> 20,
                                                      " MiB; give the file as cowprof wrote it"));
  // dump() recurses once per level: a hostile file must not choose the depth.
  const auto shallow = [](int depth, nlohmann::ordered_json::parse_event_t, nlohmann::ordered_json&) {
    return depth < 16;
  };
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(document, shallow, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return absl::FailedPreconditionError("not a cowprof recording, or truncated in its first line");
  const auto dump = [&](const char* key, const char* otherwise) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return found == json.end() ? std::string(otherwise) : Dump(*found);
  };
  std::string text =
      absl::StrCat("{\"schema\":", dump("schema", "null"), ",\"header\":", dump("header", "{}"), ",\"records\":[");
  if (!json.is_object() || (json.contains("schema") && (!json.contains("records") || !json["records"].is_array()))) {
    return absl::InvalidArgumentError("not a cowprof recording: it has no records");
  }
  if (!json.contains("schema")) return absl::StrCat(text, kClosing);  // DecodeHeader() reports it
  for (const nlohmann::ordered_json& record : json["records"]) {
    absl::StrAppend(&text, "\n", Dump(record));
  }
  return absl::StrCat(text, kClosing);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TimelineFile>> TimelineFile::Create(const std::string& path, const RunInfo& info) {
  const std::string header = EncodeHeader(info);
  MovedFiles moved;
  absl::StatusOr<Fd> fd = CreateOutputFile(path, absl::StrCat(header, kClosing), &moved);
  if (!fd.ok()) return fd.status();
  auto file = std::unique_ptr<TimelineFile>(new TimelineFile(path, *std::move(fd)));
  file->end_ = header.size();
  file->moved_ = std::move(moved);
  return file;
}

absl::Status TimelineFile::Append(const std::string& record) {
  const std::string bytes = absl::StrCat(empty_ ? "\n" : "\n,", record, kClosing);
  absl::Status status = WriteFully(fd_.fd(), bytes, end_);
  failed_bytes_ = status.ok() ? 0 : bytes.size();
  if (status.ok()) {
    end_ += bytes.size() - kClosing.size();
    empty_ = false;
    return status;
  }
  // The blocks of the old closing bytes are allocated already: rewriting them needs no space.
  if (WriteFully(fd_.fd(), kClosing, end_).ok()) static_cast<void>(ftruncate(fd_.fd(), end_ + kClosing.size()));
  return status;
}

absl::Status TimelineFile::AppendUnwritten() {
  for (; !waiting_.empty(); waiting_.pop_front()) {
    if (absl::Status status = Append(waiting_.front()); !status.ok()) return status;
  }
  if (encoder_.unwritten().empty()) return absl::OkStatus();
  absl::Status status = Append(encoder_.Encode());
  if (status.ok()) encoder_.Commit();
  return status;
}

bool TimelineFile::IsStillFull() const {
  struct statvfs disk;
  if (failed_bytes_ == 0 || fstatvfs(fd_.fd(), &disk) != 0 || disk.f_blocks == 0) return false;  // it does not say
  const uint64_t free_blocks = geteuid() == 0 ? disk.f_bfree : disk.f_bavail;  // some are kept for root
  return free_blocks * disk.f_frsize < failed_bytes_;
}

absl::Status TimelineFile::Told(const absl::Status& failure) {
  // Report once, even if a smaller record fits between two that do not.
  if (std::exchange(told_, true)) return absl::OkStatus();
  return absl::Status(failure.code(), absl::StrCat("write ", path_, ": ", failure.message(),
                                                   "; recording continues, samples are dropped until there is space"));
}

absl::Status TimelineFile::Write(const Sample& sample, const std::vector<Alert>& raised) {
  Sample counted = sample;
  counted.losses.records_dropped = records_dropped_;
  encoder_.Add(counted, raised);
  if (absl::Status status = IsStillFull() ? absl::ErrnoToStatus(ENOSPC, "") : AppendUnwritten(); !status.ok()) {
    if (encoder_.unwritten().is_large()) {  // a record of its own, so it is not dropped
      waiting_.push_back(encoder_.Encode());
      encoder_.Commit();
    } else {
      ++records_dropped_;
    }
    return Told(status);
  }
  if (IsRemoved() && !std::exchange(told_removed_, true)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " was removed; recording continues. Until it ends, this saves the file",
                     privileged_ ? ", as root" : "", ": cp /proc/", getpid(), "/fd/", fd_.fd(), " ", path_));
  }
  return absl::OkStatus();
}

bool TimelineFile::IsRemoved() const {
  struct stat now;
  if (fstat(fd_.fd(), &now) != 0) return false;
  // NFS gives a file that is removed while it is open another name: .nfs and two numbers.
  std::error_code unknown;
  const std::string link = absl::StrCat("/proc/self/fd/", fd_.fd());
  const std::string name = std::filesystem::read_symlink(link, unknown).filename();
  const bool by_nfs = name.size() == 28 && absl::StartsWith(name, ".nfs") &&
                      name.find_first_not_of("0123456789abcdef", 4) == std::string::npos;
  return now.st_nlink == 0 || by_nfs;
}

absl::Status TimelineFile::Finish(absl::Duration t, const std::string& reason) {
  const bool last_dropped = !encoder_.unwritten().empty();
  absl::Status status = AppendUnwritten();  // there may be space again
  if (status.ok() && last_dropped) --records_dropped_;
  // Without its last sample the recording gets no end either: readers would take it for complete.
  if (status.ok()) status = Append(EncodeEnd(t, reason));
  if (!status.ok()) {
    records_dropped_ += waiting_.size() + 1;
    status = Told(status);
  } else if (const int error = ErrorAtClose(fd_.fd()); error != 0) {
    ++records_dropped_;
    status = absl::ErrnoToStatus(error, absl::StrCat("write ", path_));
    status = absl::Status(status.code(), absl::StrCat(status.message(), "; part of the recording may be lost"));
  }
  // A new one can't be created: that right has been given up (recorder/privileges.h).
  if (IsRemoved()) status.Update(absl::FailedPreconditionError(path_ + " was removed: the recording is lost"));
  return status;
}

absl::StatusOr<TimelineContents> ReadTimeline(const std::string& path, const TimelineReaders& readers,
                                              ReadingNote* note) {
  errno = 0;
  std::ifstream file;
  std::string line;
  const auto open = [&] {
    file.open(path);
    return file.is_open();
  };
  if (!AsEitherUser(open)) return absl::UnavailableError(absl::StrCat("read ", path, ": ", strerror(errno)));
  if (!ReadLine(file, &line) && line.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("read ", path, ": ", errno == EISDIR ? "it is a folder" : "it is empty"));
  }
  const auto at_path = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("read ", path, ": ", status.message()));
  };
  // cowprof puts the header on a line of its own; another program may have reformatted the document.
  std::stringstream relaid;
  std::istream* records = &file;
  if (!absl::EndsWith(line, "\"records\":[")) {
    if (absl::StartsWith(line, "\x1f\x8b"))
      return at_path(absl::InvalidArgumentError("it is packed with gzip; unpack it first"));
    file.clear();
    // A pipe can't be read again from its beginning.
    if (line.size() <= kMostBytesOfLine) absl::StrAppend(&line, "\n", ReadDocument(file));
    const absl::StatusOr<std::string> document = InOurLayout(line);
    if (!document.ok()) return at_path(document.status());
    relaid.str(*document);
    records = &relaid;
    ReadLine(relaid, &line);
  }
  absl::StatusOr<RunInfo> info = DecodeHeader(line);
  if (!info.ok()) return at_path(info.status());
  readers.on_info(*info);
  TimelineContents contents = {.info = *info};
  std::error_code unknown;
  const uintmax_t size = std::filesystem::file_size(path, unknown), file_bytes = unknown ? 0 : size;
  std::optional<ReadingNote> own;
  // Of several files, each is read by one thread.
  const bool ahead = note == nullptr && records == &file && file_bytes >= kWorthAThread;
  if (note == nullptr) note = &own.emplace(path, file_bytes);
  SamplesAhead samples(records, ahead);
  while (samples.Next()) {
    note->Advance(samples.bytes());
    readers.on_sample(samples.sample(), samples.raised());
  }
  const SampleReader& reader = samples.reader();
  if (!reader.status().ok()) return at_path(reader.status());
  contents.complete = reader.complete();
  contents.stopped_by_target = contents.complete && reader.stopped_by_target();
  return contents;
}

absl::StatusOr<TimelineContents> ReadRun(const std::string& path, Run* run) {
  return ReadTimeline(path,
                      {[&](const RunInfo& info) { run->model.info = info; },
                       [&](const Sample& sample, const std::vector<Alert>& raised) { Append(sample, raised, run); }});
}

}  // namespace cowprof
