"""Forked children that hang, and some that only wait. Runs on CPython 3.6 and later, with nothing but the standard library.

fork_hangs.py KIND prints {"event": "forked", "child": PID}, and after the watchdog's time {"event": "judged", "child": PID, "hung": BOOL}:
the child writes a byte when it has come through. Then it waits for a line on stdin, kills the child and ends. The watchdog decides,
not cowprof.
"""
import io
import json
import os
import queue
import select
import signal
import sys
import tempfile
import threading
import time

WATCHDOG = 1.5  # seconds


def say(**fields):
    print(json.dumps(fields), flush=True)


def in_thread(name, body):
    thread = threading.Thread(target=body, name=name, daemon=True)
    thread.start()
    return thread


def held_while_forking(lock, name="stats-thread"):
    """A thread of the parent holds the lock for as long as the parent lives."""
    taken = threading.Event()

    def update_stats():
        with lock:
            taken.set()
            threading.Event().wait()
    in_thread(name, update_stats)
    taken.wait()


def take(lock):
    with lock:
        pass


# ---- Each prepares in the parent and gives back what the child does ----

def lock():
    held = threading.Lock()
    held_while_forking(held)
    return lambda: take(held)


def rlock():
    held = threading.RLock()
    held_while_forking(held)
    return lambda: take(held)


def condition():
    """The lock of a Condition, an RLock."""
    held = threading.Condition()
    held_while_forking(held)
    return lambda: take(held)


def notification():
    """The thread that would notify stayed in the parent."""
    done = threading.Event()
    in_thread("notifier", lambda: (time.sleep(2 * WATCHDOG + 3600), done.set()))
    return done.wait


def lock_of_condition():
    """The consumer's `with lock` stays on its stack while it waits in Condition.wait(), but another thread has the lock."""
    held, waiting = threading.Lock(), threading.Event()
    condition = threading.Condition(held)

    def consume():
        with held:
            waiting.set()
            condition.wait()
    in_thread("consumer", consume)
    waiting.wait()
    held_while_forking(condition)  # takes the lock once the consumer has given it back
    return lambda: take(held)


def loop_result():
    """The thread with the event loop stayed in the parent; the child makes the Future itself."""
    import asyncio
    loop = asyncio.new_event_loop()
    in_thread("loop-thread", loop.run_forever)
    while not loop.is_running():
        time.sleep(0.01)

    async def nothing():
        pass
    return lambda: asyncio.run_coroutine_threadsafe(nothing(), loop).result()


def executor_result():
    """The executor's idle thread stayed in the parent: the child starts none."""
    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(1)
    pool.submit(abs, 1).result()
    return lambda: pool.submit(abs, 2).result()


def import_lock():
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "slowmod.py"), "w") as file:
        file.write("import threading\nimport __main__\n__main__.IMPORTING.set()\nthreading.Event().wait()\n")
    sys.path.insert(0, folder)
    in_thread("lazy-importer", lambda: __import__("slowmod"))
    IMPORTING.wait()
    return lambda: __import__("slowmod")


IMPORTING = threading.Event()


def file_buffer():
    """A thread is in write(2) with the buffer's lock, since nobody reads the pipe."""
    _, writer = os.pipe()
    stream = io.open(writer, "wb", buffering=1 << 16)

    def log():
        while True:
            stream.write(b"x" * 1000)
    in_thread("logger", log)
    time.sleep(0.5)
    return lambda: stream.write(b"y")


def logging_handler():
    import logging
    handler = logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(handler)
    held_while_forking(handler.lock)
    return lambda: logging.getLogger().warning("in the child")


# ---- The parent has released it by the time at which the hang is found ----

HELD_AFTER_FORK = 1  # seconds


def released(lock, later=None):
    """A thread holds the lock at the fork and for a second after it; then it ends, and `later` may hold the lock, as another thread."""
    taken, forked = threading.Event(), threading.Event()
    os.register_at_fork(after_in_parent=forked.set)

    def held():
        taken.set()
        forked.wait()
        time.sleep(HELD_AFTER_FORK)

    def update_stats():
        with lock:
            held()

    def update_quietly():
        lock.acquire()
        held()
        lock.release()
    first = in_thread("stats-thread", update_stats if later != "unseen" else update_quietly)
    taken.wait()

    def follow():
        first.join()

        def take_later():
            with lock:
                threading.Event().wait()
        for number in range(3):  # one of them gets the ident of the thread that has ended
            in_thread(f"late-thread-{number}", take_later)
    if later:
        in_thread("starter", follow)
    return lambda: take(lock)


def released_lock():
    return released(threading.Lock())


def released_rlock():
    return released(threading.RLock())


def passed_on_lock():
    """By the time of the look another thread has it."""
    return released(threading.Lock(), later="with")


def passed_on_rlock():
    return released(threading.RLock(), later="with")


def unseen_lock():
    """Nothing shows who held it at the fork; another thread's `with` statement has it later."""
    return released(threading.Lock(), later="unseen")


