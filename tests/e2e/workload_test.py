"""Proves the workload of two teams (manifests/samples/two-teams) on the standalone controller, in a short run. The random operations and the checks are
those of tests/cluster/workload_test.py; kill -9 ends server and controller together.  workload_test.py BIN_DIR [SEED]"""
import os
import queue
import sys
import tempfile
import time

import yaml

from standalone import ROOT, Report, Standalone, until

sys.path[:0] = [os.path.join(ROOT, "tests", "cluster"), os.path.join(ROOT, "tests", "cluster", "teams")]
# flake8: noqa: E402  (they are in another folder)
import reasons
import rules
from auditor import Auditor
from client import Refused, resource_claims, pods
from controllers import Controllers
from operations import Operations

SECONDS = float(os.environ.get("EGPU_WORKLOAD") or 15)
SAMPLES = os.path.join(ROOT, "manifests", "samples", "two-teams")
TEAMS = ("vision", "language")
NODES = """
nodes:
- name: n
  count: 30
  cpu: 64
  memory: 256Gi
  gpus:
  - {model: A100-SXM4-80GB, count: 8, memory: 80Gi, sms: 108, tflops: 312}
"""
SMALLER = {"detector": 20, "sweep": 10, "notebook": 6}


class Ground:
    """A client whose server has a new port after each start. The thread that calls tend() carries out kills."""

    def __init__(self, bin_dir, data, seed):
        self.standalone = Standalone(bin_dir, NODES, data=data)
        self.client = Controllers(self.url())
        self.sample = self.read("workload.yaml")
        for each in self.sample:
            if each["metadata"]["name"] in SMALLER and "replicas" in each["spec"]:
                each["spec"]["replicas"] = SMALLER[each["metadata"]["name"]]
        self.auditor = Auditor(self.client, TEAMS, patience=80, pause=0.3, may_be_away=True)
        self.operations = Operations(self.client, seed, self.sample, self, pause=(0.1, 0.6), between=5)
        self.asked = queue.SimpleQueue()

    @staticmethod
    def read(name):
        with open(os.path.join(SAMPLES, name), encoding="utf-8") as f:
            return list(yaml.safe_load_all(f))

    def url(self):
        with open(self.standalone.kubeconfig, encoding="utf-8") as f:
            return yaml.safe_load(f)["clusters"][0]["cluster"]["server"]

    def kill(self, _):
        self.asked.put(True)
        return "kill -9"

    def tend(self):
        if not self.asked.empty():
            self.asked.get()
            self.standalone.kill()
            self.standalone.start()
            self.client.host = self.url().split("//")[1]
        try:
            self.client.tend()
        except Refused as refused:
            print(f"        {refused}", flush=True)
        time.sleep(0.2)

    def running(self):
        self.tend()
        there = [each for team in TEAMS for each in self.client.items(pods(team))]
        counts = {name: sum(each["metadata"]["labels"]["app"] == name and each["status"].get("phase") == "Running" for each in there) for name in SMALLER}
        return counts == SMALLER and all(each["status"].get("phase") in ("Running", "Succeeded", "Failed") for each in there)

    def waiting(self):
        """Describes for each pod that does not run its own messages and those of its claims."""
        picture = self.auditor.check()
        return "".join(f"\n  {each['metadata']['name']} on {each['spec'].get('nodeName')}: {each['status'].get('conditions')} "
                       f"{[(claim['metadata']['name'], claim.get('status')) for claim in picture.claims_of(each)]}"
                       for each in picture.pods if each["status"].get("phase") != "Running")

    def left(self):
        self.tend()
        picture = self.auditor.check()
        return [*picture.devices, *[each["metadata"]["name"] for each in picture.claims], *rules.entries(picture),
                *[each["metadata"]["name"] for team in TEAMS for each in self.client.items(resource_claims(team))]]


def work(ground, report):
    for name in ("cluster.yaml", "workload.yaml"):
        for each in ground.sample if name == "workload.yaml" else ground.read(name):
            if each["kind"] != "PodDisruptionBudget":  # the embedded server treats evictions as deletions
                ground.client.apply(each)
    report.check("everything runs as applied", until(ground.running), ground.waiting())
    ground.auditor.start()
    ground.operations.start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ground.tend()
    ground.operations.over.set()
    ground.operations.join()
    ground.tend()
    report.check("the operations went on", not ground.operations.failure, ground.operations.failure)
    planted = reasons.Planted(ground.client, ground.operations.queue)
    report.check("pending claims report the correct reason", until(lambda: [ground.tend()] and not list(planted.wrong(ground.auditor.check()))),
                 list(planted.wrong(ground.auditor.check()))[:10])
    planted.away()
    ground.operations.restore()
    report.check("everything runs at rest", until(ground.running), ground.waiting())
    ground.auditor.over.set()
    ground.auditor.join()
    for path in list(ground.client.stored):
        ground.client.delete(path)
    ground.tend()
    report.check("nothing is left", until(lambda: not ground.left()), ground.left()[:10])
    print(f"operations {dict(ground.operations.done)}, refused {dict(ground.operations.refused)}; {len(ground.auditor.ran)} pods ran, "
          f"{len(ground.auditor.bound)} claims were bound, {len(ground.auditor.gangs)} gangs whole; checked {ground.auditor.checks} times; "
          f"what waited said {dict(ground.auditor.reasons)}; longest, in looks and seconds: {ground.auditor.lasted}")
    for what in ground.auditor.found:
        report.check("what must hold", False, what)


def main(bin_dir, seed):
    r = Report()
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="egpu-e2e-") as folder:  # the plugins' folder is beside the data
        ground = Ground(bin_dir, os.path.join(folder, "data"), seed)
        try:
            work(ground, r)
        finally:
            if r.failed:
                ground.standalone.dump_log()
            ground.standalone.clean()
    return r.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1))
