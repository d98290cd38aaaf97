"""Proves that clients on the network cannot block the operations port, and that the probes answer meanwhile: many connections, endless headers, large
bodies, expensive questions, callers that disconnect.  attack_test.py BIN_DIR"""
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from standalone import Report, Standalone, until

MIB = 1 << 20
NODES = "nodes:\n- {name: n, count: 500, cpu: 64, memory: 256Gi, gpus: [{model: T4, count: 8, memory: 16Gi}]}\n"
YAML = {"Content-Type": "application/yaml"}
EXPENSIVE = "/simulate?" + "&".join(f"add=x{i},like=n-0,count=1000" for i in range(12)) + "&class=share&gpu-core=10&top=100"


def place(url):
    host, port = url.removeprefix("http://").rsplit(":", 1)
    return host, int(port)


def connected(url):
    return socket.create_connection(place(url), timeout=60)


def get(url, path, timeout=60):
    with urllib.request.urlopen(url + path, timeout=timeout) as answer:
        return answer.status


def post(url, path, body, timeout=120):
    """Returns the HTTP status; 0 if the connection was closed."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data=body, headers=YAML, method="POST"), timeout=timeout) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code
    except (OSError, urllib.error.URLError):
        return 0  # connection closed


class Probing:
    """Calls /healthz repeatedly during an attack."""

    def __init__(self, url):
        self.url = url
        self.asked = self.failed = 0
        self.longest = 0.0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop.is_set():
            began = time.monotonic()
            self.asked += 1
            try:
                if get(self.url, "/healthz", timeout=5) != 200:
                    self.failed += 1
            except OSError:
                self.failed += 1
            self.longest = max(self.longest, time.monotonic() - began)
            self.stop.wait(0.05)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def memory(pid):
    """Returns resident memory, current and maximum, in MiB."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        found = {line.split(":")[0]: line.split(":")[1] for line in f if line.startswith(("VmRSS", "VmHWM"))}
    return tuple(int(found[name].split()[0]) // 1024 for name in ("VmRSS", "VmHWM"))


def forget_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="utf-8") as f:
        f.write("5")


def connections(s):
    """Opens 1,100 idle connections on each port."""
    held = []
    for url in {s.ops, s.probes}:
        for _ in range(1100):
            with contextlib.suppress(OSError):
                held.append(connected(url))
    time.sleep(1)
    answered = get(s.ops, "/metrics") == 200
    for each in held:
        each.close()
    return answered


