#!/usr/bin/env python3
"""Proves that two teams can share a real cluster with the files that they would write (manifests/samples/two-teams): replicas that serve with parts of
cards, trainings of 8 pods with 8 cards each as gangs, notebooks, preemptible sweeps; quotas and priorities; 50 simulated nodes. In front of them a queue
holds pods with its own gate. All of it is scaled, updated, deleted, drained, finished, admitted and limited at random while controllers are killed,
and judged all the time from the API's objects alone. etcd's history shows whether a status alternates. Each waiting claim must report a true reason. At
the end everything runs, and after the deletion of all objects nothing is left.

workload_test.py BIN_DIR [SEED] [--minutes N]        N: how long (default: 75 s, and seed 1; or EGPU_WORKLOAD, in seconds)
"""

import argparse
import os
import pathlib
import queue
import sys
import tempfile
import time

# flake8: noqa: E402  (the modules for checks and operations are in separate folders)
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent / each) for each in ("teams", "soak")]

import installation
import nodes
import reasons
import rules
import verify
import yaml
from alternations import Alternations
from apiserver import Cluster, guarded
from auditor import Auditor
from client import Report, resource_claims, claims, pods, until
from operations import SCALES, Operations
from parts import WHOLE, stages
from witness import Witness

LONG = 300  # seconds; in longer runs operations are less frequent
ALTERNATES = "a status alternates"  # the controller's log message in that case
BETWEEN_KILLS = 30  # seconds
PATIENCE = 900  # seconds until the cluster is idle; half a minute on an idle machine
NODE_NAMES = [f"n-{index:02}" for index in range(50)]
CARDS = 8
SAMPLES = installation.MANIFESTS / "samples" / "two-teams"
TEAMS = ("vision", "language")
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{installation.NAMESPACE}/leases/{installation.CONTROLLER}"
LEASE_LOST = 3  # exit status of a controller that may no longer lead


class Replicas:
    """Two controllers with leader election. Any thread may call kill(); the thread that calls tend() carries it out, because the processes die with the
    thread that starts them."""

    def __init__(self, cluster, bin_dir):
        self.cluster, self.bin_dir = cluster, bin_dir
        self.asked = queue.SimpleQueue()
        self.back = {}  # name → time of its restart
        self.starts = self.kills = 0
        for name in ("first", "second"):
            self.start(name)

    def start(self, name):
        self.starts += 1
        installation.start_controller(self.cluster, self.bin_dir, name, [
            "--leader-elect", f"--leader-elect-identity={name}-{self.starts}", f"--leader-elect-resource-namespace={installation.NAMESPACE}"])

    def kill(self, source):
        """Requests the kill of one or both. Returns which. source: a Random."""
        names = source.choice((["first"], ["second"], ["first", "second"]))
        for name in names:
            self.asked.put((name, source.choice((0, 1, 5))))
        return f"kill {' and '.join(names)}"

    def tend(self):
        """Kills as requested, and restarts ended controllers, including those that lost their lease (status 3). Returns other failures."""
        children, wrong = self.cluster.processes.children, []
        for name in [each for each in children if each in ("first", "second") and children[each].poll() is not None]:
            if children[name].returncode != LEASE_LOST:
                wrong.append(f"controller {name} ended with {children[name].returncode}:\n{self.cluster.processes.tail(name, 30)}")
            self.cluster.processes.stop(name)
            self.back[name] = time.monotonic()
        while not self.asked.empty():
            name, pause = self.asked.get()
            if name in children:
                self.cluster.processes.kill(name)
                self.kills += 1
                self.back[name] = time.monotonic() + pause
        for name in [each for each, when in self.back.items() if when <= time.monotonic()]:
            del self.back[name]
            self.start(name)
        return wrong

    def all_back(self):
        return not self.back and self.asked.empty()


