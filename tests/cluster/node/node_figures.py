#!/usr/bin/env python3
"""Measures the agent's resource use on a real node. Prints figures without targets.

node_figures.py BIN_DIR [--cards N] [--pods N…]   default: 8 cards; 1, 30 and 100 pods at once

Prepare and unprepare are from the agent's own histograms, from the request to its answer: a quantile lies between the two printed bounds. Beside it are the
plugins' own time, which is part of it, and the time of an API server read from this script in the same minute. CDI files are in memory, as on any node with
/run in memory. CPU and memory are those of the agent and its plugins' processes.
"""

import argparse
import datetime
import pathlib
import re
import signal
import sys
import tempfile
import time

import yaml

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import installation
import parts
import real_node
from apiserver import Cluster, guarded
from client import GPUS, Report, pods, until
from ground import Ground, logs_if_it_fails, prepare_cluster
from processes import used

CLAIMS = 100  # prepared while the node is idle
IN_A_POD = 10
IDLE = 60  # seconds


def hardware(count, path):
    """Writes a file with that many A100 without links."""
    file = yaml.safe_load(real_node.A100.read_text())
    file["devices"] = [{"uuid": f"GPU-a1000000-0000-4000-8000-{index:012}", "minor": index, "pci": f"0000:{index + 1:02x}:00.0",
                        "numa": index % 2, "path": [f"pci0000:{index:02x}"]} for index in range(count)]
    del file["nvlinks"]
    path.write_text(yaml.safe_dump(file))
    return path


class Took:
    """A histogram of the agent: since its start, or since an earlier snapshot."""

    # Measurement → its metric, with the required label.
    MEASURED = {"prepare": ("elasticgpu_agent_prepare_seconds", 'result="ok"'), "unprepare": ("elasticgpu_agent_unprepare_seconds", 'result="ok"'),
                **{slot: ("elasticgpu_plugin_call_seconds", f'slot="{slot}"') for slot in ("stage", "mount")}}

    def __init__(self, text, what):
        name, label = self.MEASURED[what]
        self.counts, self.sum = {}, 0.0  # upper bound → number of calls within it; seconds
        for kind, labels, value in re.findall(rf"^{name}_(bucket|sum)\{{([^}}]*)\}} (\S+)", text, re.MULTILINE):
            if label not in labels:
                continue
            if kind == "sum":
                self.sum += float(value)
            else:
                bound = float(re.search('le="([^"]+)"', labels).group(1))
                self.counts[bound] = self.counts.get(bound, 0) + float(value)

    def since(self, before):
        for bound in self.counts:
            self.counts[bound] -= before.counts.get(bound, 0)
        self.sum -= before.sum
        return self

    def quantile(self, share):
        """Returns the two bounds, in milliseconds, between which the quantile lies."""
        below = 0.0
        for bound, count in sorted(self.counts.items()):
            if count >= share * self.counts[float("inf")]:
                break
            below = bound
        return f"{below * 1000:g} – {bound * 1000:g}"

    def __str__(self):
        count = self.counts.get(float("inf"), 0)
        if not count:
            return "none"
        quantiles = ", ".join(f"p{share * 100:g} {self.quantile(share)}" for share in (0.5, 0.99))
        return f"mean {self.sum / count * 1000:.1f}, {quantiles} ms, {self.counts[0.1]:g} of {count:g} within 100 ms"


def measured(node):
    text = node.ask_agent("/metrics")[1]
    return {what: Took(text, what) for what in Took.MEASURED}


def started(node):
    """Milliseconds from the agent's first log line to its last new card."""
    log = (node.folder.parent / f"{node.name}-agent.log").read_text()
    when = {what: [datetime.datetime.fromisoformat(each.replace("Z", "+00:00")) for each in
                   re.findall(rf'^time=(\S+) level=info msg="{what}"', log, re.MULTILINE)] for what in ("starting", "card published")}
    return (when["card published"][-1] - when["starting"][-1]).total_seconds() * 1000


def reads(admin):
    """Median of 50 reads, in milliseconds."""
    took = []
    for _ in range(50):
        began = time.monotonic()
        admin.items(GPUS, "&labelSelector=elasticgpu.io/role=card")
        took.append((time.monotonic() - began) * 1000)
    return sorted(took)[len(took) // 2]


def family(pid):
    """The process and its descendants."""
    parents = {}
    for each in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(each.parts[2]))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def at_once(ground, count):
    """Measures prepare and unprepare of that many pods with a claim each."""
    names = [f"of-{count}-{index:03}" for index in range(count)]
    for name in names:
        ground.claim(name, core=5, memory=1)
    before = measured(ground.node)
    began = time.monotonic()
    for name in names:
        ground.pod(name, {"main": [name]})
    until(f"{count} pods run", lambda: sum(each["status"]["phase"] == "Running" for each in ground.admin.items(pods())) == count, 900)
    running = time.monotonic() - began
    ground.delete(*names)
    for what, took in measured(ground.node).items():
        print(f"{count} pods, {what}: {took.since(before[what])}", flush=True)
    print(f"{count} pods: all run after {running:.1f} s; a read takes {reads(ground.admin):.1f} ms", flush=True)
    for name in names:
        ground.admin.delete(f"/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaims/{name}")


def idle(ground, cards):
    """Measures CPU and memory while claims are prepared and nothing happens."""
    for index in range(CLAIMS // IN_A_POD):
        names = [f"stands-{index}-{each}" for each in range(IN_A_POD)]
        for name in names:
            ground.claim(name, core=2, memory=1)
        # All of a pod's claims are prepared, regardless of the names in its containers.
        ground.pod(f"stands-{index}", {"main": names[:1]}, resourceClaims=[{"name": each, "resourceClaimName": each} for each in names])
    ground.runs(*(f"stands-{index}" for index in range(CLAIMS // IN_A_POD)))
    prepared = len(ground.node.prepared())
    agent = ground.node.processes.children[f"{ground.node.name}-agent"].pid
    everyone = family(agent)
    before = {each: used(each) for each in everyone}
    time.sleep(IDLE)
    after = {each: used(each) for each in everyone}
    for what, whose in (("agent", [agent]), ("plugins", everyone[1:])):
        cpu = sum(after[each][0] - before[each][0] for each in whose)
        print(f"{cards} cards, {prepared} claims prepared, {what}: {sum(after[each][1] for each in whose):.0f} MiB resident, "
              f"{cpu / IDLE * 1000:.1f} thousandths of a core", flush=True)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("bin_dir", type=pathlib.Path)
    flags.add_argument("--cards", type=int, default=8)
    flags.add_argument("--pods", type=int, nargs="*", default=[1, 30, 100])
    given = flags.parse_args()
    real_node.permitted()
    with tempfile.TemporaryDirectory(prefix="egpu-figures-") as folder, Cluster(folder, wanted=parts.WHOLE) as cluster:
        installation.apply_manifests(cluster)
        node = real_node.RealNode(cluster).start(installation.client_of(cluster))
        node.cards = hardware(given.cards, node.folder / "hardware.yaml")
        for command in (("mkdir", "-p", "/run/cdi"), ("mount", "-t", "tmpfs", "tmpfs", "/run/cdi")):
            node.namespaces.run(*command)
        ground = Ground(cluster, node, Report())
        with logs_if_it_fails(cluster):
            prepare_cluster(cluster, node, given.bin_dir.resolve())
            print(f"{given.cards} cards: published {started(node):.0f} ms after the agent's start", flush=True)
            for count in given.pods:
                at_once(ground, count)
            idle(ground, given.cards)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
