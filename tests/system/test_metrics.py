"""`--metrics-file` and `--metrics-listen`: what is written and served, to whom, and that no disk, client or name harms the recording.

tests/fleet reads them with the real engines.
"""
import http.client
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import pytest

import harness
import memory_groups
import test_output_file
from conftest import needs
from test_output_file import SUDO, small_disk  # pylint: disable=unused-import
from test_serve import SANDBOX, status_of

CROWD = 10_000


def rows_of(text):
    """{series: value} of a text, whose every line must be well-formed."""
    rows = {}
    for line in text.splitlines():
        if line.startswith("# "):
            continue
        matched = re.fullmatch(r'(cowprof_\w+(?:\{(?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)+\})?) (\S+)', line)
        assert matched and matched[1] not in rows, line
        rows[matched[1]] = float(matched[2])
    return rows


def start(target, path, *options, **popen_options):
    return harness.Recording(path, ["--attach", target.pid, "--output", path, "--quiet", "--interval", "100ms", *options], **popen_options)


class Scraped:
    """A recording that serves metrics, and scrapes of it."""

    def __init__(self, target, path, address="127.0.0.1:0"):
        self.recording = start(target, path, "--metrics-listen", address)
        line = self.recording.popen.stderr.readline()
        self.line = line
        self.port = int(re.search(r"metrics at http://[^ ]+:(\d+)/metrics", line)[1])
        harness.wait_until(lambda: "\ncowprof_workers 2\n" in self.ask().content, "workers in the metrics")

    def ask(self, path="/metrics", method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.DEADLINE)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.content = answer.read().decode()
        connection.close()
        return answer

    def server(self):
        children = (harness.Path("/proc") / str(self.recording.pid) / "task" / str(self.recording.pid) / "children").read_text().split()
        return next(int(pid) for pid in children if harness.Path(f"/proc/{pid}/cmdline").read_bytes() == b"cowprof\0serve-page\0")


@pytest.fixture(scope="module")
def readers():
    process = harness.start_readers()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def scraped(readers, tmp_path_factory):
    one = Scraped(readers, tmp_path_factory.mktemp("scraped") / "recording.json")
    yield one
    one.recording.stop()


# ---- The file ----

def test_the_file_follows_the_recording(readers, tmp_path):
    path = tmp_path / "cowprof.prom"
    recording = start(readers, tmp_path / "recording.json", "--metrics-file", path)
    try:
        first = harness.wait_until(lambda: (rows := rows_of(path.read_text()) if path.exists() else {}).get("cowprof_workers") and rows, "workers")
        assert first["cowprof_recording"] == 1 and first["cowprof_workers"] == 2
        assert abs(first["cowprof_last_sample_timestamp_seconds"] - time.time()) < harness.DEADLINE
        copied = 'cowprof_copied_bytes_total{cause="refcount"}'
        harness.wait_until(lambda: rows_of(path.read_text())[copied] > first[copied], "copies")
        began = time.monotonic()
        recording.interrupt()
        assert time.monotonic() - began < 4 * harness.PATIENCE  # nothing waits for the writer in vain
    finally:
        recording.stop()
    last = rows_of(path.read_text())
    assert last["cowprof_recording"] == 0 and last['cowprof_worker_exits_total{cause="signal"}'] == 0
    assert path.stat().st_mode & 0o7777 == 0o644
    # The sum is that of the report on the same recording.
    report = recording.report()
    copied = sum(value for series, value in last.items() if series.startswith("cowprof_copied_bytes_total"))
    assert copied == sum(row["copied_bytes"] for row in report["workers"])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["cowprof.prom", "recording.json"]


def test_a_recorder_that_is_killed_leaves_its_last_timestamp(readers, tmp_path):
    path = tmp_path / "cowprof.prom"
    recording = start(readers, tmp_path / "recording.json", "--metrics-file", path)
    recording.await_sample()
    recording.stop()
    rows = rows_of(path.read_text())
    assert rows["cowprof_recording"] == 1 and rows["cowprof_last_sample_timestamp_seconds"] <= time.time()


def test_names_have_host_job_and_rank(start_workload, tmp_path):
    target = start_workload("fork_copies", "--pages=10", "--wait", env={**os.environ, "SLURM_PROCID": "2", "SLURM_NTASKS": "4",
                                                                       "SLURM_JOB_ID": "../../4711"})
    target.await_line("role", "ready")
    done = harness.run_cowprof("--attach", target.pid, "--duration", "200ms", "--quiet", "--output", tmp_path / "%h-%j-%r.json",
                               "--metrics-file", tmp_path / "100%%-%j-%r.prom")
    assert done.returncode == 0, done.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["100%-.._.._4711-2.prom", f"{os.uname().nodename}-.._.._4711-2.json"]
    assert rows_of((tmp_path / "100%-.._.._4711-2.prom").read_text())['cowprof_recording{job_id="../../4711",rank="2"}'] == 0


