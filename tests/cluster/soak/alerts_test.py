#!/usr/bin/env python3
"""Proves on a real cluster under load that each lasting fault fires its alert and no other one, by the unchanged rules of manifests/monitoring, and that no alert
fires before the first fault and after each.

alerts_test.py BIN_DIR                 each fault of lasting_faults.py once
alerts_test.py BIN_DIR --only NAME...  these, in this order

Needs promtool (`make tools`) and root, for a file system that a fault fills.
"""

import argparse
import pathlib
import signal
import sys
import tempfile
import time

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import alert_recorder
import lasting_faults
import tools
from apiserver import Cluster, guarded
from client import Report
from parts import WHOLE
from proving_ground import ProvingGround

INTERVAL = 1.0  # seconds between two samples
STRETCH = 20  # a sample counts for a third of a minute
MINUTE = 60 / STRETCH  # seconds
HEALTHY = 4  # minutes before the first fault
RATE = 3.0  # items of the workload made or taken each second
# Elections are faster, too: a lease lasts for a minute of the recording.
ELECTION = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")


class RecordedGround(ProvingGround):
    """Counts time in samples, because on a loaded machine they are more than an interval apart."""

    recorder = None

    def pass_time(self, seconds):
        end = self.recorder.now() + seconds / INTERVAL
        while self.recorder.now() < end:
            self.tend()
            time.sleep(0.2)


def inflict(ground, recorder, journals, chosen):
    """Yields (name, expected alert or None, first sample, sample after the last) of the healthy time and of each fault."""
    ground.workload.go()
    ground.await_leader()
    first = recorder.now()
    ground.pass_time(HEALTHY * MINUTE)
    yield "healthy", None, first, recorder.now()
    for fault in chosen:
        alert, lasts, ends = lasting_faults.FAULTS[fault]
        first = recorder.now()
        fault(ground, lasts * MINUTE, *([journals] if fault is lasting_faults.journal_disk_full else []))
        ground.await_leader()
        ground.pass_time(ends * MINUTE)
        yield fault.__name__, alert, first, recorder.now()


def check(report, phases, firing):
    for name, alert, first, end in phases:
        seen = sorted({each for sample in firing[first:end] for each in sample})
        report.check(f"{name}: {alert or 'no alert'} fires, and no other", seen == ([alert] if alert else []), seen)
        report.check(f"{name}: no alert fires at its end", not firing[end - 1], firing[end - 1])
        moments = [number - first for number in range(first, end) if firing[number]]
        print(f"{name}: {', '.join(seen) or 'no alert'}" + (f" from minute {moments[0] * INTERVAL / MINUTE:.1f} to {moments[-1] * INTERVAL / MINUTE:.1f} of "
                                                          f"{(end - first) * INTERVAL / MINUTE:.1f}" if moments else ""), flush=True)


def run(options, report):
    tools.tool("promtool")  # skips the test at once
    by_name = {each.__name__: each for each in lasting_faults.FAULTS}
    chosen = [by_name[name] for name in options.only or by_name]
    with tempfile.TemporaryDirectory(prefix="egpu-alerts-") as folder:
        journals = lasting_faults.Journals(pathlib.Path(folder) / "journals")
        try:
            with Cluster(pathlib.Path(folder) / "cluster", wanted=WHOLE) as cluster:
                ground = RecordedGround(cluster, options.bin_dir, options.seed, RATE, lambda name: [*ELECTION, *journals.arguments(name)])
                recorder = ground.recorder = alert_recorder.Recorder(alert_recorder.controllers(ground), INTERVAL)
                try:
                    phases = list(inflict(ground, recorder, journals, chosen))
                finally:
                    recorder.end()
                    ground.close()
                report.check("no controller crashed", not ground.crashes, ground.crashes)
        finally:
            journals.close()
    started = time.monotonic()
    firing = alert_recorder.firing(recorder, STRETCH)
    print(f"{len(firing)} samples, evaluated in {time.monotonic() - started:.0f} s")
    check(report, phases, firing)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[each.__name__ for each in lasting_faults.FAULTS], help="names of faults")
    options = parser.parse_args()
    report = Report()
    run(options, report)
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
