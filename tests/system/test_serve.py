"""`--serve`: an unprivileged process serves the page of a running recording, only to this machine and only with the token."""
import contextlib
import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse

import pytest

import harness
import truth
from conftest import needs


SANDBOX = {"CapInh": "0" * 16, "CapPrm": "0" * 16, "CapEff": "0" * 16, "CapBnd": "0" * 16, "CapAmb": "0" * 16,
           "NoNewPrivs": "1", "Seccomp": "2"}


class Served:
    """A recording with a served page, and requests to it."""

    def __init__(self, target, path, address="", interval="100ms", **popen_options):
        self.recording = harness.Recording(path, ["--attach", target.pid, "--output", path, "--quiet", "--interval", interval,
                                                  f"--serve={address}" if address else "--serve"], **popen_options)
        line = self.recording.popen.stderr.readline()
        address = re.search(r"http://\S+", line)
        assert address, line + self.recording.popen.stderr.read()
        url = urllib.parse.urlsplit(address[0])
        self.host, self.port, self.query = url.hostname, url.port, f"?{url.query}"

    def ask(self, path="/", method="GET", query=None, body=None, **headers):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=harness.DEADLINE)
        query = self.query if query is None else query
        connection.request(method, path + query, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        answer.content = answer.read()
        connection.close()
        return answer

    def data(self):
        """The page's data, once it holds a sample."""
        def sampled():
            answer = self.ask("/data")
            text, _, _ = gzip.decompress(answer.content).partition(b"\n") if answer.status == 200 else (b"{}", b"", b"")
            page = json.loads(text)
            return page if page.get("report", {}).get("samples") else None
        return harness.wait_until(sampled, "data with a sample")

    def server(self):
        """The pid of the serving process, once it is sandboxed."""
        def found():
            children = (harness.Path("/proc") / str(self.recording.pid) / "task" / str(self.recording.pid) / "children").read_text().split()
            # The first child is the process that judges start methods.
            return next((int(pid) for pid in children[1:] if status_of(pid).get("Seccomp") == "2"), None)
        return harness.wait_until(found, "the sandboxed server")


def status_of(pid):
    lines = harness.Path("/proc", str(pid), "status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def listening_sockets(pid):
    """Rows of /proc/PID/net/tcp for the listening TCP sockets of that process."""
    inodes = set()
    for entry in harness.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            inodes.add(os.readlink(entry))
    rows = [line.split() for name in ("tcp", "tcp6") for line in harness.Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]]
    return [row for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


def is_gone(pid):
    try:
        return status_of(pid)["State"].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture(scope="module")
def readers():
    process = harness.start_readers()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def served(readers, tmp_path_factory):
    """One served recording for all tests that only send requests."""
    one = Served(readers, tmp_path_factory.mktemp("served") / "recording.json")
    one.data()
    yield one
    one.recording.stop()


@pytest.fixture
def start_served(readers, tmp_path):
    started = []

    def start(**options):
        started.append(Served(readers, tmp_path / f"recording-{len(started)}.json", **options))
        return started[-1]

    yield start
    for one in started:
        one.recording.stop()


# ---- Requests ----


def test_the_page_and_its_headers(served):
    page = served.ask("/")
    assert page.status == 200 and b'<div id="app">' in page.content and b"__COWPROF_DATA__" not in page.content
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self'; script-src 'sha256-") and "frame-ancestors 'none'" in policy
    assert policy.removesuffix("; frame-ancestors 'none'").encode() in page.content, "the page itself does not carry the same policy"
    for answer in (page, served.ask("/data"), served.ask("/nothing"), served.ask(query="")):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_the_data_grows_and_says_that_it_is_live(served):
    first = served.data()
    assert first["schema"] == "cowprof.page/2" and first["run"]["live"] is True
    harness.wait_until(lambda: served.data()["report"]["totals"]["copies"] > first["report"]["totals"]["copies"], "more copies")


@pytest.mark.parametrize("query", ["", "?token=", "?token=0", "?other=1", "?token=" + "0" * 32, "?token=" + "0" * 5000, "?token"])
def test_nothing_is_served_without_the_token(served, query):
    for path in ("/", "/data", "/nothing"):
        assert served.ask(path, query=query).status == 403


def test_a_nearly_right_token_is_refused(served):
    last = served.query[-1]
    for query in (served.query[:-1], served.query + "0", served.query[:-1] + ("0" if last != "0" else "1")):
        assert served.ask(query=query).status == 403


@pytest.mark.parametrize("host,status", [
    ("evil.example", 403), ("evil.example:{port}", 403), ("127.0.0.1", 403), ("127.0.0.1:1", 403), ("127.0.0.1.evil.example:{port}", 403),
    ("localhost:{port}@evil.example", 403), ("0.0.0.0:{port}", 403), ("", 403),
    ("127.0.0.1:{port}", 200), ("localhost:{port}", 200), ("LOCALHOST:{port}", 200), ("[::1]:{port}", 200)])
def test_the_host_header_must_name_this_machine(served, host, status):
    assert served.ask(Host=host.format(port=served.port)).status == status


@pytest.mark.parametrize("origin,status", [
    ("http://evil.example", 403), ("https://127.0.0.1:{port}", 403), ("null", 403), ("http://127.0.0.1:1", 403), ("http://localhost:{port}", 200),
    ("http://127.0.0.1:{port}", 200)])
def test_an_origin_header_must_name_this_page(served, origin, status):
    assert served.ask("/data", Origin=origin.format(port=served.port)).status == status


def test_two_host_headers_are_refused(served):
    with socket.create_connection((served.host, served.port), harness.DEADLINE) as connection:
        connection.sendall(f"GET /{served.query} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nHost: evil.example\r\n\r\n".encode())
        status_line = connection.recv(4096).split(b"\r\n")[0]
        assert b" 403 " in status_line or b" 400 " in status_line, status_line


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "NONSENSE"])
def test_it_is_read_only(served, method):
    answer = served.ask(method=method, body=b"x" * 100_000 if method in ("POST", "PUT") else None)
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/data/../../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd", "/data/", "/index.html", "/%00", "/proc/self/maps"])
def test_other_paths_do_not_exist(served, path):
    answer = served.ask(path)
    assert answer.status == 404 and b"root:" not in answer.content


