/* Forked children of native code that hang: fork_hangs_native mutex|rwlock|openmp|join|twice, and others:
 * free|served|shares|held.
 * Says what fork_hangs.py says; the watchdog decides. `served` has a team of its own that is idle, and waits until it is
 * killed. `shares` has the memory of its parent, which could release the mutex. `held` got the mutex by the fork and releases it. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t taken;
static double sum;

static void *hold(void *unused) {
  pthread_mutex_lock(&mutex);
  pthread_rwlock_wrlock(&rwlock);
  pthread_barrier_wait(&taken);
  for (;;) pause();
  return unused;
}

static void serve(void) {
  static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t end = PTHREAD_COND_INITIALIZER;
#pragma omp parallel num_threads(2)
  __asm__ volatile("" ::: "memory");
  pthread_mutex_lock(&own);
  for (;;) pthread_cond_wait(&end, &own);
}

static void *take(void *unused) {
  pthread_mutex_lock(&mutex);
  return unused;
}

static int take_in_shared_memory(void *unused) {
  take(unused);
  return 0;
}

static void region(void) {
  double all = 0;
#pragma omp parallel for reduction(+ : all) num_threads(4)
  for (int i = 0; i < 1000; ++i) all += i;
  sum += all;
}

static void in_child(const char *kind) {
  if (strcmp(kind, "openmp") == 0) return region();
  if (strcmp(kind, "served") == 0) return serve();
  if (strcmp(kind, "rwlock") == 0) {
    pthread_rwlock_rdlock(&rwlock);
    return;
  }
  if (strcmp(kind, "join") == 0 || strcmp(kind, "held") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, take, NULL);
    if (strcmp(kind, "held") == 0) {
      sleep(30);
      pthread_mutex_unlock(&mutex);
    }
    pthread_join(thread, NULL);
    return;
  }
  pthread_mutex_lock(&mutex);
  if (strcmp(kind, "twice") == 0) pthread_mutex_lock(&mutex);
}

int main(int argc, char **argv) {
  const char *kind = argc > 1 ? argv[1] : "";
  int through[2];
  if (pipe(through) != 0) return 1;
  pthread_barrier_init(&taken, NULL, 2);
  if (strcmp(kind, "openmp") == 0) {
    region();
  } else if (strcmp(kind, "held") == 0) {
    pthread_mutex_lock(&mutex);
  } else if (strcmp(kind, "twice") != 0 && strcmp(kind, "free") != 0 && strcmp(kind, "served") != 0) {
    pthread_t holder;
    pthread_create(&holder, NULL, hold, NULL);
    pthread_setname_np(holder, "cache-writer");
    pthread_barrier_wait(&taken);
  }
  static char stack[1 << 16] __attribute__((aligned(16)));
  const pid_t child = strcmp(kind, "shares") == 0
                          ? clone(take_in_shared_memory, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL)
                          : fork();
  if (child == 0) {
    in_child(kind);
    if (write(through[1], "t", 1) != 1) _exit(1);
    _exit(0);
  }
  printf("{\"event\": \"forked\", \"child\": %d, \"parent\": %d}\n", child, getpid());
  fflush(stdout);
  struct pollfd end = {.fd = through[0], .events = POLLIN};
  const int hung = poll(&end, 1, 1500) == 0;
  printf("{\"event\": \"judged\", \"child\": %d, \"hung\": %s}\n", child, hung ? "true" : "false");
  fflush(stdout);
  getchar();
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return 0;
}
