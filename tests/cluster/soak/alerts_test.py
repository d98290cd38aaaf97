#!/usr/bin/env python3
"""Proves on a real cluster under load that each lasting fault fires its alert and no other one, by the unchanged rules of manifests/monitoring, and that no alert
fires before the first fault and after each.

alerts_test.py BIN_DIR                 each fault of lasting_faults.py once; some last at the same time
alerts_test.py BIN_DIR --only NAME...  these, one after the other

Needs promtool (`make tools`) and root, for a file system that a fault fills.
"""

import argparse
import collections
import heapq
import math
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
from client import Report, until
from parts import WHOLE
from proving_ground import RETAINED, ProvingGround

INTERVAL = 1.0  # seconds between two samples
STRETCH = 20  # a sample counts for a third of a minute
MINUTE = 60 / STRETCH  # seconds
HEALTHY = 4  # minutes before the first fault
LAG = 2  # minutes from the start of a fault to that of the next one of its group
RATE = 3.0  # items of the workload made or taken each second
# Elections are faster, too: a lease lasts for less than two minutes of the recording.
ELECTION = ("--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms")

Phase = collections.namedtuple("Phase", "name alerts first end")  # alerts: those of its faults; first, end: first sample, sample after the last
Part = collections.namedtuple("Part", "name alert first end")  # one fault of a phase; end: when its alert has ended


class RecordedGround(ProvingGround):
    """Counts time in samples, because on a loaded machine they are more than an interval apart."""

    recorder = None

    def pass_samples(self, end):
        while self.recorder.now() < end:
            self.tend()
            time.sleep(0.2)

    def pause_workload(self):
        """Leaves so many items that none of their claims has a reason to be pending."""
        self.workload.rest()
        self.workload.complete()
        self.workload.shrink(RETAINED)

    def rest(self):
        """Waits until no claim is pending: the alert about pending claims would count those of the next fault, too."""
        self.pause_workload()
        until("no claim is pending", lambda: not any(self.recorder.last("elasticgpu_claims", 'phase="Pending"')))


def samples(minutes):
    return round(minutes * MINUTE / INTERVAL)


def inflict_group(ground, journals, group, first):
    """Injects the faults of a group, the first one at sample `first`. Returns its parts."""
    recorder = ground.recorder
    steps = [(first + number * samples(LAG), number, None) for number in range(len(group))]  # (sample, fault, generator): is a heap
    starts, parts = {}, []
    while steps:
        due, number, generator = heapq.heappop(steps)
        ground.pass_samples(due)
        alert, lasts, ends = lasting_faults.FAULTS[group[number]]
        if generator is None:
            starts[number] = due
            generator = group[number](ground, lasts * MINUTE, *([journals] if group[number] is lasting_faults.journal_disk_full else []))
        seconds = next(generator, None)
        if seconds is None:
            parts.append(Part(group[number].__name__, alert, starts[number], recorder.now() + samples(ends)))
        else:
            heapq.heappush(steps, (recorder.now() + math.ceil(seconds / INTERVAL), number, generator))
    ground.await_leader()
    ground.pass_samples(max(each.end for each in parts))
    return parts


def inflict(ground, journals, groups):
    """Yields (phase, its parts) of the healthy time and of each group."""
    recorder = ground.recorder
    ground.workload.go()
    ground.await_leader()
    first = recorder.now()
    ground.pass_samples(first + samples(HEALTHY))
    yield Phase("healthy", [], first, recorder.now()), []
    for group in groups:
        ground.rest()
        first = recorder.now()
        ground.workload.go()
        parts = inflict_group(ground, journals, group, first)
        yield Phase(" and ".join(each.__name__ for each in group), sorted(each.alert for each in parts), first, recorder.now()), parts


def check(report, phases, firing):
    periods = {alert: seconds / STRETCH / INTERVAL for alert, seconds in alert_recorder.pending_periods().items()}
    for phase, parts in phases:
        seen = sorted({each for sample in firing[phase.first:phase.end] for each in sample})
        report.check(f"{phase.name}: {', '.join(phase.alerts) or 'no alert'} fires, and no other", seen == phase.alerts, seen)
        report.check(f"{phase.name}: no alert fires at its end", not firing[phase.end - 1], firing[phase.end - 1])
        for part in parts:
            fires = [number for number in range(phase.first, phase.end) if part.alert in firing[number]]
            first, last = (fires[0], fires[-1]) if fires else (phase.first, phase.end)
            report.check(f"{part.name}: its own duration makes {part.alert} fire", first >= part.first + math.floor(periods[part.alert]), (first, part))
            report.check(f"{part.name}: {part.alert} has ended with it", last < part.end - 1, (last, part))
            print(f"{part.name}: {part.alert} from minute {(first - part.first) * INTERVAL / MINUTE:.1f} to {(last - part.first) * INTERVAL / MINUTE:.1f} of "
                  f"{(part.end - part.first) * INTERVAL / MINUTE:.1f}", flush=True)


def print_alternations(ground):
    """Prints the objects whose status alternated, which only the log names. card_flaps causes this on purpose."""
    for name in ground.controllers:
        for line in ground.replicas.tail(name, 10**6).splitlines():
            if "a status alternates" in line:
                print(f"{name}: {line}")


def run(options, report):
    tools.tool("promtool")  # skips the test at once
    by_name = {each.__name__: each for each in lasting_faults.FAULTS}
    chosen = [(by_name[name],) for name in options.only] if options.only else lasting_faults.groups()
    with tempfile.TemporaryDirectory(prefix="egpu-alerts-") as folder:
        journals = lasting_faults.Journals(pathlib.Path(folder) / "journals")
        try:
            with Cluster(pathlib.Path(folder) / "cluster", wanted=WHOLE) as cluster:
                ground = RecordedGround(cluster, options.bin_dir, options.seed, RATE, lambda name: [*ELECTION, *journals.arguments(name)])
                recorder = ground.recorder = alert_recorder.Recorder(alert_recorder.controllers(ground), INTERVAL)
                try:
                    phases = list(inflict(ground, journals, chosen))
                finally:
                    recorder.end()
                    ground.close()
                report.check("no controller crashed", not ground.crashes, ground.crashes)
                print_alternations(ground)
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
