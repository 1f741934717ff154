#!/usr/bin/python3
"""What Prometheus needs for the metrics of many nodes: series, memory, CPU time, time of the rules and of the dashboard's queries.

    sudo PYTHONPATH=tests/system tests/fleet/scale.py [--nodes 64 512] [--ranks 8] [--workers 8] [--seconds 150]

A real DataLoader is recorded, and its metrics are kept second by second. Each rank of each node plays them from another second on, with
its own rank and the time of now; when they end, they begin anew, as of a new recording. One process serves all nodes, and one Prometheus scrapes them every
15 s, with the rules and intervals of share/. Prints a table; asserts nothing.
"""
import argparse
import http.server
import json
import re
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections import defaultdict
from pathlib import Path

import yaml

import engines
import harness
from test_fleet import LOADER, expressions

RANK, NOW = b'rank="@"', b"@"


def record(folder, workers, seconds):
    """The metrics of a real recording, one text a second, as [(family's head, rows)]."""
    trainer = harness.Process([harness.PYTHON, LOADER, "--items", 100_000, "--workers", workers, "--epochs", 1000, "--epoch-seconds", seconds,
                               "--persistent"], env={"RANK": "0", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "nightly"}, stderr=subprocess.DEVNULL)
    path = folder / "one.prom"
    texts = []
    try:
        trainer.await_line("event", "ready", 3 * harness.DEADLINE)
        recording = harness.Recording(folder / "one.json", ["--attach", trainer.pid, "--output", folder / "one.json", "--quiet",
                                                            "--metrics-file", path])
        recording.await_sample()
        trainer.go()
        harness.wait_until(lambda: f'worker="{workers - 1}"' in path.read_text(), "all workers")
        for _ in range(seconds):
            texts.append(families(path.read_text()))
            time.sleep(1)
        recording.interrupt()
    finally:
        trainer.stop()
    return texts


def families(text):
    found = []
    text = re.sub(r"^(cowprof_last_sample_timestamp_seconds\S*) .*", r"\1 " + NOW.decode(), text, flags=re.MULTILINE)
    for line in text.replace('rank="0"', RANK.decode()).encode().splitlines(keepends=True):
        if line.startswith(b"# HELP"):
            found.append([line, b""])
        elif line.startswith(b"# TYPE"):
            found[-1][0] += line
        else:
            found[-1][1] += line
    return found


class Nodes(http.server.ThreadingHTTPServer):
    """/N is the page of node N, as its node_exporter would merge the files of its ranks."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, texts, ranks):
        self.texts, self.ranks, self.began = texts, ranks, time.monotonic()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def page(self, node):
        merged, now = defaultdict(bytes), b"%.3f" % time.time()
        for rank in range(self.ranks):
            tick = int(time.monotonic() - self.began) + 7 * node + 3 * rank
            for head, rows in self.texts[tick % len(self.texts)]:
                rows = rows.replace(RANK, b'rank="%d"' % (node * self.ranks + rank))
                merged[head] += rows.replace(b" " + NOW, b" " + now)
        return b"".join(head + rows for head, rows in merged.items())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):  # pylint: disable=invalid-name
        body = self.server.page(int(self.path[1:]))
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Watch:
    """A Prometheus that scrapes so many nodes."""

    def __init__(self, folder, server, nodes):
        targets = [{"targets": [f"127.0.0.1:{server.server_address[1]}"], "labels": {"__metrics_path__": f"/{node}", "instance": f"node{node}"}}
                   for node in range(nodes)]
        (folder / "nodes.json").write_text(json.dumps(targets))
        config = yaml.safe_load((engines.SHARE / "prometheus" / "prometheus.yml").read_text())
        config["rule_files"] = [str(engines.SHARE / "prometheus" / "cowprof.rules.yml")]
        del config["alerting"]
        port = engines.free_port()
        config["scrape_configs"] = [{"job_name": "node", "file_sd_configs": [{"files": [str(folder / "nodes.json")]}]},
                                    {"job_name": "self", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.prometheus = engines.Engine(folder, "prometheus", port, "/-/ready", f"--config.file={folder}/prometheus.yml",
                                         f"--storage.tsdb.path={folder}/tsdb")
        self.folder = folder

    query = engines.Fleet.query

    def value(self, expression):
        rows = self.query(expression)
        return rows[0][1] if rows else float("nan")

    def timed(self, expression):
        """Seconds of a query over the last two minutes, a point each 15 s."""
        now = time.time()
        words = urllib.parse.urlencode({"query": expression, "start": now - 120, "end": now, "step": 15})
        began = time.monotonic()
        engines.get(f"{self.prometheus.url}/api/v1/query_range?{words}")
        return time.monotonic() - began


def measure(texts, nodes, arguments):
    server = Nodes(texts, arguments.ranks)
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch(Path(folder), server, nodes)
        try:
            time.sleep(arguments.seconds)
            dashboard = json.loads((engines.SHARE / "grafana" / "cowprof.json").read_text())
            queries = {expression: watch.timed(expression.replace("[10s]", "[1m]")) for _, expression in expressions(dashboard)}
            slowest = max(queries, key=queries.get)
            row = {
                "nodes": nodes,
                "page_kb": round(len(server.page(0)) / 1e3),
                "up": watch.value('sum(up{job="node"})'),
                "series": watch.value("prometheus_tsdb_head_series"),
                "cowprof_series_a_node": watch.value('count({__name__=~"cowprof_.*"})') / nodes,
                "resident_mb": round(watch.value("process_resident_memory_bytes") / 1e6),
                "peak_mb": round(watch.prometheus.peak_mb()),
                "cpu_of_a_core": round(watch.value("rate(process_cpu_seconds_total[1m])"), 3),
                "samples_a_second": round(watch.value("rate(prometheus_tsdb_head_samples_appended_total[1m])")),
                "slowest_scrape_s": round(watch.value('max(max_over_time(scrape_duration_seconds{job="node"}[1m]))'), 3),
                "rules_s": round(watch.value("max(max_over_time(prometheus_rule_group_last_duration_seconds[1m]))"), 3),
                "dashboard_s": round(sum(queries.values()), 2),
                "slowest_query_s": round(queries[slowest], 2),
                "slowest_query": slowest,
                "alerts": watch.value("count(ALERTS) or vector(0)"),
            }
        finally:
            watch.prometheus.stop()
            server.shutdown()
            server.server_close()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=150)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = record(Path(folder), arguments.workers, 30)
    rows = sum(len(re.findall(rb"\n", rows)) for _, rows in texts[-1])
    print(f"{rows} series of a recording with {arguments.workers} workers", flush=True)
    for nodes in arguments.nodes:
        print(json.dumps(measure(texts, nodes, arguments), indent=2), flush=True)


if __name__ == "__main__":
    main()
