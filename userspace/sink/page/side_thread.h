// Work on a thread of its own, in the order in which it is given: a page's columns are written there while the samples
// that follow are judged.
#ifndef COWPROF_SINK_PAGE_SIDE_THREAD_H_
#define COWPROF_SINK_PAGE_SIDE_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace cowprof {

class SideThread {
 public:
  SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;
  ~SideThread();  // work that has not begun is left undone
  // Returns the number of this work. The queue is unbounded: callers wait for their earlier work. If no thread could be
  // started, does the work at once.
  uint64_t Run(std::function<void()> work);
  // Returns once this work is done. Throws what any work has thrown.
  void WaitFor(uint64_t number);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable given_, done_;
  std::deque<std::function<void()>> waiting_;
  uint64_t last_given_ = 0, last_done_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_SIDE_THREAD_H_