class Ground:
    def __init__(self, cluster, report, options, seed):
        self.cluster, self.report, self.check, self.seconds = cluster, report, report.check, options.seconds
        self.witness = Witness(cluster.etcd_url, Alternations())
        self.client = installation.client_of(cluster)
        installation.apply_manifests(cluster)
        nodes.publish(self.client, NODE_NAMES, CARDS)
        until("the nodes are ready", lambda: nodes.all_ready(self.client, NODE_NAMES))
        self.replicas = Replicas(cluster, options.bin_dir)
        self.sample = list(yaml.safe_load_all((SAMPLES / "workload.yaml").read_text()))
        self.auditor = Auditor(installation.client_of(cluster), TEAMS, lease=LEASE)
        pause = (0.2, 1.5) if self.seconds < LONG else (0.5, 3.5)  # seconds between operations
        self.operations = Operations(installation.client_of(cluster), seed, self.sample, self.replicas, pause, BETWEEN_KILLS)

    def apply(self):
        for name in ("cluster.yaml", "workload.yaml"):
            installation.kubectl(self.cluster, "apply", "-f", SAMPLES / name)

    def not_running(self):
        return [f"{each['metadata']['name']} is {each['status'].get('phase')}" for team in TEAMS for each in self.client.items(pods(team))
                if each["status"].get("phase") not in ("Running", "Succeeded", "Failed") or "deletionTimestamp" in each["metadata"]]

    def settled(self):
        """Returns true if every claim is bound and none is being deleted, because the garbage collector lags behind deleted pods. A claim deleted under its
        pod stays as long as the pod runs."""
        for team in TEAMS:
            used = {each.get("resourceClaimName") for pod in self.client.items(pods(team)) for each in pod["status"].get("resourceClaimStatuses", [])}
            for each in self.client.items(claims(team)):
                if each.get("status", {}).get("phase") != "Bound":
                    return False
                if "deletionTimestamp" in each["metadata"] and each["metadata"]["name"] not in used:
                    return False
        return True

    def whole(self, when):
        """Checks that everything runs as in the files, and that nothing is swapped, lost or counted twice."""
        def arrived():
            self.tend()
            return all(self.client.get(path)["status"].get("readyReplicas", 0) == self.client.get(path)["spec"]["replicas"]
                       == self.client.get(path)["status"].get("updatedReplicas") for path in SCALES) and not self.not_running() and self.settled()

        until(f"{when}: everything runs", arrived, patience=PATIENCE)
        for team in TEAMS:
            found = verify.violations(verify.World(self.client, team))
            self.check(f"{when}: nothing of {team} is swapped, lost or double-booked", not found, found[:5])
        until(f"{when}: the quotas say what the ledgers say", self.counted)

    def tend(self):
        """Restarts controllers that lost their lease, as their Deployment would."""
        for wrong in self.replicas.tend():
            self.check("controllers don't end by themselves", False, wrong)

    def counted(self):
        self.tend()
        picture = self.auditor.check()
        return all(self.reported_use(quota)[key] == rules.charged(picture, quota)[key] for quota in picture.quotas for key in rules.limits(quota))

    @staticmethod
    def reported_use(quota):
        used = quota.get("status", {}).get("used", {})
        return {key: rules.amount(value) if key == "gpu-memory" else float(value) for key, value in used.items()}

    def work(self):
        self.auditor.start()
        self.operations.start()
        end = time.monotonic() + self.seconds
        while time.monotonic() < end and not self.operations.failure:
            self.tend()
            time.sleep(0.2)
        self.operations.over.set()
        self.operations.join()
        until("both controllers are there", lambda: [self.tend()] and self.replicas.all_back())
        self.check("the operations went on", not self.operations.failure, repr(self.operations.failure))

    def reasons_are_true(self):
        """Adds claims that wait for each reason. After the load has stopped, the reason of every waiting claim must be true, including those of the load."""
        planted = reasons.Planted(self.client, self.operations.queue)
        wrong = ["nothing was looked at"]

        def as_expected():
            self.tend()
            wrong[:] = planted.wrong(self.auditor.check())
            return not wrong

        try:
            until("pending claims report the correct reason", as_expected)
        except AssertionError:
            self.check("pending claims report the correct reason", False, wrong[:10])
        planted.away()

    def nothing_alternates(self):
        until("every version is judged", self.witness.up_to_date)
        self.witness.end()
        found = self.witness.found()
        self.check("no status alternates", not found, found[:5])
        for name in ("first", "second"):
            lines = [line for line in (self.cluster.processes.folder / f"{name}.log").read_text(errors="replace").splitlines() if ALTERNATES in line]
            self.check(f"controller {name} saw no status alternate", not lines, lines[:5])

    def away(self):
        """Deletes all applied objects; no object may remain."""
        for job in list(self.operations.jobs):
            self.operations._away(job)
        self.operations.queue.away()
        for name in ("workload.yaml", "cluster.yaml"):
            installation.kubectl(self.cluster, "delete", "--ignore-not-found", "--wait=false", "-f", SAMPLES / name)

        def left():
            self.tend()
            picture = self.auditor.check()
            return [*picture.devices, *[each["metadata"]["name"] for each in picture.claims], *[entry for entry in rules.entries(picture)],
                    *[each["metadata"]["name"] for team in TEAMS for each in self.client.items(resource_claims(team))],
                    *[team for team in TEAMS if self.client.exists(f"/api/v1/namespaces/{team}")]]

        try:
            until("nothing is left", lambda: not left(), patience=PATIENCE)
        except AssertionError:
            print(f"left: {left()[:20]}", file=sys.stderr)
            raise

    def figures(self, seconds):
        auditor, done = self.auditor, self.operations.done
        print(f"{seconds:.0f} s: {sum(done.values())} operations ({', '.join(f'{count} {name}' for name, count in sorted(done.items()))}); refused: "
              f"{dict(self.operations.refused)}")
        print(f"{len(auditor.ran)} pods ran, {len(auditor.bound)} claims were bound, {len(auditor.gangs)} gangs whole; checked {auditor.checks} times; "
              f"reasons of waiting claims: {dict(auditor.reasons)}; what lasted longest, in checks and seconds:", *auditor.lasted.items(), sep="\n  ", flush=True)


