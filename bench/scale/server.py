"""The measured controller, helpers that create objects with several threads, and watches that record times."""

import collections
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("cluster", "e2e")]
from client import CLASSES, Client, claims  # noqa: E402  (not a package)
from objects import claim  # noqa: E402
from standalone import Standalone  # noqa: E402

WRITERS = 8  # threads that create objects
PATIENCE = 900  # seconds until a scenario fails
QUIET = 3.0  # seconds without a step after which the controller counts as idle
PROBE_INTERVAL = 0.25  # seconds between two requests to the probes
LABEL = re.compile(r'(\w+)="([^"]*)"')


class Measured:
    """A controller whose API server is `client` and whose operations address is `ops`. A context manager that ends it.

    Subclasses start it: Server here, and RealServer in real.py. They have `client`, `process`, the addresses `ops` and `probes`, `dump_log()` and `clean()`."""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.dump_log()
        self.clean()

    def http(self, path):
        with urllib.request.urlopen(self.ops + path, timeout=30) as answer:
            return answer.read().decode()

    def probe(self, name, patience):
        """Returns None if the probe answers with 200 within `patience` seconds, otherwise a description of the failure."""
        try:
            with urllib.request.urlopen(f"{self.probes}/{name}", timeout=patience):
                return None
        except OSError as error:
            return str(error)

    def metric(self, name, **labels):
        """Returns the sum of the series of that name whose labels have these values."""
        return sum(value for found, value in self.series(name) if labels.items() <= found.items())

    def series(self, name):
        """Returns the [(labels, value)] of a metric."""
        found = []
        for line in self.http("/metrics").splitlines():
            if line.startswith((name + "{", name + " ")):
                key, value = line.rsplit(" ", 1)
                found.append((dict(LABEL.findall(key)), float(value)))
        return found

    def steps(self):
        return self.metric("elasticgpu_reconciles_total")

    def rest(self, patience=PATIENCE, quiet=QUIET):
        """Waits until the controller makes no step for `quiet` seconds. Returns the number of steps so far."""
        seen, since, began = self.steps(), time.monotonic(), time.monotonic()
        while time.monotonic() < since + quiet:
            if time.monotonic() > began + patience:
                raise AssertionError(f"the controller is not at rest after {patience} s: {seen:.0f} steps")
            time.sleep(QUIET / 10)
            now = self.steps()
            if now != seen:
                seen, since = now, time.monotonic()
        return seen

    def bound(self):
        """Number of claims that are Bound, of all namespaces."""
        return int(self.metric("elasticgpu_claims", phase="Bound"))

    def await_bound(self, count, patience=PATIENCE):
        wait(f"{count} claims are Bound", lambda: self.bound() >= count, patience)

    def requests(self, **labels):
        """Number of requests that the controller has sent to the API server, watches and lists included."""
        return self.metric("elasticgpu_api_requests_total", **labels)

    def terminate(self, patience):
        """Sends SIGTERM. Raises AssertionError if the controller has not ended after `patience` seconds."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the controller has not ended {patience} s after SIGTERM") from None

    def create_class(self, body):
        self.client.create(CLASSES, body)

    def replace_class(self, body):
        """Replaces the class of that name by deleting it, because a class's parameters are immutable. Bound claims keep their devices."""
        self.client.delete(f"{CLASSES}/{body['metadata']['name']}")
        self.create_class(body)

    def create(self, path, objects):
        """Creates the objects, several at once."""
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda each: self.client.create(path, each), objects))

    def delete(self, path, names):
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda name: self.client.delete(f"{path}/{name}"), names))

    def fill(self, count, class_name, priority=None, amounts=None):
        """Creates claims and waits until all are Bound and the controller is at rest."""
        self.create(claims(), [claim(f"holder-{index:05}", class_name, priority=priority, **(amounts or {"gpu": 1})) for index in range(count)])
        self.await_bound(count)
        self.rest()