def test_head_has_no_body(served):
    answer = served.ask("/data", "HEAD")
    assert (answer.status, answer.content) == (200, b"") and int(answer.headers["Content-Length"]) > 100


def test_a_connection_is_kept_for_the_next_request(served):
    connection = http.client.HTTPConnection(served.host, served.port, timeout=harness.DEADLINE)
    for method in ("GET", "HEAD", "GET"):
        connection.request(method, "/data" + served.query)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200 and not answer.will_close
    connection.close()


def test_unchanged_data_is_not_sent_again(start_served):
    one = start_served(interval="1h")
    one.data()

    # The first ticks come faster than the interval; between two of them nothing is new.
    def nothing_new():
        version = one.ask("/data").headers["ETag"]
        answer = one.ask("/data", If_None_Match=version)
        assert answer.status == 304 or answer.headers["ETag"] != version
        return answer if answer.status == 304 else None
    assert harness.wait_until(nothing_new, "a pause between two ticks").content == b""
    assert one.ask("/data", If_None_Match='"other"').status == 200


# ---- Attacks on the server ----


def raw(served, request):
    with socket.create_connection((served.host, served.port), harness.DEADLINE) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
            return connection.recv(65536)
    return b""


def test_huge_and_broken_requests(served):
    head = f"GET /{served.query} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n".encode()
    for request in (head + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n", head + b"A: b\r\n" * 100_000 + b"\r\n", b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n",
                    b"\0" * 65536, b"\x16\x03\x01\x02\x00" * 1000, b"GET\r\n\r\n", head.replace(b"HTTP/1.1", b"HTTP/9.9") + b"\r\n"):
        answer = raw(served, request)
        assert not answer.startswith(b"HTTP/1.1 200"), answer[:100]
    assert served.ask().status == 200


def test_requests_sent_at_once_are_answered_in_order(served):
    host = f"Host: 127.0.0.1:{served.port}\r\n"
    with socket.create_connection((served.host, served.port), harness.DEADLINE) as connection:
        connection.sendall((f"HEAD /data{served.query} HTTP/1.1\r\n{host}\r\n" * 2 + f"GET /no{served.query} HTTP/1.1\r\n{host}\r\n").encode())
        answers = b"".join(iter(lambda: connection.recv(65536), b""))
    assert re.findall(rb"^HTTP/1.1 (\d+)", answers, re.M) == [b"200", b"200", b"404"]


