"""A standalone controller and a real kubectl, for the scripted runs. Loopback only; all processes started here are stopped here."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))

ALTERNATES = b"a status alternates"  # the controller's log message when two of its steps undo each other
alternations = []  # lines with ALTERNATES in the logs of all stopped servers; Report.close() counts them as failures


class Standalone:
    """`elastic-gpu-controller standalone` in a temporary folder."""

    def __init__(self, bin_dir, nodes_yaml, data=None, extra=()):
        self.bin = os.path.realpath(bin_dir)
        self.work = tempfile.mkdtemp(prefix="egpu-e2e-")
        self.nodes = os.path.join(self.work, "nodes.yaml")
        with open(self.nodes, "w", encoding="utf-8") as f:
            f.write(nodes_yaml)
        self.data = data
        self.extra = list(extra)
        self.process = None
        self.start()

    def start(self):
        for name in ("kubeconfig", "ops"):
            if os.path.exists(os.path.join(self.work, name)):
                os.unlink(os.path.join(self.work, name))
        cmd = [os.path.join(self.bin, "elastic-gpu-controller"), "standalone", "--nodes", self.nodes,
               "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--write-kubeconfig", os.path.join(self.work, "kubeconfig"),
               "--write-ops-address", os.path.join(self.work, "ops"), "--log-level", "info"] + self.extra
        if self.data:
            cmd += ["--data", self.data]
        self.log = open(os.path.join(self.work, "log"), "ab")
        self.process = subprocess.Popen(cmd, stderr=self.log, stdout=self.log)
        deadline = time.monotonic() + 120
        while not os.path.exists(os.path.join(self.work, "ops")):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.dump_log()
                raise SystemExit("standalone did not become ready")
            time.sleep(0.05)
        with open(os.path.join(self.work, "ops"), encoding="utf-8") as f:
            self.ops = "http://" + f.read().strip()
        self.kubeconfig = os.path.join(self.work, "kubeconfig")

    def dump_log(self):
        with open(os.path.join(self.work, "log"), "rb") as f:
            sys.stderr.write(f.read()[-8000:].decode("utf-8", "replace"))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Sends SIGTERM. Returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        self.log.close()
        return status

    def clean(self):
        if self.process.poll() is None:
            self.kill()
        with open(os.path.join(self.work, "log"), "rb") as f:
            alternations.extend(line.decode("utf-8", "replace").strip() for line in f if ALTERNATES in line)
        shutil.rmtree(self.work, ignore_errors=True)

    def http(self, path):
        with urllib.request.urlopen(self.ops + path, timeout=30) as r:
            return r.read().decode()

    def map(self):
        return json.loads(self.http("/allocation-map"))


class Kubectl:
    def __init__(self, binary, kubeconfig, home):
        self.binary = binary
        # A separate home: kubectl caches discovery there, and the ports change.
        self.env = dict(os.environ, KUBECONFIG=kubeconfig, HOME=home)

    def run(self, *args, stdin=None, timeout=180):
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return subprocess.run([self.binary, *args], input=data, env=self.env, capture_output=True, timeout=timeout, check=False)

    def ok(self, *args, stdin=None, timeout=180):
        r = self.run(*args, stdin=stdin, timeout=timeout)
        if r.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(args)}: {r.stderr.decode()[:2000]}")
        return r.stdout.decode()

    def json(self, *args):
        return json.loads(self.ok(*args, "-o", "json"))

    def version(self):
        out = self.run("version", "--client", "-o", "json").stdout
        v = json.loads(out)["clientVersion"]
        return f"{v['major']}.{v['minor']}".rstrip("+")


class Report:
    """Named checks. close() prints `N passed, N failed`."""

    def __init__(self):
        self.passed = self.failed = 0
        self.start = time.monotonic()

    def check(self, name, condition, detail=""):
        if condition:
            self.passed += 1
            print(f"{time.monotonic() - self.start:6.1f}s  ok      {name}", flush=True)
        else:
            self.failed += 1
            print(f"{time.monotonic() - self.start:6.1f}s  FAILED  {name}: {detail}", flush=True)

    def close(self):
        if alternations:
            self.check("no status alternates", False, alternations[:3])
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


def until(condition, seconds=120, step=0.1):
    """Waits for a condition that some event will make true, and returns its last value. A field that the object does not have yet
    (KeyError) counts as false, and is an error only at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        expired = time.monotonic() > deadline
        try:
            value = condition()
        except KeyError:
            if expired:
                raise
            value = None
        if value or expired:
            return value
        time.sleep(step)


def kubectls(cache):
    """Returns [(version, path)]: the kubectl on PATH, and Debian's unpacked package if its version differs."""
    found = {}

    def add(path):
        v = Kubectl(path, "/dev/null", cache).version()
        found.setdefault(v, path)

    if shutil.which("kubectl"):
        add(shutil.which("kubectl"))
    unpacked = os.path.join(cache, "debian-kubectl")
    binary = os.path.join(unpacked, "usr", "bin", "kubectl")
    if not os.path.exists(binary) and shutil.which("apt-get"):
        os.makedirs(unpacked, exist_ok=True)
        for attempt in (1, 2):
            got = subprocess.run(["apt-get", "download", "-q", "kubernetes-client"], cwd=unpacked, capture_output=True, check=False)
            if got.returncode == 0:
                break
            if attempt == 1 and os.geteuid() == 0:
                subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)
        debs = [f for f in os.listdir(unpacked) if f.endswith(".deb")]
        if debs:
            subprocess.run(["dpkg", "-x", debs[0], "."], cwd=unpacked, check=True)
    if os.path.exists(binary):
        add(binary)
    return sorted(found.items())