class Server(Measured, Standalone):
    """A standalone controller with nodes of these groups."""

    def __init__(self, bin_dir, *groups):
        self.probes = None
        super().__init__(bin_dir, "nodes:\n" + "".join(group.yaml() for group in groups))

    def start(self):
        probes = os.path.join(self.work, "probes")
        self.extra += ["--write-probes-address", probes]
        try:
            super().start()
        except SystemExit as error:
            self.clean()
            raise AssertionError(str(error)) from None
        self.client = Client(self.address())
        self.client.separators = (",", ":")
        with open(probes, encoding="utf-8") as file:
            self.probes = "http://" + file.read().strip()
        wait("the controller is ready", lambda: self.probe("readyz", 10) is None)

    def address(self):
        with open(self.kubeconfig, encoding="utf-8") as file:
            return next(line.split()[1] for line in file if line.strip().startswith("server:"))


def wait(what, probe, patience=PATIENCE, pause=0.05):
    """Returns the first true result of look()."""
    began = time.monotonic()
    while True:
        seen = probe()
        if seen:
            return seen
        if time.monotonic() > began + patience:
            raise AssertionError(f"{what}: not within {patience} s")
        time.sleep(pause)


class Watch:
    """Records when objects of a collection first meet conditions, from the events of a watch.

    `states`: name of a state → function of an object. times[state] maps the name of each object to seconds since the watch began."""

    def __init__(self, server, path, states):
        self.client, self.path = server.client, path
        self.states, self.times = states, collections.defaultdict(dict)
        self.closing = False
        self._open(self.client.get(f"{path}?limit=1")["metadata"]["resourceVersion"])
        self.began = time.monotonic()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing = True
        if self.connection.sock is not None:
            self.connection.sock.close()

    def now(self):
        return time.monotonic() - self.began

    def count(self, state):
        return len(self.times[state])

    def last(self, state):
        return max(self.times[state].values())

    def first(self, state):
        return min(self.times[state].values())

    def await_count(self, state, count, patience=PATIENCE):
        wait(f"{count} objects are {state}", lambda: self.count(state) >= count, patience)

    def _open(self, version):
        self.connection = self.client.connect(PATIENCE)
        self.connection.request("GET", f"{self.path}?watch=1&resourceVersion={version}&allowWatchBookmarks=false")
        self.answer = self.connection.getresponse()

    def _read(self):
        while True:
            try:
                self._follow()
            except (OSError, ValueError, http.client.HTTPException, AttributeError):
                if not self.closing:
                    raise
            if self.closing:
                return
            # An API server ends the watch of a client that is too slow. Objects missed meanwhile are listed.
            version = self.client.get(f"{self.path}?limit=1")["metadata"]["resourceVersion"]
            for found in self.client.items(self.path):
                self._note(found, self.now())
            self._open(version)

    def _follow(self):
        """Records events until the server ends the watch."""
        while line := self.answer.readline():
            event = json.loads(line)
            if event["type"] in ("ADDED", "MODIFIED"):
                self._note(event["object"], self.now())
            elif event["type"] == "ERROR":
                return

    def _note(self, found, at):
        for state, holds in self.states.items():
            if found["metadata"]["name"] not in self.times[state] and holds(found):
                self.times[state][found["metadata"]["name"]] = at


class Probing:
    """Calls the liveness probe repeatedly and records the longest step that the controller reports. A context manager."""

    def __init__(self, server):
        self.server = server
        self.failures, self.longest_step, self.slowest = [], 0.0, 0.0
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._probe, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()

    def _probe(self):
        while not self.ending.wait(PROBE_INTERVAL):
            asked = time.monotonic()
            failure = self.server.probe("livez", 5)
            self.slowest = max(self.slowest, time.monotonic() - asked)
            if failure:
                self.failures.append(failure)
            try:
                self.longest_step = max(self.longest_step, self.server.metric("elasticgpu_longest_step_seconds"))
            except OSError as error:
                self.failures.append(str(error))