def sends_headers(url, megabytes, line):
    with contextlib.suppress(OSError), connected(url) as c:
        c.sendall(b"GET /metrics HTTP/1.1\r\n")
        piece = line * (MIB // len(line))
        for _ in range(megabytes):
            c.sendall(piece)


def headers(s):
    """Six connections send endless short headers, six send one endless header."""
    threads = [threading.Thread(target=sends_headers, args=(s.ops, 60, line)) for line in (b"a: b\r\n", b"a" * 1024) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return get(s.ops, "/metrics") == 200


def slow_headers(s):
    """All connections send their headers slowly, while a normal client sends requests."""
    held = []
    for _ in range(128):
        with contextlib.suppress(OSError):
            c = connected(s.ops)
            c.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
            held.append(c)
    for _ in range(20):
        for c in held:
            with contextlib.suppress(OSError):
                c.send(b"a")
        time.sleep(0.05)
    answered = get(s.ops, "/metrics") == 200
    for each in held:
        each.close()
    return answered


def asks_late(url):
    """Returns true if a probe is answered that pauses between connecting and its request, as on a busy machine."""
    with contextlib.suppress(OSError), connected(url) as c:
        c.settimeout(5)
        time.sleep(0.05)
        c.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return b" 200 " in c.recv(1 << 12)
    return False


def endless_headers(s):
    """Opens fifty connections per second on each port, whose headers never end."""
    ended = threading.Event()
    held = []

    def attack(url):
        while not ended.wait(0.02):
            with contextlib.suppress(OSError):
                c = connected(url)
                held.append(c)
                c.sendall(b"GET /healthz HTTP/1.1\r\nX")

    threads = [threading.Thread(target=attack, args=(url,)) for url in {s.ops, s.probes}]
    for each in threads:
        each.start()
    time.sleep(2)  # by then each port has its maximum number of connections
    answered = [asks_late(url) for _ in range(30) for url in (s.ops, s.probes)]
    ended.set()
    for each in threads:
        each.join()
    for each in held:
        each.close()
    return all(answered) or f"{answered.count(False)} of {len(answered)} not answered"


def scrapes(s):
    """All connections pipeline requests for /metrics, while a normal client requests the map and /metrics."""
    ended = threading.Event()
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def scrape():
        while not ended.is_set():
            with contextlib.suppress(OSError), connected(s.ops) as c:
                c.settimeout(2)
                c.sendall(request * 20)
                while not ended.is_set() and c.recv(1 << 16):
                    c.sendall(request)

    threads = [threading.Thread(target=scrape) for _ in range(64)]
    for each in threads:
        each.start()
    time.sleep(1)
    try:
        return all(get(s.ops, path) == 200 for _ in range(10) for path in ("/allocation-map", "/metrics"))
    finally:
        ended.set()
        for each in threads:
            each.join()


def bodies(s):
    """2.8 MB of YAML at once, then sixteen expensive bodies of the maximum size."""
    large = b"steps:\n" + b"- {drain: n-0}\n" * (2_800_000 // 15)
    refused = post(s.ops, "/simulate", large) in (400, 413, 0)
    costly = b"steps: [" + b"a," * 130_000
    threads = [threading.Thread(target=post, args=(s.ops, "/simulate", costly)) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return refused


def questions(s):
    """Forty expensive questions at once."""
    threads = [threading.Thread(target=post, args=(s.ops, EXPENSIVE, b"")) for _ in range(40)]
    for each in threads:
        each.start()
    time.sleep(0.5)
    scraped = get(s.ops, "/metrics") == 200
    for each in threads:
        each.join()
    return scraped


def gone_callers(s):
    """Expensive questions of callers that disconnect immediately; then a cheap question."""
    for _ in range(60):
        with contextlib.suppress(OSError), connected(s.ops) as c:
            c.sendall(f"GET {EXPENSIVE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return get(s.ops, "/forecast?class=share", timeout=120) == 200


def later_nodes_count(s):
    """Nodes that copy one from an earlier step count towards the limit."""
    query = "add=big,model=T4,cards=1000,memory=16Gi&add=many,like=big,count=1000"
    return post(s.ops, "/simulate?" + query, b"") == 400


CLASS = {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": "share"},
         "provisioner": "gpushare.provisioner.elasticgpu.io"}


def api_address(s):
    with open(s.kubeconfig, encoding="utf-8") as f:
        return re.search(r'server: "?([^"\s]+)', f.read())[1]


def start(bin_dir):
    """Starts a controller, with a separate address for probes if the binary supports it."""
    shown = subprocess.run([os.path.join(bin_dir, "elastic-gpu-controller"), "standalone", "--help"], capture_output=True, text=True, check=True)
    own = "--write-probes-address" in shown.stdout
    file = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"egpu-probes-{os.getpid()}")
    s = Standalone(bin_dir, NODES, extra=["--write-probes-address", file] if own else [])
    s.probes = s.ops
    if own:
        with open(file, encoding="utf-8") as f:
            s.probes = "http://" + f.read().strip()
        os.unlink(file)
    try:
        made = urllib.request.Request(api_address(s) + "/apis/elasticgpu.io/v1alpha/elasticgpuclasses", data=json.dumps(CLASS).encode(),
                                      headers={"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(made, timeout=60) as answer:
            assert answer.status == 201
        until(lambda: "share" in urllib.request.urlopen(s.ops + "/forecast", timeout=60).read().decode())
    except BaseException:  # the caller does not have the server yet
        s.clean()
        raise
    return s


def main():
    r = Report()
    s = start(sys.argv[1])
    try:
        for attack in (connections, headers, slow_headers, endless_headers, scrapes, bodies, questions, gone_callers, later_nodes_count):
            forget_peak(s.process.pid)
            before = memory(s.process.pid)[0]
            began = time.monotonic()
            with Probing(s.probes) as probing:
                try:
                    good = attack(s)
                except OSError as error:
                    good = error
            peak = memory(s.process.pid)[1] - before if s.process.poll() is None else 0
            print(f"        {attack.__name__}: {time.monotonic() - began:.1f} s, {peak} MiB more at most, {probing.asked} probes, {probing.failed} failed, "
                  f"the longest {probing.longest:.2f} s", flush=True)
            r.check(f"{attack.__name__}: others are served", good is True, good)
            r.check(f"{attack.__name__}: every probe is answered", probing.failed == 0 and probing.asked > 0, probing.failed)
            r.check(f"{attack.__name__}: memory stays bounded", peak < 600, peak)
        # A question is still waiting at SIGTERM.
        waiting = threading.Thread(target=post, args=(s.ops, EXPENSIVE, b""))
        waiting.start()
        time.sleep(0.3)
        r.check("SIGTERM ends it with status 0, questions or not", s.stop() == 0)
        waiting.join()
    finally:
        s.clean()
    return r.close()


if __name__ == "__main__":
    sys.exit(main())