@pytest.mark.parametrize("label", ['a"b', "a\nb", "a\\", '"} 1\ncowprof_recording 7', "größe", b"\xff\xfe", "x" * 900],
                         ids=["quote", "newline", "backslash", "series", "wide", "bytes", "long"])
def test_no_name_breaks_the_format(start_workload, tmp_path, label):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    path = tmp_path / "cowprof.prom"
    done = subprocess.run([harness.COWPROF, "--attach", str(target.pid), "--duration", "200ms", "--quiet", "--output", tmp_path / "r.json",
                           "--metrics-file", path, b"--label=job_id=" + (label if isinstance(label, bytes) else label.encode())],
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    (series,) = [series for series in rows_of(path.read_text()) if series.startswith("cowprof_recording")]
    assert series.startswith('cowprof_recording{job_id="')


def test_the_file_under_sudo_belongs_to_the_invoking_user(start_workload, nobodys_folder):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    done = harness.run_cowprof("--attach", target.pid, "--duration", "1300ms", "--quiet", "--output", nobodys_folder / "r.json",
                               "--metrics-file", nobodys_folder / "cowprof.prom", env={**os.environ, **SUDO})
    assert (done.returncode, done.stderr) == (0, "")
    status = (nobodys_folder / "cowprof.prom").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (harness.NOBODY, harness.NOBODY, 0o644)


def test_root_writes_where_another_user_owns_the_folder(start_workload, nobodys_folder):
    """As node_exporter's folder does, which its package makes."""
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    done = harness.run_cowprof("--attach", target.pid, "--duration", "200ms", "--quiet", "--output", nobodys_folder / "r.json",
                               "--metrics-file", nobodys_folder / "cowprof.prom")
    assert (done.returncode, done.stderr) == (0, "")
    assert (nobodys_folder / "cowprof.prom").stat().st_uid == 0


def test_a_disk_that_is_full_is_said_once(readers, small_disk, tmp_path):
    path = small_disk / "cowprof.prom"
    recording = start(readers, tmp_path / "recording.json", "--metrics-file", path)
    try:
        recording.await_sample()
        test_output_file.fill(small_disk)
        seen = harness.end_of(recording.path)
        harness.wait_until(lambda: harness.end_of(recording.path) > seen + 3.5, "samples after the disk is full")
        recording.interrupt()
    finally:
        recording.stop()
    lines = recording.stderr.splitlines()
    assert len(lines) == 1 and "--metrics-file" in lines[0] and "space" in lines[0].lower() and "recording continues" in lines[0], lines
    assert rows_of(path.read_text())["cowprof_recording"] == 1  # the last that could be written
    assert sorted(entry.name for entry in small_disk.iterdir()) == ["cowprof.prom", "filler"]
    assert recording.report()["samples"] > 30


def test_a_folder_that_is_or_becomes_read_only(readers, small_disk, tmp_path):
    path = small_disk / "cowprof.prom"
    recording = start(readers, tmp_path / "recording.json", "--metrics-file", path)
    try:
        recording.await_sample()
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
        refused = harness.run_cowprof("--attach", readers.pid, "--duration", "100ms", "--quiet", "--output", tmp_path / "other.json",
                                      "--metrics-file", path)
        harness.wait_until(lambda: harness.end_of(recording.path) > 2.5, "samples")
        recording.interrupt()
    finally:
        recording.stop()
    assert refused.returncode == 6 and len(refused.stderr.splitlines()) == 1 and "Read-only" in refused.stderr, refused.stderr
    assert not (tmp_path / "other.json").exists()
    assert len(recording.stderr.splitlines()) == 1 and "Read-only" in recording.stderr, recording.stderr


def test_a_recording_that_never_began_does_not_record(readers, tmp_path):
    """Otherwise it would page as a recorder that was killed, until somebody removes the file."""
    path = tmp_path / "cowprof.prom"
    done = harness.run_cowprof("--attach", readers.pid, "--quiet", "--output", tmp_path / "none" / "r.json", "--metrics-file", path)
    assert done.returncode == 6 and not path.exists(), done.stderr
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = harness.run_cowprof("--quiet", "--output", tmp_path / "r.json", "--metrics-file", path, "--", script)
    assert done.returncode == 127 and not (tmp_path / "r.json").exists(), done.stderr
    assert rows_of(path.read_text())["cowprof_recording"] == 0


def test_the_writer_can_do_nothing_else(readers, tmp_path):
    recording = start(readers, tmp_path / "recording.json", "--metrics-file", tmp_path / "cowprof.prom")
    try:
        recording.await_sample()
        children = (harness.Path("/proc") / str(recording.pid) / "task" / str(recording.pid) / "children").read_text().split()
        # The other child, which judges start methods, keeps no capability of writing.
        writers = [status for status in map(status_of, children) if status["CapEff"] == f"{1 << 1:016x}"]  # CAP_DAC_OVERRIDE
        assert [(status["NoNewPrivs"], status["Seccomp"]) for status in writers] == [("1", "2")]
        (writer,) = [pid for pid in children if status_of(pid)["CapEff"] == f"{1 << 1:016x}"]
        held = {os.readlink(entry).split(":")[0] for entry in harness.Path(f"/proc/{writer}/fd").iterdir() if int(entry.name) > 2}
        assert held == {"socket"}
        recording.interrupt()
    finally:
        recording.stop()


GREEDY = """
import json, os, sys
print(json.dumps({"event": "ready"}), flush=True)
sys.stdin.readline()
pid = os.fork()
if pid == 0:
    kept = [bytearray(b"x" * (1 << 20)) for _ in range(400)]
    os._exit(0)
os.waitpid(pid, 0)
sys.stdin.read()
"""


def test_an_oom_kill_is_counted_by_its_cause(tmp_path):
    needs("memory-cgroup", memory_groups.memory_root(), "no memory cgroup that can be divided")
    path = tmp_path / "cowprof.prom"
    with memory_groups.MemoryGroup(150 * memory_groups.MB) as group:
        trainer = harness.Process([harness.PYTHON, "-c", GREEDY], preexec_fn=group.join)
        recording = None
        try:
            trainer.await_line("event", "ready")
            recording = start(trainer, tmp_path / "recording.json", "--metrics-file", path)
            recording.await_sample()
            trainer.go()
            rows = harness.wait_until(lambda: (found := rows_of(path.read_text()))["cowprof_oom_kills_total"] and found, "the kill")
            recording.interrupt()
        finally:
            if recording is not None:
                recording.stop()
            trainer.stop()
    assert rows["cowprof_oom_kills_total"] == 1
    assert {series: value for series, value in rows.items() if series.startswith("cowprof_worker_exits") and value} == {
        'cowprof_worker_exits_total{cause="oom-cgroup"}': 1}
    assert rows['cowprof_worker_peak_private_bytes_count'] == 1
    assert rows[f'cowprof_limit_bytes{{limit="{memory_groups.KIND}",level="0"}}'] == 150 * memory_groups.MB


# ---- The endpoint ----

def test_an_answer_has_the_format_and_its_type(scraped):
    answer = scraped.ask()
    assert answer.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    rows = rows_of(answer.content)
    assert rows["cowprof_recording"] == 1 and rows["cowprof_workers"] == 2 and rows["cowprof_self_resident_bytes"] > 1e6
    assert scraped.ask(method="HEAD").content == ""
    assert "every machine" not in scraped.line


def test_as_curl_and_a_browser_see_it(scraped):
    needs("package curl", shutil.which("curl"), "install curl")
    url = f"http://127.0.0.1:{scraped.port}/metrics"
    done = subprocess.run(["curl", "--silent", "--show-error", "--fail", "--compressed", "--include", url], capture_output=True, text=True, check=True)
    head, _, text = done.stdout.replace("\r\n", "\n").partition("\n\n")
    assert "content-type: text/plain; version=0.0.4; charset=utf-8" in head.lower() and rows_of(text)["cowprof_recording"] == 1
    refused = subprocess.run(["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", url.removesuffix("metrics")],
                             capture_output=True, text=True, check=True)
    assert refused.stdout == "404"
    # What Chromium sends when the address is typed in.
    answer = scraped.ask(**{"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Encoding": "gzip, deflate, br",
                            "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none", "Upgrade-Insecure-Requests": "1"})
    assert answer.status == 200 and answer.getheader("X-Content-Type-Options") == "nosniff", "the browser shows it as text, and runs nothing of it"
    assert rows_of(answer.content)["cowprof_recording"] == 1


def test_only_scrapers_are_answered(scraped):
    assert scraped.ask(Host=f"localhost:{scraped.port}").status == 200
    assert scraped.ask(Host="rebound.example").status == 403
    assert scraped.ask(Origin="http://evil.example").status == 403
    assert scraped.ask(Origin=f"http://127.0.0.1:{scraped.port}").status == 403
    for method in "POST", "PUT", "DELETE", "OPTIONS":
        assert scraped.ask(method=method).status == 405
    for path in "/", "/data", "/metrics/", "/../etc/passwd", "/?token=":
        assert scraped.ask(path).status == 404


def test_the_server_has_no_rights(scraped):
    status = status_of(scraped.server())
    assert {name: status[name] for name in SANDBOX} == SANDBOX
    assert status["Uid"].split()[0] != "0"


def test_on_other_addresses_any_name_is_answered(readers, tmp_path):
    one = Scraped(readers, tmp_path / "recording.json", "0.0.0.0:0")
    try:
        assert "every machine that reaches this address" in one.line
        assert one.ask(Host="node17.cluster.example:9464").status == 200
        assert one.ask(Origin="http://evil.example").status == 403
    finally:
        one.recording.stop()


def test_a_port_in_use_is_an_error_of_the_command_line(scraped, readers, tmp_path):
    done = harness.run_cowprof("--attach", readers.pid, "--output", tmp_path / "r.json", "--metrics-listen", scraped.port)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "metrics" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_page_and_metrics_from_one_process(readers, tmp_path):
    recording = start(readers, tmp_path / "recording.json", "--metrics-listen", "0", "--serve")
    try:
        page, metrics = recording.popen.stderr.readline(), recording.popen.stderr.readline()
        port = int(re.search(r"metrics at http://127.0.0.1:(\d+)/metrics", metrics)[1])
        url = re.search(r"127.0.0.1:(\d+)(/\?token=\w+)", page)
        connection = http.client.HTTPConnection("127.0.0.1", int(url[1]), timeout=harness.DEADLINE)
        connection.request("GET", url[2])
        assert connection.getresponse().status == 200
        connection = http.client.HTTPConnection("127.0.0.1", int(url[1]), timeout=harness.DEADLINE)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 403  # the page's port still wants its token
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.DEADLINE)
        connection.request("GET", url[2])
        assert connection.getresponse().status == 404
        recording.interrupt()
    finally:
        recording.stop()


