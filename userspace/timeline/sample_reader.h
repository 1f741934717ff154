// Reads the samples of a recording from the lines after its header. Stops where the file was cut off: what came before
// stands.
#ifndef COWPROF_TIMELINE_SAMPLE_READER_H_
#define COWPROF_TIMELINE_SAMPLE_READER_H_

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "timeline/json_timeline.h"

namespace cowprof {

// Of a line, and of a document that another program reformatted. A file that is not a recording may have no newline.
inline constexpr size_t kMostBytesOfLine = 64 << 20;

// Like std::getline(), but stops after kMostBytesOfLine: then it returns false, and `line` holds the beginning.
bool ReadLine(std::istream& in, std::string* line);

class SampleReader {
 public:
  explicit SampleReader(std::istream* in) : in_(in) {}  // which must outlive it
  // False: there are no more. Then status() and the others below hold for the whole recording.
  bool Next();
  const Sample& sample() const { return decoder_.sample(); }
  const std::vector<Alert>& raised() const { return decoder_.raised(); }  // on `sample()`
  size_t bytes() const { return bytes_; }                                 // of the lines that the last Next() read

  // FailedPrecondition: it is a recording, but can't be read as it is.
  const absl::Status& status() const { return status_; }
  bool complete() const { return complete_; }  // its end was read
  bool stopped_by_target() const { return decoder_.stopped_by_target(); }

 private:
  bool ReadNext();
  bool Fail(std::string problem);

  std::istream* in_;
  std::string line_;
  size_t bytes_ = 0;
  RecordDecoder decoder_;
  bool ended_ = false;  // there is nothing more to read, or nothing that could be read
  bool complete_ = false;
  absl::Status status_;
};

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_SAMPLE_READER_H_