def test_a_page_that_stops_reading_does_not_stop_the_others(served):
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(socket.create_connection((served.host, served.port), harness.DEADLINE))
            connection.sendall(f"GET /{served.query} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode() * 20)
        assert served.ask().status == 200


def test_hundreds_of_slow_connections(served):
    """They are dropped when there are too many; a proper request is answered all the while."""
    slow = []
    try:
        for _ in range(300):
            connection = socket.create_connection((served.host, served.port), harness.DEADLINE)
            connection.setblocking(False)
            with contextlib.suppress(ConnectionError):  # already dropped
                connection.send(b"GET / HTTP/1.1\r\nX: ")
            slow.append(connection)
        began = time.monotonic()
        assert served.ask().status == 200
        assert time.monotonic() - began < 10
        assert len(list(harness.Path(f"/proc/{served.server()}/fd").iterdir())) < 80
    finally:
        for connection in slow:
            connection.close()


# ---- The serving process ----


def test_the_server_holds_no_privileges_and_only_the_timeline(served):
    pid = served.server()
    status = status_of(pid)
    assert {name: status[name] for name in SANDBOX} == SANDBOX
    assert status["Uid"].split() == status["Gid"].split() == [str(harness.NOBODY)] * 4
    assert status["Groups"] == "" and status["Threads"] == "1"
    links = {entry.name: os.readlink(entry) for entry in harness.Path(f"/proc/{pid}/fd").iterdir()}
    links = {name: link for name, link in links.items() if not link.startswith("socket:") or name == "3"}  # connections come and go
    assert sorted(links) == ["0", "1", "2", "3", "4", "5", "6"]
    assert links["4"] == str(served.recording.path)
    assert [links["0"], links["1"]] == ["/dev/null"] * 2 and links["2"].startswith("pipe:") and links["5"].startswith("pipe:")
    assert links["6"] == "anon_inode:[eventpoll]"
    flags = harness.Path(f"/proc/{pid}/fdinfo/4").read_text()
    assert int(re.search(r"flags:\s*(\d+)", flags)[1], 8) & os.O_ACCMODE == os.O_RDONLY
    names = {entry.split(b"=")[0] for entry in harness.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if entry}
    assert names <= {b"LD_LIBRARY_PATH"}
    assert served.query.removeprefix("?token=").encode() not in harness.Path(f"/proc/{pid}/cmdline").read_bytes()
    assert os.getsid(pid) == pid


def test_the_server_runs_as_the_user_who_called_sudo(open_folder, readers):
    os.chown(open_folder, harness.NOBODY - 1, harness.NOBODY - 1)
    one = Served(readers, open_folder / "sudo.json", env={**os.environ, "SUDO_UID": str(harness.NOBODY - 1), "SUDO_GID": str(harness.NOBODY - 1)})
    try:
        assert status_of(one.server())["Uid"].split() == [str(harness.NOBODY - 1)] * 4
    finally:
        one.recording.stop()


def test_the_server_listens_only_on_loopback_and_the_recorder_not_at_all(served):
    (row,) = listening_sockets(served.server())
    assert row[1].split(":")[0] == "0100007F"
    assert listening_sockets(served.recording.pid) == []


def test_by_default_nothing_listens(readers, start_recording):
    recording = start_recording(readers.pid)
    recording.await_sample()
    (scout,) = truth.children(recording.pid)  # it judges start methods
    assert listening_sockets(recording.pid) == listening_sockets(scout) == []


def test_a_killed_server_does_not_stop_the_recording(start_served):
    one = start_served()
    before = one.data()["report"]["samples"]
    os.kill(one.server(), signal.SIGKILL)
    assert "killed by SIGKILL" in one.recording.popen.stderr.readline()
    with pytest.raises(ConnectionRefusedError):
        one.ask()
    harness.wait_until(lambda: sum(record["type"] == "sample" for record in harness.records_of(one.recording.path)) > before + 2,
                       "more samples")
    one.recording.interrupt()
    assert one.recording.stderr == "", "the message was repeated"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_server_ends_with_the_recorder(start_served, number):
    one = start_served()
    one.data()
    pid = one.server()
    one.recording.send(number)
    one.recording.wait()
    harness.wait_until(lambda: is_gone(pid), "the server to end")
    with pytest.raises(ConnectionRefusedError):
        one.ask()


def test_an_open_page_receives_the_end(start_served):
    one = start_served()
    one.data()
    one.recording.send(signal.SIGINT)
    run = harness.wait_until(lambda: (lambda run: run if not run["live"] else None)(one.data()["run"]), "the data to be complete")
    assert run["complete"] is True
    assert one.recording.wait() == 0


def test_a_page_that_is_still_downloading_at_the_end_receives_the_rest(start_served):
    one = start_served()
    one.data()
    head = f"GET /{one.query} HTTP/1.1\r\nHost: 127.0.0.1:{one.port}\r\n"
    with socket.create_connection((one.host, one.port), harness.DEADLINE) as connection:
        # More than the buffers of both sockets hold.
        connection.sendall((f"{head}\r\n" * 40 + f"{head}Connection: close\r\n\r\n").encode())
        one.ask()  # is answered after the above was begun
        one.recording.send(signal.SIGINT)
        time.sleep(2.5)  # longer than a page waits between two requests
        while connection.recv(1 << 20):
            pass
    harness.wait_until(lambda: one.data()["run"]["live"] is False, "the data to be complete")
    assert one.recording.wait() == 0


# ---- The command line ----


@pytest.mark.parametrize("address", ["0.0.0.0", "0.0.0.0:8080", "[::]:8080", "192.168.1.1:80", "example.com:80", "8.8.8.8", "127.0.0.1:65536",
                                     "127.0.0.1:x", ":8080", "[::1", "-1", "http://127.0.0.1"])
def test_other_addresses_are_refused(readers, address, tmp_path):
    result = harness.run_cowprof("--attach", readers.pid, "--output", tmp_path / "no.json", f"--serve={address}")
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1, result.stderr
    assert not (tmp_path / "no.json").exists()


def test_the_refusal_says_how_to_connect_from_elsewhere(readers):
    assert "ssh -L 8080:127.0.0.1:8080" in harness.run_cowprof("--attach", readers.pid, "--serve=0.0.0.0:8080").stderr


def test_a_port_in_use_is_refused(readers, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = harness.run_cowprof("--output", tmp_path / "no.json", f"--serve={port}", "--", "touch", tmp_path / "started")
    assert result.returncode == 2 and f"127.0.0.1:{port}" in result.stderr and "in use" in result.stderr
    assert not (tmp_path / "started").exists(), "the recording was started all the same"


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "localhost:{port}", "{port}", "[::1]:{port}"])
def test_an_address_can_be_chosen(address, readers, tmp_path):
    six = "::1" in address
    needs("IPv6", not six or harness.Path("/proc/net/if_inet6").exists() and "00000000000000000000000000000001" in harness.Path("/proc/net/if_inet6").read_text(),
          "this host has no ::1")
    with socket.create_server(("::1" if six else "127.0.0.1", 0), family=socket.AF_INET6 if six else socket.AF_INET) as free:
        port = free.getsockname()[1]
    one = Served(readers, tmp_path / "chosen.json", address.format(port=port))
    try:
        assert one.port == port and one.ask().status == 200
    finally:
        one.recording.stop()


def test_a_command_is_served_too(tmp_path):
    popen = subprocess.Popen([str(harness.COWPROF), "--output", str(tmp_path / "command.json"), "--serve", "--", "sh", "-c",
                              "ls /proc/self/fd; read line; exit 7"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = []
        while not lines or "http://" not in lines[-1]:
            lines.append(popen.stderr.readline())
            assert lines[-1], lines
        out, _ = popen.communicate("\n", harness.DEADLINE)
    finally:
        popen.kill()
    assert popen.returncode == 7
    assert out.split() == ["0", "1", "2", "3"], "the command inherited the server's descriptors"


def test_the_server_cannot_be_started_by_hand():
    result = harness.run_cowprof("serve-page")
    assert result.returncode == 2 and "--serve" in result.stderr
