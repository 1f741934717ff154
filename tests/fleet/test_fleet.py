"""A real DataLoader is recorded, and the engines that people already run watch it: metrics by file and by endpoint, the rules, the
dashboard, and the message that arrives.

The fixtures and the account of skips are those of tests/system: PYTHONPATH=tests/system pytest -p conftest tests/fleet
"""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import engines
import harness
import memory_groups
from conftest import needs

LOADER = harness.REPOSITORY / "tests" / "system" / "workloads" / "planted_dataloader.py"
RULES = engines.SHARE / "prometheus"
# What a healthy run need not have: no limit is ahead, the plateau can't be told yet, the numbers of the batches were not read.
MAY_BE_EMPTY = ("cowprof_limit_eta_seconds", "cowprof_forecast_plateau_bytes", "cowprof_worker_batches_total")


@pytest.fixture(scope="module", autouse=True)
def installed():
    program = engines.missing()
    needs(f"package {program}", program is None, "scripts/install-deps.sh tests installs it")


class Job:
    """A DataLoader with two workers and its recording, with metrics by file and by endpoint."""

    def __init__(self, folder, textfiles, port):
        environment = {**os.environ, "RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "nightly"}
        self.trainer = harness.Process([harness.PYTHON, LOADER, "--items", 60_000, "--epochs", 1000, "--epoch-seconds", 4, "--persistent"],
                                       env=environment, stderr=subprocess.DEVNULL)
        self.trainer.await_line("event", "ready", 3 * harness.DEADLINE)
        self.pattern = textfiles / "cowprof-%j-%r.prom"
        self.file = textfiles / "cowprof-nightly-3.prom"
        self.recording = harness.Recording(folder / "recording.json", [
            "--attach", self.trainer.pid, "--output", folder / "recording.json", "--quiet", "--metrics-file", self.pattern,
            "--metrics-listen", port])
        self.recording.await_sample()
        self.trainer.go()

    def stop(self):
        self.recording.stop()
        self.trainer.stop()


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """(fleet, job), once both ways have brought what both workers copied."""
    folder = tmp_path_factory.mktemp("fleet")
    port = engines.free_port()
    began = time.monotonic()
    fleet = engines.Fleet(folder, [f"127.0.0.1:{port}"])
    ready = time.monotonic()
    job = None
    try:
        job = Job(folder, fleet.textfiles, port)
        fleet.await_rows('cowprof_worker_copied_bytes_total > 0', count=4)  # two workers, twice
        print(f"\nengines ready in {ready - began:.1f} s; recorded and scraped both ways after {time.monotonic() - ready:.1f} s more")
        yield fleet, job
    finally:
        if job is not None:
            job.stop()
        fleet.stop()


def test_file_and_endpoint_say_the_same(watched):
    fleet, job = watched
    rows = fleet.query('cowprof_worker_private_bytes')
    assert {(labels["job"], labels["job_id"], labels["rank"], labels["worker"]) for labels, _ in rows} == {
        (way, "nightly", "3", worker) for way in ("node", "cowprof") for worker in "01"}
    assert all(value > 0 for _, value in rows)
    names = {way: {labels["__name__"] for labels, _ in fleet.query(f'{{__name__=~"cowprof_.*", job="{way}"}}')} for way in ("node", "cowprof")}
    # One way may have a sample less.
    assert not [name for name in names["node"] ^ names["cowprof"] if name not in MAY_BE_EMPTY]
    (_, held), = fleet.query('node_textfile_scrape_error')
    assert held == 0
    assert job.file.stat().st_mode & 0o777 == 0o644
    series = len(fleet.query('{__name__=~"cowprof_.*", job="cowprof"}'))
    print(f"\n{series} series of a recording with 2 workers")


def expressions(dashboard):
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$job_id", ".*").replace("$__rate_interval", "10s")


def test_every_expression_of_the_dashboard_runs(watched):
    fleet, _ = watched
    dashboard = json.loads((engines.SHARE / "grafana" / "cowprof.json").read_text())
    for _, expression in expressions(dashboard):
        if not any(name in expression for name in MAY_BE_EMPTY):
            fleet.await_rows(expression)
    # An expression that may be empty, and is for a mistyped name, would pass above.
    used = {name for _, expression in expressions(dashboard) for name in re.findall(r"cowprof_\w+", expression)}
    told = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    documented = (harness.REPOSITORY / "docs" / "fleet.md").read_text()
    assert all(f"`{name}`" in documented for name in told), [name for name in told if f"`{name}`" not in documented]


def test_promtool_finds_nothing_wrong_with_the_text(watched):
    _, job = watched
    checked = subprocess.run(["promtool", "check", "metrics"], input=job.file.read_text(), capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_a_dead_worker_is_on_the_pager(watched):
    """The last test of the module: it ends the job."""
    fleet, job = watched
    report = harness.report_of(job.recording.path)
    victim = next(row["pid"] for row in report["workers"] if row["role"] == "worker")
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    harness.wait_until(lambda: fleet.webhook.firing("CowprofWorkerDied"), "the webhook", pause=0.02)
    when, alert = fleet.webhook.firing("CowprofWorkerDied")[0]
    print(f"\nfrom the kill to the webhook: {when - killed:.1f} s; peak memory in MB: {fleet.memory()}, together {sum(fleet.memory().values()):.0f}")
    labels = alert["labels"]
    assert (labels["cause"], labels["job_id"], labels["rank"], labels["severity"]) == ("signal", "nightly", "3", "page")
    assert alert["annotations"]["summary"].startswith("job nightly: a worker of rank 3 on 127.0.0.1:")
    # PyTorch ends the trainer, and the recording ends with it.
    assert job.recording.wait() == 0, job.recording.stderr
    assert re.search(r"^cowprof_recording\{.*\} 0$", job.file.read_text(), re.MULTILINE)
    fleet.await_rows('cowprof_recording{job="node"} == 0')
    # What the file says at the end is what the report says.
    report = job.recording.report()
    copied = sum(row["copied_bytes"] for row in report["workers"] if row["role"] == "worker")
    said = [float(line.split()[-1]) for line in job.file.read_text().splitlines() if line.startswith("cowprof_copied_bytes_total")]
    assert sum(said) == copied > 0


LEAK = """
import json, os, sys, time
data = [str(i) for i in range(50_000)]
for _ in range(2):
    if os.fork() == 0:
        kept, parent = [], os.getppid()
        while os.getppid() == parent:
            kept.append(bytearray(os.urandom(1 << 18)))
            time.sleep(0.1)
        os._exit(0)
print(json.dumps({"event": "ready"}), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_leak_pages_before_the_limit(tmp_path):
    """As shipped: half an hour ahead, for a minute. 5 MB/s of 1 GB leave some 3 minutes."""
    needs("memory-cgroup", memory_groups.memory_root(), "no memory cgroup that can be divided")
    port = engines.free_port()
    fleet = engines.Fleet(tmp_path, [f"127.0.0.1:{port}"])
    try:
        with memory_groups.MemoryGroup(1_000_000_000) as group:
            leaker = harness.Process([harness.PYTHON, "-c", LEAK], preexec_fn=group.join)
            try:
                leaker.await_line("event", "ready")
                began = time.monotonic()
                recording = harness.Recording(tmp_path / "r.json", ["--attach", leaker.pid, "--output", tmp_path / "r.json", "--quiet",
                                                                    "--metrics-listen", port])
                harness.wait_until(lambda: fleet.webhook.firing("CowprofLimitAhead"), "the page", 10 * harness.DEADLINE, pause=0.1)
                when, alert = fleet.webhook.firing("CowprofLimitAhead")[0]
                (_, used), = fleet.query('cowprof_limit_used_bytes{limit=~"cgroup.*", level="0"}')
                (_, left), = fleet.query('cowprof_limit_eta_seconds{limit=~"cgroup.*", level="0"}')
                print(f"\npaged {when - began:.0f} s after the attach, at {used / 1e6:.0f} of 1000 MB, {left:.0f} s before the limit by the forecast")
                assert alert["labels"]["limit"] == memory_groups.KIND and used < 0.95e9
                recording.interrupt()
            finally:
                leaker.stop()
    finally:
        fleet.stop()


def test_the_rules():
    tested = subprocess.run(["promtool", "test", "rules", "cowprof.rules_test.yml"], cwd=RULES, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("old, new", [
    ("cowprof_limit_eta_seconds < 1800", "predict_linear(cowprof_limit_used_bytes[5m], 1800) > on (instance, job, job_id, rank, limit, level) cowprof_limit_bytes"),
    ("cowprof_limit_eta_seconds < 1800", "cowprof_limit_eta_seconds < 60"),
    (" and on (instance, job, job_id, rank, recorder) cowprof_recording == 1", ""),
    (" < 300\n", " < 3e9\n"),
    ("cowprof_limit_bytes < 0.8\n", "cowprof_limit_bytes < 0\n"),
    ("cowprof_limit_bytes < 0.8\n", "cowprof_limit_bytes < 1\n"),
    ("cowprof_worker_starts_total == 0\n", "cowprof_worker_starts_total >= 0\n"),
    ('increase(cowprof_alerts_total{rule="hang"}[5m]) > 0', 'increase(cowprof_alerts_total{rule="hang"}[5m]) > 1e9'),
    ('alerts_total{rule="hang"} > 0\n', 'alerts_total{rule="hang"} > 1e9\n'),
    ('exits_total{cause!~"done|unknown"} > 0\n', 'exits_total{cause!~"done|unknown"} > 1e9\n'),
    ('max_over_time(cowprof_worker_exits_total{cause!~"done|unknown"}[1h] offset 5m)', "cowprof_worker_exits_total offset 5m"),
    ("unless cowprof_oom_kills_total <= max", "unless max"),
    (" < 600\n", " < 6e9\n"),
    (" < 3600\n", " < 36e9\n"),
    ("cowprof_recording == 1\n", "cowprof_recording >= 0\n"),
    ("0.1 * cowprof", "0.9 * cowprof"),
    ("cowprof_watch_left_out > 0\n        for: 10m\n", "cowprof_watch_left_out > 0\n"),
    ("failures_total[30m]) > 2\n", "failures_total[30m]) > 1\n")])
def test_the_tests_of_the_rules_can_fail(tmp_path, old, new):
    rules = (RULES / "cowprof.rules.yml").read_text()
    assert old in rules
    (tmp_path / "cowprof.rules.yml").write_text(rules.replace(old, new))
    (tmp_path / "tests.yml").write_text((RULES / "cowprof.rules_test.yml").read_text())
    tested = subprocess.run(["promtool", "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert tested.returncode != 0 and "FAILED" in tested.stdout + tested.stderr


def test_the_examples_are_valid():
    for command in ["promtool", "check", "config", "prometheus.yml"], ["amtool", "check-config", "alertmanager.yml"]:
        checked = subprocess.run(command, cwd=RULES, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
