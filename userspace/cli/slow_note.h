// "cowprof: reading process 4711 ... 3 s" on the terminal, while a command takes longer than two seconds. Prints
// nothing if stderr is not a terminal.
#ifndef COWPROF_CLI_SLOW_NOTE_H_
#define COWPROF_CLI_SLOW_NOTE_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cowprof {

class SlowNote {
 public:
  explicit SlowNote(std::string what);
  ~SlowNote();  // erases the line
  SlowNote(const SlowNote&) = delete;
  SlowNote& operator=(const SlowNote&) = delete;

 private:
  void Run();

  const std::string what_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace cowprof

#endif  // COWPROF_CLI_SLOW_NOTE_H_
