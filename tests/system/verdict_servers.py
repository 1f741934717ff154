"""Real servers for verdict_cases.py: starts each in a folder of its own, with no port of the network, and drives it."""
import contextlib
import http.client
import os
import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path

import harness
import truth
from verdict_run import LOADING, WORKLOADS

WORKERS = 3
POSTGRES = Path("/usr/lib/postgresql")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=LOADING)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, target):
    """The answer of a server: the pid of its worker."""
    connection = UnixConnection(path)
    with contextlib.closing(connection):
        connection.request("GET", target)
        return int(connection.getresponse().read())


def ask_all(path, target, workers):
    """Asks until so many workers have answered; several at once, so that none serves all."""
    seen = set()

    def asked():
        with contextlib.suppress(OSError, http.client.HTTPException):
            seen.add(ask(path, target))
        return len(seen) >= workers

    harness.wait_until(asked, f"answers of {workers} workers", LOADING, pause=0)
    return seen


def environment(**values):
    return {**os.environ, "PYTHONPATH": str(WORKLOADS), **{name: str(value) for name, value in values.items()}}


def gunicorn(run, items):
    """Starts gunicorn with the application loaded before the fork. Returns (pid, ask)."""
    path = run.folder / "socket"
    pid = run.serve([harness.PYTHON, "/usr/bin/gunicorn", "--preload", f"--workers={WORKERS}", f"--bind=unix:{path}",
                     "verdict_app:app"], lambda: ask(path, "/"), env=environment(VERDICT_ITEMS=items))
    harness.wait_until(lambda: len(truth.children(pid)) >= WORKERS, "all workers of gunicorn")
    return pid, lambda target: ask_all(path, target, WORKERS)


def uwsgi(run, items):
    """Starts uWSGI with its master and the application loaded before the fork. Returns (pid, ask)."""
    path = run.folder / "socket"
    pid = run.serve(["/usr/bin/uwsgi", "--plugin", "python3", "--master", "--processes", WORKERS, "--http-socket", path,
                     "--module", "verdict_app:app", "--need-app", "--disable-logging"], lambda: ask(path, "/"),
                    env=environment(VERDICT_ITEMS=items))
    harness.wait_until(lambda: len(truth.children(pid)) >= WORKERS, "all workers of uWSGI")
    return pid, lambda target: ask_all(path, target, WORKERS)


def puma(run, items):
    path = run.folder / "socket"
    pid = run.serve(["/usr/bin/puma", "--workers", 2, "--threads", "1:1", "--preload", "--bind", f"unix://{path}",
                     WORKLOADS / "verdict_puma.ru"], lambda: ask(path, "/"), env=environment(VERDICT_ITEMS=items))
    return pid, lambda target: ask_all(path, target, 2)


def celery(run, items):
    """Celery with its prefork pool and messages in a folder. Returns (pid, work), where work(what) goes to every worker."""
    for name in "queue", "pids":
        (run.folder / name).mkdir()
    env = environment(VERDICT_ITEMS=items, VERDICT_FOLDER=run.folder, C_FORCE_ROOT=1)
    pid = run.serve([harness.PYTHON, "/usr/bin/celery", "--app=verdict_app:celery_app", "worker", f"--concurrency={WORKERS}",
                     "--pool=prefork", "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=INFO"],
                    lambda: "ready." in (run.folder / "server.log").read_text(), env=env)
    pids = run.folder / "pids"
    send = ("import sys, verdict_app\n"
            "for _ in range(12): verdict_app.celery_app.send_task('verdict.work', sys.argv[1:])")

    def work(what):
        for path in pids.iterdir():
            path.unlink()

        def worked():
            if not list((run.folder / "queue").iterdir()):
                subprocess.run([harness.PYTHON, "-c", send, what], env={**env, "VERDICT_ITEMS": "1"}, check=True,
                               cwd=run.folder, timeout=LOADING)
            return len(list(pids.iterdir())) >= WORKERS

        harness.wait_until(worked, "work by all workers of Celery", LOADING, pause=1)
        return {int(path.name) for path in pids.iterdir()}

    return pid, work