def longest_gap(path, since):
    times = [record["t"] for record in harness.records_of(path) if record["type"] == "sample" and record["t"] >= since]
    return max(later - earlier for earlier, later in zip(times, times[1:]))


def test_slow_clients_hurt_nobody(scraped):
    """Those that never end their request, and those that never read the answer."""
    since = harness.end_of(scraped.recording.path)
    clients = []
    for number in range(200):
        client = socket.create_connection(("127.0.0.1", scraped.port), timeout=harness.DEADLINE)
        client.sendall(b"GET /metrics HT" if number % 2 else b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % scraped.port)
        clients.append(client)
    began = time.monotonic()
    assert scraped.ask().status == 200
    waited = time.monotonic() - began
    harness.wait_until(lambda: harness.end_of(scraped.recording.path) > since + 1.5, "samples")
    for client in clients:
        client.close()
    print(f"\nbeside 200 slow clients a scrape took {waited:.2f} s")
    assert waited < 5 * harness.PATIENCE
    assert longest_gap(scraped.recording.path, since) < 2 * harness.PATIENCE


def answer_in_a_crowd(scraped):
    """None: the server took the scrape for one of the crowd, and dropped it for newer ones."""
    try:
        return scraped.ask()
    except (http.client.RemoteDisconnected, ConnectionResetError):
        return None


