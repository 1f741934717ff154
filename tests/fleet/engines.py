"""Prometheus, node_exporter and Alertmanager on loopback, with free ports and the configuration that share/ has, and a webhook.

What is changed of the configuration: ports, paths, and times of 15 s, which would only make the tests wait.
"""
import http.server
import json
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

import harness

SHARE = harness.REPOSITORY / "share"
PROGRAMS = ("prometheus", "promtool", "prometheus-node-exporter", "prometheus-alertmanager", "amtool")


def missing():
    """The first program that is not installed, or None."""
    return next((program for program in PROGRAMS if not shutil.which(program)), None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=harness.DEADLINE) as answer:
        return answer.read().decode()


class Engine:
    """A server, once it answers at `ready`."""

    def __init__(self, folder, name, port, ready, *arguments):
        self.name, self.url = name, f"http://127.0.0.1:{port}"
        self.log = folder / f"{name}.log"
        with open(self.log, "w") as log:
            self.popen = subprocess.Popen([name, f"--web.listen-address=127.0.0.1:{port}", *map(str, arguments)], stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log, cwd=folder)
        harness.wait_until(lambda: self._answers(ready), f"{name} to answer", pause=0.05)

    def _answers(self, path):
        assert self.popen.poll() is None, self.log.read_text()
        try:
            return get(self.url + path) is not None
        except OSError:
            return False

    def peak_mb(self):
        """Most resident memory so far, in MB."""
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024 / 1e6

    def stop(self):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(5)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


class Webhook:
    """Takes what Alertmanager sends; `alerts` has (time, alert)."""

    def __init__(self):
        self.alerts = []
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.alerts += [(time.monotonic(), alert) for alert in body["alerts"]]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def firing(self, name):
        return [(when, alert) for when, alert in self.alerts if alert["status"] == "firing" and alert["labels"]["alertname"] == name]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Fleet:
    """All of them, which watch a folder of textfiles and the endpoints at `targets`."""

    def __init__(self, folder, targets, interval="1s"):
        self.folder, self.textfiles = folder, folder / "textfiles"
        self.textfiles.mkdir()
        self.started = []
        self.webhook = Webhook()
        exporter_port, manager_port, port = free_port(), free_port(), free_port()
        try:
            self.exporter = self._start("prometheus-node-exporter", exporter_port, "/metrics", "--collector.disable-defaults",
                                        "--collector.textfile", f"--collector.textfile.directory={self.textfiles}")
            self.manager = self._start("prometheus-alertmanager", manager_port, "/-/ready", f"--config.file={self._manager_config()}",
                                       f"--storage.path={folder}/manager", "--cluster.listen-address=")
            config = self._config(interval, exporter_port, manager_port, targets)
            self.prometheus = self._start("prometheus", port, "/-/ready", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb")
        except BaseException:
            self.stop()
            raise

    def _start(self, name, port, ready, *arguments):
        self.started.append(Engine(self.folder, name, port, ready, *arguments))
        return self.started[-1]

    def _config(self, interval, exporter_port, manager_port, targets):
        config = yaml.safe_load((SHARE / "prometheus" / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
        config["rule_files"] = [str(SHARE / "prometheus" / "cowprof.rules.yml")]
        config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{manager_port}"]
        node, endpoints = config["scrape_configs"]
        node["static_configs"][0]["targets"] = [f"127.0.0.1:{exporter_port}"]
        endpoints["static_configs"][0]["targets"] = targets
        path = self.folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _manager_config(self):
        config = yaml.safe_load((SHARE / "prometheus" / "alertmanager.yml").read_text())
        config["route"]["group_wait"] = "0s"
        config["route"]["group_interval"] = "1s"
        config["receivers"][0]["webhook_configs"][0]["url"] = f"http://127.0.0.1:{self.webhook.port}/"
        path = self.folder / "alertmanager.yml"
        path.write_text(yaml.safe_dump(config))
        return path

    def query(self, expression):
        """The rows of an expression now: [(labels, value)]."""
        url = f"{self.prometheus.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            answer = json.loads(get(url))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        result = answer["data"]["result"]
        if answer["data"]["resultType"] == "scalar":
            return [({}, float(result[1]))]
        return [(row["metric"], float(row["value"][1])) for row in result]

    def await_rows(self, expression, count=1):
        def found():
            rows = self.query(expression)
            return rows if len(rows) >= count else None
        return harness.wait_until(found, f"{count} rows of {expression}", pause=0.1)

    def memory(self):
        return {engine.name: round(engine.peak_mb(), 1) for engine in self.started}

    def stop(self):
        for engine in reversed(self.started):
            engine.stop()
        self.webhook.stop()
