// Reads and decodes the samples of a recording on a thread of its own, while those before them are judged: half of a
// report is that.
#ifndef COWPROF_TIMELINE_SAMPLES_AHEAD_H_
#define COWPROF_TIMELINE_SAMPLES_AHEAD_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <istream>
#include <mutex>
#include <thread>
#include <vector>

#include "timeline/sample_reader.h"

namespace cowprof {

class SamplesAhead {
 public:
  // `in` must outlive it. `ahead`: on a thread, if there may be one; reading must not block for long then, since the
  // destructor waits for it.
  SamplesAhead(std::istream* in, bool ahead);
  SamplesAhead(const SamplesAhead&) = delete;
  SamplesAhead& operator=(const SamplesAhead&) = delete;
  ~SamplesAhead();
  // False: there are no more.
  bool Next();
  // Valid until the next call.
  const Sample& sample() const { return taken_ == nullptr ? reader_.sample() : taken_->sample; }
  const std::vector<Alert>& raised() const { return taken_ == nullptr ? reader_.raised() : taken_->raised; }
  size_t bytes() const { return taken_ == nullptr ? reader_.bytes() : taken_->bytes; }  // of its lines
  const SampleReader& reader() const { return reader_; }                                // once Next() returned false

 private:
  struct Decoded {
    Sample sample;
    std::vector<Alert> raised;
    size_t bytes = 0;
    size_t most_memory = 0;  // that it has held, about
  };
  // In order of the file; the first `count` are filled.
  struct Batch {
    std::deque<Decoded> samples;
    size_t count = 0;
    bool last = false;
    std::exception_ptr error;  // that ended it
  };
  void Fill(Batch* batch);
  void Run();
  bool TakeBatch();

  SampleReader reader_;
  Batch* batch_ = nullptr;  // that Next() gives from
  size_t next_ = 0;
  const Decoded* taken_ = nullptr;  // without a thread: nullptr

  std::array<Batch, 3> batches_;  // filled and taken in turns
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t filled_batches_ = 0, taken_batches_ = 0;  // so far; the last one taken is in use
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_SAMPLES_AHEAD_H_