def test_a_crowd_of_connections_hurts_nobody(scraped):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, CROWD + 1000), hard))
    since = harness.end_of(scraped.recording.path)
    clients, dropped, slowest = [], 0, 0
    began = time.monotonic()
    try:
        for number in range(CROWD):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", scraped.port))
            clients.append(client)
            if number % 2500 == 2499:
                asked = time.monotonic()
                while (answer := answer_in_a_crowd(scraped)) is None:
                    dropped += 1
                assert answer.status == 200
                slowest = max(slowest, time.monotonic() - asked)
    finally:
        took = time.monotonic() - began
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    harness.wait_until(lambda: harness.end_of(scraped.recording.path) > since + 1.5, "samples")
    peak = int(status_of(scraped.server())["VmHWM"].split()[0]) / 1024
    print(f"\n{CROWD} connections in {took:.1f} s: slowest scrape between them {slowest:.2f} s, {dropped} dropped, server at most {peak:.0f} MiB, "
          f"longest gap between samples {longest_gap(scraped.recording.path, since):.2f} s")
    assert peak < 64 and longest_gap(scraped.recording.path, since) < 2 * harness.PATIENCE
    harness.wait_until(lambda: answer_in_a_crowd(scraped), "an answer after the crowd")
    assert scraped.recording.popen.poll() is None and dropped < 100


def test_when_the_server_dies_the_recording_says_so_and_goes_on(readers, tmp_path):
    one = Scraped(readers, tmp_path / "recording.json")
    try:
        os.kill(one.server(), signal.SIGKILL)
        line = one.recording.popen.stderr.readline()
        assert "metrics are no longer served" in line and "recording continues" in line
        one.recording.interrupt()
    finally:
        one.recording.stop()
