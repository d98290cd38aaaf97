#!/usr/bin/env python3
"""Proves on a real node that each lasting fault of a card, an agent or its surroundings fires its alert and no other one, by the unchanged rules of
manifests/monitoring, and that no alert fires before the first fault and after each.

agent_alerts_test.py BIN_DIR                 each fault of FAULTS once
agent_alerts_test.py BIN_DIR --only NAME...  these, in this order

Needs promtool (`make tools`) and a machine on which the real node runs.
"""

import argparse
import contextlib
import pathlib
import signal
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# flake8: noqa: E402  (the cluster's modules are in other folders)
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "soak")]

import alert_recorder
import installation
import node_faults_test
import parts
import real_node
import tools
from apiserver import Cluster, guarded
from client import Report, until
from ground import FILE, GIB, logs_if_it_fails, prepare_cluster
from node_faults_test import CARDS, CDI, FaultyGround, fill, port_of
from tcp_gate import Gate, Loop

INTERVAL = 1.0  # seconds between two samples
STRETCH = 20  # a sample counts for a third of a minute
MINUTE = 60 / STRETCH  # seconds
IDLE_STRETCH = 900  # for idle claims: a sample counts for a quarter of an hour
MEASURED = 16  # seconds until the agent has measured again
AGENT = "elastic-gpu-agent"
HOT, COOL = 90, 40  # °C


class Exporter:
    """A dcgm-exporter: the temperatures of the cards."""

    def __init__(self):
        self.celsius = dict.fromkeys((each["uuid"] for each in FILE), COOL)
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                text = "".join(f'DCGM_FI_DEV_GPU_TEMP{{gpu="{index}",UUID="{uuid}"}} {celsius}\n' for index, (uuid, celsius) in enumerate(exporter.celsius.items()))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def address_of(node):
    """Returns the agent's present address; that of nothing while it is not running."""
    with contextlib.suppress(OSError):
        return (node.folder / "agent.ops").read_text().strip().removeprefix("http://")
    return "127.0.0.1:1"


def pass_time(ground, seconds):
    """Counts time in samples, because on a loaded machine they are more than an interval apart."""
    end = ground.recorder.now() + seconds / INTERVAL
    while ground.recorder.now() < end:
        time.sleep(0.2)


def agent_killed(ground, seconds):
    ground.node.kill("agent")
    pass_time(ground, seconds)
    ground.node.restart("agent")


def disk_full(ground, seconds):
    """The file system of the CDI files is full, and pods with claims arrive."""
    node = ground.node
    node.namespaces.run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", CDI)
    fill(node.namespaces.path(CDI), 0)
    names = [f"no-space-{index}" for index in range(6)]
    for name in names:
        ground.claim(name)
        ground.pod(name, {"main": [name]})
    pass_time(ground, seconds)
    (node.namespaces.path(CDI) / "filler").unlink()
    ground.remove(*names)
    node.namespaces.run("umount", CDI)
    node.kill("containerd")
    node.restart("containerd")  # otherwise it would watch the other folder


def api_server_slow(ground, seconds):
    """Each answer of the API server reaches the agent after seconds, and pods with claims arrive."""
    end = ground.recorder.now() + seconds / INTERVAL
    ground.gates["agent"].delay(1.5)
    names = []
    while ground.recorder.now() < end:
        names.append(f"slow-{len(names)}")
        ground.claim(names[-1])
        ground.pod(names[-1], {"main": [names[-1]]})
        ground.runs(names[-1])
    ground.gates["agent"].heal()
    ground.remove(*names)


@contextlib.contextmanager
def container(ground, name, place):
    """A pod with a claim on that card. Yields the number of its container's process."""
    ground.claim_of(name, "here", card=CARDS[place])
    ground.pod(name, {"main": [name]})
    ground.runs(name)
    yield ground.processes()[ground.container_of(name)]
    ground.hardware({})
    pass_time(ground, MEASURED)
    ground.remove(name)


def memory_exceeded(ground, seconds):
    """A container without a limiter uses more memory than its claim grants."""
    with container(ground, "greedy", 0) as process:
        ground.hardware({0: {"sm": 30, "processes": [[process, 6 * GIB, 30]]}})
        pass_time(ground, seconds)


def card_hot(ground, seconds):
    with container(ground, "hot", 1) as process:
        ground.hardware({1: {"sm": 90, "processes": [[process, GIB, 90]]}})
        pass_time(ground, MEASURED)
        ground.exporter.celsius[FILE[1]["uuid"]] = HOT
        pass_time(ground, seconds)
        ground.exporter.celsius[FILE[1]["uuid"]] = COOL


def foreign_program(ground, seconds):
    """A program outside of pods computes on a card. The agent fences the card, which is an alert, too."""
    ground.node.processes.start("stranger", ["sleep", "100000"], inside=ground.node.namespaces)
    stranger = node_faults_test.number_inside(ground.node.processes.children["stranger"].pid)
    ground.hardware({3: {"sm": 50, "processes": [[stranger, GIB, 50]]}})
    pass_time(ground, seconds)
    ground.node.processes.stop("stranger")
    ground.hardware({})
    until("the card is used again", lambda: ground.healthy(3)["status"] == "True")


