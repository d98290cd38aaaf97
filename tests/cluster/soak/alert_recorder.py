"""Records the metrics of running programs, and finds with promtool which alerts of manifests/monitoring/rules.yaml fire on the recording.

A recording is replayed more slowly than it was made: each sample counts for STRETCH times the interval between two samples. So a fault of half a minute shows
the reports of the unchanged rules in several minutes, while rates are smaller than they were."""

import json
import pathlib
import re
import sys
import tempfile
import threading
import time
import urllib.request

import yaml

# flake8: noqa: E402  (the modules are in other folders)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "monitoring"))

import monitoring_test
import tools

RULES = tools.MANIFESTS / "monitoring" / "rules.yaml"
SAMPLE = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.M)
FIRING = 'ALERTS{alertstate="firing"}'
DURATION = re.compile(r"(\d+)(h|m|s)")
UNITS = {"h": 3600, "m": 60, "s": 1}


def controllers(ground):
    """Returns the targets of a Recorder: both replicas."""
    return {name: ("elastic-gpu-system/elastic-gpu-controller", each.address) for name, each in ground.controllers.items()}


def seconds_of(text):
    """Returns the seconds of a duration such as 1h30m."""
    return sum(int(number) * UNITS[unit] for number, unit in DURATION.findall(text))


def pending_periods():
    """Returns the time for which the condition of each alert holds before it fires: name → seconds."""
    return {rule["alert"]: seconds_of(rule.get("for", "0s")) for rule in monitoring_test.rules()}


def metrics_of_rules():
    return {metric for rule in monitoring_test.rules() for metric, _ in monitoring_test.used(rule["expr"])[0]}


class Recorder:
    """Reads the metrics of all targets once per interval, on a separate thread. targets: name → (job, address or function that returns it).

    Sample 0 is the first one. A target without an answer has the value 0 of `up` and no other series, as in Prometheus."""

    def __init__(self, targets, interval=1.0):
        self.targets, self.interval = targets, interval
        self.wanted = metrics_of_rules()
        self.series = {}  # name with labels → {number of the sample: value}
        self.count = 0
        self.changed = threading.Condition()
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self.thread.start()

    def end(self):
        self.ending.set()
        self.thread.join()

    def now(self):
        """Returns the number of the next sample."""
        with self.changed:
            return self.count

    def last(self, metric, label):
        """Returns the values of the metric's series with that label in the last sample."""
        with self.changed:
            return [float(values[self.count - 1]) for name, values in self.series.items()
                    if name.startswith(metric + "{") and label in name and self.count - 1 in values]

    def _work(self):
        due = time.monotonic()
        while not self.ending.is_set():
            texts = {name: self._read(address() if callable(address) else address) for name, (_, address) in self.targets.items()}
            with self.changed:
                for name, text in texts.items():
                    self._take(name, text)
                self.count += 1
            due = max(due + self.interval, time.monotonic())
            self.ending.wait(max(0, due - time.monotonic()))

    @staticmethod
    def _read(address):
        """Returns the text of the metrics; None without an answer."""
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=2) as answer:
                return answer.read().decode()
        except (OSError, ValueError):
            return None

    def _take(self, name, text):
        job, _ = self.targets[name]
        added = f'instance="{name}"'
        self.series.setdefault(f'up{{job="{job}",{added},pod="{name}"}}', {})[self.count] = "0" if text is None else "1"
        for metric, labels, value in SAMPLE.findall(text or ""):
            if metric in self.wanted:
                known = labels[1:-1].rstrip(",") if labels else ""
                self.series.setdefault(f"{metric}{{{added}{',' + known if known else ''}}}", {})[self.count] = value

    def sequences(self):
        """Returns the series in promtool's format: a gap begins with a marker of staleness."""
        with self.changed:
            return [{"series": name, "values": " ".join(_sequence(found, self.count))} for name, found in sorted(self.series.items())], self.count


def _sequence(found, count):
    present = False
    for number in range(count):
        value = found.get(number)
        yield value if value is not None else "stale" if present else "_"
        present = value is not None


def firing(recorder, stretch):
    """Returns the names of the firing alerts of each sample: [{name, ...}, ...]."""
    series, count = recorder.sequences()
    seconds = max(1, round(recorder.interval * stretch))
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    tests = [{"interval": f"{seconds}s", "input_series": series,
              "promql_expr_test": [{"expr": FIRING, "eval_time": f"{number * seconds}s", "exp_samples": []} for number in range(count)]}]
    with tempfile.TemporaryDirectory(prefix="egpu-alerts-") as name:
        folder = pathlib.Path(name)
        (folder / "rules.yaml").write_text(json.dumps(document), encoding="utf-8")
        (folder / "tests.yaml").write_text(json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": f"{seconds}s", "tests": tests}), encoding="utf-8")
        status, output, error = monitoring_test.promtool(folder, "test", "rules", "tests.yaml")
    return parsed(status, output + error, count, seconds)


def parsed(status, text, count, seconds):
    """Reads promtool's report: it lists the alerts of each sample at which one fires, because none is expected."""
    found = [set() for _ in range(count)]
    parts = re.split(r'expr: "ALERTS.*?", time: (\S+?),', text)[1:]
    for moment, body in zip(parts[::2], parts[1::2]):
        found[seconds_of(moment) // seconds] |= set(re.findall(r'alertname\W+(ElasticGPU\w+)', body))
    if (status == 0) != (not any(found)) or (status and not parts):
        raise tools.Failure(f"promtool ended with {status}: {text[:2000]}")
    return found