class Redis:
    """A redis-server in memory of its own, spoken to through its socket."""

    def __init__(self, run, values, size):
        self.folder, path = run.folder, run.folder / "socket"
        self.connection = socket.socket(socket.AF_UNIX)
        self.values = values

        def up():
            if self.connection.fileno() < 0 or not path.exists():
                return False
            self.connection.connect(str(path))
            return True

        self.pid = run.serve(["/usr/bin/redis-server", "--port", 0, "--unixsocket", path, "--dir", run.folder, "--save", "",
                              "--enable-debug-command", "yes", "--activedefrag", "no", "--hz", 1], up)
        run.stack.callback(self.connection.close)
        self.replies = self.connection.makefile("rb")
        value = b"x" * size
        self.send(*([b"SET", b"key:%d" % i, value] for i in range(values)))

    def send(self, *commands):
        """Sends commands, a thousand at a time; returns the last reply's first line."""
        reply = b""
        for begin in range(0, len(commands), 1000):
            part = commands[begin:begin + 1000]
            self.connection.sendall(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
                                             for words in part))
            for _ in part:
                reply = self.replies.readline().strip()
                if reply[:1] == b"$" and int(reply[1:]) >= 0:
                    reply = self.replies.read(int(reply[1:]) + 2)
                assert reply[:1] != b"-", reply
        return reply

    def saving(self):
        return b"rdb_bgsave_in_progress:1" in self.send([b"INFO", b"persistence"])

    def save_slowly(self):
        """Starts a BGSAVE that lasts some seconds."""
        self.send([b"CONFIG", b"SET", b"rdb-key-save-delay", b"%d" % (5_000_000 // self.values)])
        self.send([b"BGSAVE"])
        harness.wait_until(self.saving, "the child that saves")
        (child,) = truth.children(self.pid)
        return child

    def await_saved(self):
        harness.wait_until(lambda: not self.saving(), "the end of BGSAVE", LOADING, pause=0.1)


class Postgres:
    """A cluster in the run's folder, which its system user owns."""

    def __init__(self, run):
        self.folder = run.folder / "cluster"
        self.binaries = sorted(POSTGRES.glob("*/bin"))[-1]
        user = pwd.getpwnam("postgres")
        self.as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}
        for folder in (run.folder, *run.folder.parents):
            if folder.stat().st_uid == os.getuid() and folder != Path("/") and not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o011)
        self.folder.mkdir()
        shutil.chown(self.folder, user.pw_uid, user.pw_gid)
        subprocess.run([self.binaries / "initdb", "-N", "-A", "trust", "-D", self.folder], check=True, stdout=subprocess.DEVNULL,
                       timeout=LOADING, **self.as_user)
        # Its shared memory is not what is tried here.
        options = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "off", "shared_buffers": "16MB",
                   "jit": "off", "max_parallel_workers_per_gather": 0}
        run.stack.callback(self.stop)
        server = subprocess.Popen([self.binaries / "postgres", "-D", self.folder,
                                   *(word for name, value in options.items() for word in ("-c", f"{name}={value}"))],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.as_user)
        self.server, self.pid = server, server.pid
        harness.wait_until(lambda: self.query("SELECT 1", check=False).returncode == 0, "PostgreSQL to be up", LOADING, pause=0.2)

    def stop(self):
        self.server.terminate()
        self.server.wait(harness.DEADLINE)

    def command(self):
        return [str(self.binaries / "psql"), "-X", "-q", "-h", str(self.folder), "-U", "postgres", "-d", "postgres"]

    def query(self, *statements, check=True):
        words = [word for statement in statements for word in ("-c", statement)]
        return subprocess.run([*self.command(), *words], check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=LOADING, **self.as_user)

    def large_sort(self):
        """One backend sorts in memory, gives it back, and lives on. Returns its largest and last anonymous memory."""
        statements = ["SET work_mem = '600MB'",
                      "SELECT count(*) FROM (SELECT md5(g::text) AS a FROM generate_series(1, 1500000) g ORDER BY a OFFSET 1) s",
                      "SELECT pg_sleep(2)"]
        words = [word for statement in statements for word in ("-c", statement)]
        before = set(truth.children(self.pid))
        client = subprocess.Popen([*self.command(), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.as_user)
        (backend,) = harness.wait_until(lambda: set(truth.children(self.pid)) - before, "the backend")
        most = last = 0
        while client.poll() is None:
            with contextlib.suppress(OSError):
                last = truth.anonymous_bytes(backend)
                most = max(most, last)
            time.sleep(0.05)
        assert client.returncode == 0, client.returncode
        return most, last


