#!/usr/bin/env python3
"""Proves that a real cluster under load survives faults. After each fault everything settles with nothing swapped, lost, leaked or double-booked. At every
version ever written, which an independent witness sees, no card was over-committed and no claim had two devices.

faults_test.py BIN_DIR                          each fault once
faults_test.py BIN_DIR --minutes N [--seed S]   at random for that long: `make soak`
faults_test.py BIN_DIR --only NAME...           these, in this order
"""

import argparse
import math
import pathlib
import random
import signal
import sys
import tempfile
import time

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import alert_recorder
import faults
import tools
from apiserver import Cluster, guarded
from client import Report
from parts import WHOLE, Skip
from proving_ground import ProvingGround
from workload import waiting_pods


def schedule(options):
    """Yields the names of the next faults, until time is up."""
    by_name = {each.__name__: each for each in faults.ALL}
    if options.only:
        yield from (by_name[name] for name in options.only)
    elif not options.minutes:
        yield from faults.ALL
    else:
        end = time.monotonic() + options.minutes * 60
        source = random.Random(options.seed)
        while True:
            # All faults equally often, in random order.
            for each in source.sample(faults.ALL, len(faults.ALL)):
                if time.monotonic() > end:
                    return
                yield each


class Alerts:
    """Checks that no fault fires an alert, except those that it must. An alert that fires sooner than its own duration after the start of a fault is that of the
    faults before, which follow each other without a pause."""

    # Fault → alerts without a duration. A deleted card is recreated without its entries; a card that shrinks has more entries than capacity.
    EXPECTED = {"card_deleted": {"ElasticGPULedgerDrift"}, "card_shrinks": {"ElasticGPULedgerDrift"}}

    def __init__(self, ground, interval):
        self.phases = []  # (fault, number of its first sample)
        try:
            tools.tool("promtool")
        except Skip as skip:
            print(f"alerts are not evaluated: {skip}", flush=True)
            self.recorder = None
            return
        self.recorder = alert_recorder.Recorder(alert_recorder.controllers(ground), interval)

    def begin(self, fault):
        if self.recorder:
            self.phases.append((fault, self.recorder.now()))

    def check(self, report):
        if not self.recorder:
            return
        self.recorder.end()
        firing = alert_recorder.firing(self.recorder, 1)
        periods = {alert: seconds / self.recorder.interval for alert, seconds in alert_recorder.pending_periods().items()}
        for (fault, first), (_, end) in zip(self.phases, [*self.phases[1:], ("", len(firing))]):
            began = {each for number in range(first, end) for each in firing[number] - firing[max(0, number - 1)] if number - first >= math.floor(periods[each])}
            report.check(f"{fault}: only its alerts fire", began <= self.EXPECTED.get(fault, set()), sorted(began))
            if began:
                print(f"{fault}: {', '.join(sorted(began))}", flush=True)


def run(options, report):
    with tempfile.TemporaryDirectory(prefix="egpu-faults-") as folder, Cluster(folder, wanted=WHOLE) as cluster:
        ground = ProvingGround(cluster, options.bin_dir, options.seed, options.rate)
        counts, started = {}, time.monotonic()
        alerts = Alerts(ground, 5 if options.minutes else 1)
        try:
            for fault in schedule(options):
                at = time.monotonic()
                counts[fault.__name__] = counts.get(fault.__name__, 0) + 1
                alerts.begin(fault.__name__)
                note, violations = faults.inflict(ground, fault, options.seconds)
                changes, bound, gone = ground.witness.figures()
                clean = report.check(f"{fault.__name__}", not violations, "\n  ".join(violations[:10]))
                print(f"{time.monotonic() - started:5.0f} s  {fault.__name__}: {'ok' if clean else 'FAILED'} in {time.monotonic() - at:.0f} s; "
                      f"{bound} claims bound so far, {changes} versions seen{'; ' + note if note else ''}", flush=True)
                if not clean:
                    for processes, names in ((ground.replicas, ("first", "second")), (cluster.processes, ("kube-scheduler", "kwok"))):
                        for name in names:
                            print(f"{name}:\n{processes.tail(name, 25)}", file=sys.stderr)
                    for line in waiting_pods(ground.client, ground.workload.namespaces):
                        print(line, file=sys.stderr)
                    break
            changes, bound, gone = ground.witness.figures()
            print(f"{sum(counts.values())} faults in {time.monotonic() - started:.0f} s (seed {options.seed}): "
                  + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
            print(f"{bound} claims bound, {gone} of them gone again, {changes} versions judged; the workload's requests refused: "
                  f"{ground.workload.refused}; processes that ended by themselves: {ground.ended}; pods that kwok had forgotten: {ground.reminded}")
            print(f"{report.failed} faults with violations", flush=True)
            alerts.check(report)
            report.check("claims were bound and taken all the while", gone >= 3 * sum(counts.values()), (bound, gone))
        finally:
            ground.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir")
    parser.add_argument("--minutes", type=float, default=0, help="at random for that long (default: each fault once)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rate", type=float, default=8, help="items made or taken each second")
    parser.add_argument("--seconds", type=float, default=1.5, help="how long each phase of a fault lasts")
    parser.add_argument("--only", nargs="+", help="names of faults")
    options = parser.parse_args()
    report = Report()
    run(options, report)
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
