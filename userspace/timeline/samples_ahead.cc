#include "timeline/samples_ahead.h"

#include <algorithm>
#include <system_error>

namespace cowprof {
namespace {

// Of a batch: enough that waking the other thread costs next to nothing. A batch that would keep more is hostile, or of
// a job that has become smaller.
constexpr size_t kMostMemory = 2 << 20, kMostKept = 8 << 20;

// About what a sample takes that `bytes` of lines changed. Processes and limits are kept from sample to sample; what
// else there is may be eight times as large as its text.
size_t MemoryOf(const Sample& sample, size_t bytes) {
  size_t memory = sizeof(sample) + sample.processes.size() * sizeof(ProcessSample) + 8 * bytes;
  for (const LimitSample& limit : sample.limits) memory += sizeof(limit) + limit.name.size();
  return memory;
}

}  // namespace

SamplesAhead::SamplesAhead(std::istream* in, bool ahead) : reader_(in) {
  if (!ahead) return;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // There are as many threads as there may be.
  }
}

SamplesAhead::~SamplesAhead() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SamplesAhead::Fill(Batch* batch) {
  size_t kept = 0, memory = 0;
  for (const Decoded& decoded : batch->samples) kept += decoded.most_memory;
  if (kept > kMostKept) batch->samples.clear();
  for (batch->count = 0; memory < kMostMemory; ++batch->count) {
    batch->last = !reader_.Next();
    if (batch->last) return;
    if (batch->samples.size() == batch->count) batch->samples.emplace_back();
    Decoded& decoded = batch->samples[batch->count];
    decoded.sample = reader_.sample();
    decoded.raised = reader_.raised();
    decoded.bytes = reader_.bytes();
    const size_t own = MemoryOf(decoded.sample, decoded.bytes);
    decoded.most_memory = std::max(decoded.most_memory, own);
    memory += own;
  }
}

void SamplesAhead::Run() {
  for (bool last = false; !last;) {
    Batch* batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || filled_batches_ - taken_batches_ < batches_.size() - 1; });
      if (stop_) return;
      batch = &batches_[filled_batches_ % batches_.size()];
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
      ++filled_batches_;
    }
    changed_.notify_all();
  }
}

// False: there are no more.
bool SamplesAhead::TakeBatch() {
  if (batch_ != nullptr && batch_->last) return false;
  next_ = 0;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return filled_batches_ > taken_batches_; });
    batch_ = &batches_[taken_batches_++ % batches_.size()];
  }
  changed_.notify_all();  // the one taken before is free
  if (batch_->error) std::rethrow_exception(batch_->error);
  return true;
}

bool SamplesAhead::Next() {
  if (!thread_.joinable()) return reader_.Next();
  while (batch_ == nullptr || next_ == batch_->count) {
    if (!TakeBatch()) return false;
  }
  taken_ = &batch_->samples[next_++];
  return true;
}

}  // namespace cowprof
