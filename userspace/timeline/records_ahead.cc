#include "timeline/records_ahead.h"

#include <system_error>

#include "absl/strings/strip.h"

namespace cowprof {
namespace {

constexpr size_t kMostRecords = 64, kMostBytesOfBatch = 64 << 10;
// Longer lines, and batches that would keep more memory, are rare or hostile: what a line is taken apart into may be
// eight times as large.
constexpr size_t kLongLine = 1 << 20, kMostKept = 1 << 20;

}  // namespace

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

RecordsAhead::RecordsAhead(std::istream* in, bool ahead) : in_(in) {
  if (!ahead) return;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // There are as many threads as there may be.
  }
}

RecordsAhead::~RecordsAhead() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool RecordsAhead::ReadInto(RawRecord* record) {
  if (!ReadLine(*in_, &record->line) && record->line.size() <= kMostBytesOfLine) return false;
  record->text = absl::StripPrefix(absl::StripSuffix(record->line, ","), ",");
  record->is_plain.reset();
  return true;
}

void RecordsAhead::Fill(Batch* batch) {
  size_t kept = 0, bytes = 0;
  for (const RawRecord& record : batch->records) kept += record.line.capacity();
  if (kept > kMostKept) batch->records.clear();
  for (batch->count = 0; batch->count < kMostRecords && bytes < kMostBytesOfBatch; ++batch->count) {
    if (batch->records.size() == batch->count) batch->records.emplace_back();
    RawRecord& record = batch->records[batch->count];
    batch->last = !ReadInto(&record);
    if (batch->last) return;
    if (record.line.size() <= kLongLine) record.is_plain = record.plain.Read(record.text);
    bytes += record.line.size();
  }
}

void RecordsAhead::Run() {
  for (bool last = false; !last;) {
    Batch* batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || filled_ - taken_ < batches_.size() - 1; });
      if (stop_) return;
      batch = &batches_[filled_ % batches_.size()];
    }
    try {
      Fill(batch);
    } catch (...) {
      batch->error = std::current_exception();  // no memory: the other thread says so
      batch->last = true;
    }
    last = batch->last;
    {
      const std::lock_guard lock(mutex_);
      ++filled_;
    }
    changed_.notify_all();
  }
}

// False: there are no more.
bool RecordsAhead::TakeBatch() {
  if (batch_ != nullptr && batch_->last) return false;
  next_ = 0;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return filled_ > taken_; });
    batch_ = &batches_[taken_++ % batches_.size()];
  }
  changed_.notify_all();  // the one taken before is free
  if (batch_->error) std::rethrow_exception(batch_->error);
  return true;
}

const RawRecord* RecordsAhead::Next() {
  if (!thread_.joinable()) return ReadInto(&own_) ? &own_ : nullptr;
  while (batch_ == nullptr || next_ == batch_->count) {
    if (!TakeBatch()) return nullptr;
  }
  return &batch_->records[next_++];
}

}  // namespace cowprof
