// Reads complete lines from where the last one ended.
#include "timeline/timeline_tail.h"

#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/strip.h"

namespace cowprof {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

}  // namespace

bool TimelineTail::Take(absl::string_view line) {
  if (!headed_) {
    const absl::StatusOr<RunInfo> info = DecodeHeader(line);
    if (!info.ok()) return false;
    readers_.on_info(*info);
    return headed_ = true;
  }
  const absl::string_view record = absl::StripPrefix(absl::StripSuffix(line, ","), ",");
  // The closing bytes; the next append overwrites them.
  if (record == "]}") return false;
  // write(2) is not atomic for readers: a line that does not parse is half old and half new.
  const absl::StatusOr<RecordDecoder::Result> result = decoder_.Decode(record);
  if (!result.ok()) return false;
  if (*result == RecordDecoder::Result::kSample) readers_.on_sample(decoder_.sample(), decoder_.raised());
  complete_ = *result == RecordDecoder::Result::kEnd;
  return true;
}

absl::Status TimelineTail::Read() {
  std::string lines;
  const std::unique_ptr<char[]> piece(new char[kPieceBytes]);
  off_t end = at_;
  for (;;) {
    const ssize_t bytes = pread(timeline_.fd(), piece.get(), kPieceBytes, end);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return absl::ErrnoToStatus(errno, "read the recording");
    if (bytes == 0) return absl::OkStatus();
    end += bytes;
    lines.append(piece.get(), bytes);
    size_t begin = 0;
    for (size_t stop; (stop = lines.find('\n', begin)) != std::string::npos; begin = stop + 1) {
      if (!Take(absl::string_view(lines).substr(begin, stop - begin))) return absl::OkStatus();
      at_ += stop + 1 - begin;
    }
    lines.erase(0, begin);
  }
}

}  // namespace cowprof