def lock_beside_handler():
    """A handler of SIGTERM might release the lock, as far as can be seen from outside."""
    held = threading.Lock()
    held.acquire()

    def child():
        signal.signal(signal.SIGTERM, lambda *_: held.release())
        held.acquire()
    return child


def lock_beside_idle():
    """The child has a thread of its own that is idle in poll(2): nothing proves that it won't release the lock."""
    return beside_idle(threading.Lock())


def rlock_beside_idle():
    """Only its owner could release an RLock, and it does not exist."""
    return beside_idle(threading.RLock())


def beside_idle(held):
    held_while_forking(held)

    def child():
        in_thread("idle", lambda: select.select([], [], []))
        take(held)
    return child


def own_deadlock():
    """Two threads of the child, two RLocks, in opposite order: not by the fork."""
    def child():
        first, second = threading.RLock(), threading.RLock()
        barrier = threading.Barrier(2)

        def other():
            with second:
                barrier.wait()
                take(first)
        in_thread("other", other)
        with first:
            barrier.wait()
            take(second)
    return child


def own_lock_twice():
    def child():
        mine = threading.Lock()
        with mine:
            take(mine)
    return child


def ended_rlock():
    """A thread of the child has ended with it: not by the fork."""
    def child():
        mine = threading.RLock()
        in_thread("ended", mine.acquire).join()
        take(mine)
    return child


# ---- Waits that are none: the child would come through, or is meant to wait ----

def sleeps():
    return lambda: time.sleep(3600)


def reads_pipe():
    reader, _ = os.pipe()
    return lambda: os.read(reader, 1)


def polls():
    return lambda: select.select([], [], [])


def multiprocessing_queue():
    """A worker that waits for its next index."""
    import multiprocessing
    empty = multiprocessing.get_context("fork").Queue()
    return empty.get


def shared_semaphore():
    import multiprocessing
    semaphore = multiprocessing.get_context("fork").Semaphore(0)
    return semaphore.acquire


def timed_wait():
    return lambda: threading.Event().wait(3600)


def timed_lock():
    held = threading.Lock()
    held_while_forking(held)
    return lambda: held.acquire(timeout=3600)


def contention():
    """Threads that take turns with one lock."""
    def child():
        shared = threading.Lock()

        def turn():
            while True:
                with shared:
                    time.sleep(0.001)
        for _ in range(3):
            in_thread("turn", turn)
        turn()
    return child


def ping_pong():
    """Two threads that wake each other: at most instants both wait, never for good."""
    def child():
        here, there = threading.Semaphore(0), threading.Semaphore(0)

        def back():
            while True:
                here.acquire()
                there.release()
        in_thread("back", back)
        while True:
            here.release()
            there.acquire()
    return child


def stopped():
    return lambda: os.kill(os.getpid(), signal.SIGSTOP)


def idle_executor():
    """A pool of idle threads, and a main thread that waits for work on a pipe."""
    reader, _ = os.pipe()

    def child():
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(2)
        list(pool.map(abs, range(8)))
        os.read(reader, 1)
    return child


def slow_disk():
    """What a slow disk looks like: read(2) of something that does not come."""
    folder = tempfile.mkdtemp()
    os.mkfifo(os.path.join(folder, "fifo"))
    return lambda: open(os.path.join(folder, "fifo")).read()


def busy():
    def child():
        while True:
            pass
    return child


def waits_for_signal():
    """The usual way to serve until SIGTERM."""
    def child():
        end = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: end.set())
        end.wait()
    return child


def serves_until_killed():
    """An event that nobody sets, made by the child for itself: it waits until it is killed."""
    return lambda: threading.Event().wait()


def non_daemon():
    """The end of a program whose own thread serves until the process is killed."""
    def child():
        threading.Thread(target=threading.Event().wait).start()
        threading._shutdown()
    return child


def result_of_server():
    """The main thread waits for the result of a thread that serves until the process is killed."""
    def child():
        from concurrent.futures import ThreadPoolExecutor
        ThreadPoolExecutor(1).submit(threading.Event().wait).result()
    return child


def queue_fed_from_pipe():
    """The main thread waits on a queue without timeout; a thread that reads a pipe would fill it."""
    reader, _ = os.pipe()

    def child():
        items = queue.Queue()
        in_thread("feeder", lambda: items.put(os.read(reader, 1)))
        items.get()
    return child


def waits_for_grandchild():
    def child():
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            while os.getppid() == parent:  # it would outlive its parent, which the test kills
                time.sleep(0.5)
            os._exit(0)
        os.waitpid(pid, 0)
    return child


def run(kind):
    body = globals()[kind]()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        body()
        os.write(writer, b"t")
        os._exit(0)
    os.close(writer)
    say(event="forked", child=pid, parent=os.getpid())
    through, _, _ = select.select([reader], [], [], WATCHDOG)
    say(event="judged", child=pid, hung=not through)
    sys.stdin.readline()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os._exit(0)


if __name__ == "__main__":
    run(sys.argv[1])
