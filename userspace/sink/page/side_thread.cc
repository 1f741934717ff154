#include "sink/page/side_thread.h"

#include <system_error>
#include <utility>

namespace cowprof {

SideThread::SideThread() {
  try {
    thread_ = std::thread([this] { Loop(); });
  } catch (const std::system_error&) {
    // There are as many threads as there may be.
  }
}

SideThread::~SideThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  given_.notify_one();
  thread_.join();
}

uint64_t SideThread::Run(std::function<void()> work) {
  if (!thread_.joinable()) {
    work();
    return 0;
  }
  uint64_t number;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    number = ++last_given_;
  }
  given_.notify_one();
  return number;
}

void SideThread::WaitFor(uint64_t number) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return last_done_ >= number; });
  if (error_) std::rethrow_exception(error_);
}

void SideThread::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    given_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();  // no memory: the other thread says so
    }
    lock.lock();
    if (error) error_ = error;
    ++last_done_;
    done_.notify_all();
  }
}

}  // namespace cowprof
