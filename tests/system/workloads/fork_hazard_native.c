/* A parent with OpenMP's team, without Python: says and waits for what fork_hazard.py does. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static double sum;

int main(void) {
  double all = 0;
#pragma omp parallel for reduction(+ : all) num_threads(4)
  for (int i = 0; i < 1000; ++i) all += i;
  sum += all;
  printf("{\"event\": \"ready\", \"tid\": null}\n");
  fflush(stdout);
  getchar();
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  printf("{\"event\": \"forked\", \"child\": %d}\n", child);
  fflush(stdout);
  getchar();
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return 0;
}
