// Appends by replacing the closing bytes in one write, and reads line by line, so that memory does not grow with the file.
#include "sink/timeline_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "sink/output_file.h"

namespace cowprof {
namespace {

constexpr absl::string_view kClosing = "\n]}\n";

}  // namespace

absl::StatusOr<std::unique_ptr<TimelineFile>> TimelineFile::Create(const std::string& path, const RunInfo& info) {
  absl::StatusOr<Fd> fd = CreateOutputFile(path);
  if (!fd.ok()) return fd.status();
  auto file = std::unique_ptr<TimelineFile>(new TimelineFile(path, *std::move(fd)));
  const std::string header = EncodeHeader(info);
  if (absl::Status status = WriteFully(file->fd_.fd(), absl::StrCat(header, kClosing), 0); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("write ", path, ": ", status.message()));
  }
  file->end_ = header.size();
  return file;
}

absl::Status TimelineFile::Append(const std::string& record) {
  const std::string bytes = absl::StrCat(empty_ ? "\n" : "\n,", record, kClosing);
  const absl::Status status = WriteFully(fd_.fd(), bytes, end_);
  if (status.ok()) {
    end_ += bytes.size() - kClosing.size();
    empty_ = failing_ = false;
    return status;
  }
  ++records_dropped_;
  // The old closing bytes have their place on disk already: writing them again needs no room.
  if (WriteFully(fd_.fd(), kClosing, end_).ok()) static_cast<void>(ftruncate(fd_.fd(), end_ + kClosing.size()));
  if (std::exchange(failing_, true)) return absl::OkStatus();
  return absl::Status(status.code(), absl::StrCat("write ", path_, ": ", status.message(),
                                                  "; recording goes on, samples are dropped until there is room"));
}

absl::Status TimelineFile::Write(const Sample& sample, const Growth&) {
  Sample counted = sample;
  counted.losses.records_dropped = records_dropped_;
  const uint64_t dropped_before = records_dropped_;
  absl::Status status = Append(encoder_.Encode(counted));
  if (records_dropped_ == dropped_before) encoder_.Commit();
  return status;
}

absl::Status TimelineFile::Finish(absl::Duration t, const std::string& reason, const Growth&) {
  failing_ = false;
  return Append(EncodeEnd(t, reason));
}

absl::StatusOr<TimelineContents> ReadTimeline(const std::string& path, const std::function<void(const RunInfo&)>& on_info,
                                              const std::function<void(const Sample&)>& on_sample) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) {
    return absl::InvalidArgumentError(absl::StrCat("read ", path, ": ", file.is_open() ? "it is empty" : strerror(errno)));
  }
  const auto at_path = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("read ", path, ": ", status.message()));
  };
  absl::StatusOr<RunInfo> info = DecodeHeader(line);
  if (!info.ok()) return at_path(info.status());
  on_info(*info);
  TimelineContents contents = {.info = *info};
  RecordDecoder decoder;
  while (std::getline(file, line)) {
    absl::string_view record = absl::StripPrefix(absl::StripSuffix(line, ","), ",");
    if (record.empty() || record == "]}") continue;
    absl::StatusOr<RecordDecoder::Result> result = decoder.Decode(record);
    if (!result.ok()) break;  // cut off here: what came before stands
    if (*result == RecordDecoder::Result::kSample) on_sample(decoder.sample());
    contents.complete = *result == RecordDecoder::Result::kEnd;
  }
  return contents;
}

absl::StatusOr<TimelineContents> ReadGrowth(const std::string& path, Growth* growth) {
  return ReadTimeline(
      path, [&](const RunInfo& info) { growth->info = info; }, [&](const Sample& sample) { Append(sample, growth); });
}

}  // namespace cowprof
