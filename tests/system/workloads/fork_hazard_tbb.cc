// A parent with oneTBB's workers, without Python: says and waits for what fork_hazard.py does. Its child runs a parallel loop, too:
// {"event": "through"} if it came through within 10 s.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

static void Loop() {
  std::atomic<long> sum{0};
  tbb::task_arena arena(4);
  arena.execute([&] {
    tbb::parallel_for(0, 2000, [&](int i) {
      volatile double x = i;
      for (int k = 0; k < 20000; ++k) x = x * 1.0000001;
      sum += static_cast<long>(x);
    });
  });
}

int main() {
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 4);
  Loop();
  std::puts("{\"event\": \"ready\", \"tid\": null}");
  std::fflush(stdout);
  std::getchar();
  int through[2];
  if (pipe(through) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    Loop();
    if (write(through[1], "t", 1) != 1) _exit(1);
    for (;;) pause();
  }
  pollfd end = {.fd = through[0], .events = POLLIN, .revents = 0};
  const bool came = poll(&end, 1, 10'000) == 1;
  std::printf("{\"event\": \"forked\", \"child\": %d, \"through\": %s}\n", child, came ? "true" : "false");
  std::fflush(stdout);
  std::getchar();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}