def run(cluster, report, options, seed):
    ground = Ground(cluster, report, options, seed)
    started = time.monotonic()
    try:
        ground.apply()
        ground.whole("as applied")
        print(f"{time.monotonic() - started:.0f} s until everything ran as applied", flush=True)
        ground.work()
        ground.reasons_are_true()
        ground.operations.restore()
        ground.whole("at rest")
        ground.auditor.over.set()
        ground.auditor.join()
        ground.away()
        ground.nothing_alternates()
    except BaseException:
        for name in ("first", "second"):
            print(f"{name}:\n{cluster.processes.tail(name, 30)}", file=sys.stderr)
        for line in waiting(ground.client):
            print(line, file=sys.stderr)
        raise
    finally:
        ground.figures(time.monotonic() - started)
    for what, when in ground.auditor.found.items():
        report.check(f"at {when:.0f} s", False, what)
    report.check("gangs were whole", ground.auditor.gangs)


def waiting(client):
    """Describes for each pod that does not run its own messages and those of its claims."""
    for team in TEAMS:
        there = {each["metadata"]["name"]: each for each in client.items(claims(team))}
        for each in client.items(pods(team)):
            if each["status"].get("phase") == "Pending":
                names = [named.get("resourceClaimName") for named in each["status"].get("resourceClaimStatuses", [])]
                yield (f"{team}/{each['metadata']['name']} on {each['spec'].get('nodeName')}, gates {each['spec'].get('schedulingGates')}, "
                       f"claims {[(name, there.get(name, {}).get('status')) for name in names]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir")
    parser.add_argument("seed", type=int, nargs="?")
    parser.add_argument("--minutes", type=float, help="how long the load lasts (default: EGPU_WORKLOAD seconds, or 75)")
    options = parser.parse_args()
    options.seconds = options.minutes * 60 if options.minutes else float(os.environ.get("EGPU_WORKLOAD") or 75)
    report = Report()
    seed = options.seed or (1 if options.seconds < LONG else int(time.time()))
    print(f"seed {seed}, {options.seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="egpu-workload-") as folder:
        # Pods of Jobs run until the test ends their training.
        with Cluster(folder, wanted=WHOLE, kwok_stages=stages(pathlib.Path(folder), without=("pod-complete",))) as cluster:
            run(cluster, report, options, seed)
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