def card_with_xid(ground, seconds):
    """The driver reports an error after which a card has to be reset, and the operator has it repaired."""
    ground.hardware({2: {"xids": [46]}})
    until("the card is taken out", lambda: ground.healthy(2)["reason"] == "Xid46")
    pass_time(ground, seconds)
    ground.hardware({})
    ground.admin.patch(f"{node_faults_test.GPUS}/{CARDS[2]}", {"metadata": {"annotations": {"elasticgpu.io/repaired": "Xid46"}}})
    until("it is used again", lambda: ground.healthy(2)["status"] == "True")


def idle(ground, seconds):
    """A container holds memory of its card, but does not compute."""
    with container(ground, "idle", 0) as process:
        ground.hardware({0: {"processes": [[process, GIB, 0]]}})
        pass_time(ground, seconds)
        ground.hardware({0: {"sm": 30, "processes": [[process, GIB, 30]]}})
        pass_time(ground, MEASURED)


# Fault → (its alerts, minutes of the recording that it lasts, minutes after it until the alerts end).
FAULTS = {
    agent_killed: (["ElasticGPUAgentDown"], 7, 2),
    disk_full: (["ElasticGPUPrepareFails"], 20, 17),
    api_server_slow: (["ElasticGPUPrepareSlow"], 25, 17),
    memory_exceeded: (["ElasticGPUMemoryOverLimit"], 13, 1),
    card_hot: (["ElasticGPUCardHot"], 12, 1),
    foreign_program: (["ElasticGPUCardSharedWithoutClaim", "ElasticGPUCardsQuarantined"], 22, 6),
    card_with_xid: (["ElasticGPUCardsQuarantined"], 12, 2),
}
HEALTHY = 4  # minutes before the first fault
IDLE = 8 * 60  # minutes of idleness, at IDLE_STRETCH


def inflict(ground, recorder, chosen):
    """Yields (name, expected alerts, first sample, sample after the last) of the healthy time and of each fault."""
    first = recorder.now()
    pass_time(ground, HEALTHY * MINUTE)
    yield "healthy", [], first, recorder.now()
    for fault in chosen:
        alerts, lasts, ends = FAULTS[fault]
        first = recorder.now()
        fault(ground, lasts * MINUTE)
        pass_time(ground, ends * MINUTE)
        yield fault.__name__, alerts, first, recorder.now()


def inflict_idle(ground, recorder):
    first = recorder.now()
    idle(ground, MEASURED + IDLE * 60 / IDLE_STRETCH)
    yield "idle", ["ElasticGPUClaimIdle"], first, recorder.now()


def check(report, phases, firing):
    for name, alerts, first, end in phases:
        seen = sorted({each for sample in firing[first:end] for each in sample})
        report.check(f"{name}: {' and '.join(alerts) or 'no alert'} fires, and no other", seen == sorted(alerts), seen)
        report.check(f"{name}: no alert fires at its end", not firing[end - 1], firing[end - 1])


def record(ground, targets, act, stretch, report):
    """Records while act(recorder) yields its phases, and checks the alerts of the recording."""
    recorder = ground.recorder = alert_recorder.Recorder(targets, INTERVAL)
    try:
        phases = list(act(recorder))
    finally:
        recorder.end()
    check(report, phases, alert_recorder.firing(recorder, stretch))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir", type=pathlib.Path)
    by_name = {each.__name__: each for each in (*FAULTS, idle)}
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(by_name), help="names of faults")
    options = parser.parse_args()
    tools.tool("promtool")  # skips the test at once
    real_node.permitted(None)
    chosen = [by_name[name] for name in options.only or by_name]
    report = Report()
    bin_dir = options.bin_dir.resolve()
    with tempfile.TemporaryDirectory(prefix="egpu-alerts-") as folder, Cluster(folder, wanted=parts.WHOLE) as cluster:
        installation.apply_manifests(cluster)
        loop = Loop()
        gates = {each: Gate(loop, port_of(cluster)) for each in ("kubelet", "agent")}
        node = real_node.RealNode(cluster, servers={each: f"https://127.0.0.1:{gate.port}" for each, gate in gates.items()})
        node.start(installation.client_of(cluster))
        ground = FaultyGround(cluster, node, report, gates, bin_dir)
        ground.exporter = Exporter()
        with logs_if_it_fails(cluster):
            prepare_cluster(cluster, node, bin_dir, f"--probation={node_faults_test.PROBATION}s")
            until("cards are published", lambda: all(ground.healthy(place)["status"] == "True" for place in range(len(CARDS))))
            operations = (cluster.folder / "controller.address").read_text().strip().removeprefix("http://")
            targets = {"controller": ("elastic-gpu-system/elastic-gpu-controller", operations), "dcgm": ("dcgm-exporter", ground.exporter.address),
                       "agent": (f"elastic-gpu-system/{AGENT}", lambda: address_of(node))}
            record(ground, targets, lambda recorder: inflict(ground, recorder, [each for each in chosen if each is not idle]), STRETCH, report)
            if idle in chosen:
                record(ground, targets, lambda recorder: inflict_idle(ground, recorder), IDLE_STRETCH, report)
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
