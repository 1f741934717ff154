// Reads complete lines from where the last sample ended. The writer takes back what it appended if the disk becomes
// full meanwhile: a sample counts once the closing bytes or the next record follow it.
#include "timeline/timeline_tail.h"

#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace cowprof {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

// Whether a line that these bytes follow was written to its end.
bool IsSettledBy(absl::string_view rest) { return !rest.empty() && (rest[0] != ']' || absl::StartsWith(rest, "]}\n")); }

}  // namespace

TimelineTail::Taken TimelineTail::Take(absl::string_view line) {
  if (!headed_) {
    const absl::StatusOr<RunInfo> info = DecodeHeader(line);
    if (!info.ok()) return Taken::kNothing;
    readers_.on_info(*info);
    headed_ = true;
    return Taken::kWhole;
  }
  const absl::string_view record = absl::StripPrefix(absl::StripSuffix(line, ","), ",");
  // The closing bytes; the next append overwrites them.
  if (record == "]}") return Taken::kNothing;
  // write(2) is not atomic for readers: a line that does not parse is half old and half new.
  const absl::StatusOr<RecordDecoder::Result> result = decoder_.Decode(record);
  if (!result.ok()) return Taken::kNothing;
  if (*result == RecordDecoder::Result::kSample) readers_.on_sample(decoder_.sample(), decoder_.raised());
  complete_ = *result == RecordDecoder::Result::kEnd;
  return *result == RecordDecoder::Result::kMore ? Taken::kPart : Taken::kWhole;
}

absl::Status TimelineTail::Read() {
  std::string lines;
  const std::unique_ptr<char[]> piece(new char[kPieceBytes]);
  decoder_.ForgetUnfinished();
  off_t line = at_, end = at_;
  for (;;) {
    const ssize_t bytes = pread(timeline_.fd(), piece.get(), kPieceBytes, end);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return absl::ErrnoToStatus(errno, "read the recording");
    if (bytes == 0) return absl::OkStatus();
    end += bytes;
    lines.append(piece.get(), bytes);
    size_t begin = 0;
    for (size_t stop; (stop = lines.find('\n', begin)) != std::string::npos; begin = stop + 1) {
      const absl::string_view text(lines);
      if (headed_ && !IsSettledBy(text.substr(stop + 1))) break;
      const Taken taken = Take(text.substr(begin, stop - begin));
      if (taken == Taken::kNothing) return absl::OkStatus();
      line += stop + 1 - begin;
      if (taken == Taken::kWhole) at_ = line;
    }
    lines.erase(0, begin);
  }
}

}  // namespace cowprof
