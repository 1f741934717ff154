#include "timeline/sample_reader.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace cowprof {

bool ReadLine(std::istream& in, std::string* line) {
  char piece[16 << 10];
  line->clear();
  for (;;) {
    in.getline(piece, sizeof(piece));
    const bool full = in.fail() && !in.eof() && !in.bad() && in.gcount() == sizeof(piece) - 1;
    if (in.fail() && !full) return !line->empty();
    const bool newline = !full && !in.eof();  // counted, but not stored
    line->append(piece, in.gcount() - newline);
    if (!full) return true;
    if (line->size() > kMostBytesOfLine) return false;
    in.clear();
  }
}

bool SampleReader::Fail(std::string problem) {
  status_ = absl::FailedPreconditionError(std::move(problem));
  return false;
}

bool SampleReader::Next() {
  ended_ = ended_ || !ReadNext();
  return !ended_;
}

bool SampleReader::ReadNext() {
  for (bytes_ = 0; ReadLine(*in_, &line_) || line_.size() > kMostBytesOfLine;) {
    bytes_ += line_.size() + 1;
    if (line_.size() > kMostBytesOfLine) {
      const std::string before = absl::FormatDuration(absl::Floor(sample().t, absl::Seconds(1)));
      return Fail(absl::StrCat("the record after ", before, " has more than ", kMostBytesOfLine >> 20, " MiB"));
    }
    const absl::string_view record = absl::StripPrefix(absl::StripSuffix(line_, ","), ",");
    if (absl::StartsWith("]}", record)) continue;  // nothing, or the closing, which may be cut off too
    if (complete_ || absl::StartsWith(record, "{\"schema\":"))
      return Fail("more follows after its end, as if recordings were put together; give each as a file of its own");
    const absl::StatusOr<RecordDecoder::Result> result = decoder_.Decode(record);
    if (!result.ok()) return false;
    complete_ = *result == RecordDecoder::Result::kEnd;
    if (*result == RecordDecoder::Result::kSample) return true;
  }
  return false;
}

}  // namespace cowprof
