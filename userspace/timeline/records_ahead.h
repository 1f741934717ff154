// Reads the records of a recording and takes their rows apart, on a thread of its own while others are decoded and
// judged: a third of a report is that.
#ifndef COWPROF_TIMELINE_RECORDS_AHEAD_H_
#define COWPROF_TIMELINE_RECORDS_AHEAD_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <istream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "timeline/plain_record.h"

namespace cowprof {

// Of a line, and of a document that another program reformatted. A file that is not a recording may have no newline.
inline constexpr size_t kMostBytesOfLine = 64 << 20;

// Like std::getline(), but stops after kMostBytesOfLine: then it returns false, and `line` holds the beginning.
bool ReadLine(std::istream& in, std::string* line);

struct RawRecord {
  std::string line;
  absl::string_view text;        // of the record: the line without commas around it
  std::optional<bool> is_plain;  // whether `plain` has it; absent: that was not tried
  PlainRecord plain;
};

class RecordsAhead {
 public:
  // `in` must outlive it. `ahead`: on a thread, if there may be one; reading must not block for long then, since the
  // destructor waits for it.
  RecordsAhead(std::istream* in, bool ahead);
  RecordsAhead(const RecordsAhead&) = delete;
  RecordsAhead& operator=(const RecordsAhead&) = delete;
  ~RecordsAhead();
  // Valid until the next call. nullptr: there are no more. After a line of more than kMostBytesOfLine, of which it
  // gives the beginning, there are none.
  const RawRecord* Next();

 private:
  // In order of lines; the first `count` are filled.
  struct Batch {
    std::deque<RawRecord> records;
    size_t count = 0;
    bool last = false;
    std::exception_ptr error;  // that ended it
  };
  bool ReadInto(RawRecord* record);
  void Fill(Batch* batch);
  void Run();
  bool TakeBatch();

  std::istream* in_;
  RawRecord own_;           // without a thread
  Batch* batch_ = nullptr;  // that Next() gives from
  size_t next_ = 0;

  std::array<Batch, 3> batches_;  // filled and taken in turns
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t filled_ = 0, taken_ = 0;  // batches so far; the last one taken is in use
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_RECORDS_AHEAD_H_
