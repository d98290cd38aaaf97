#!/usr/bin/env python3
"""Proves claims on a real node: the agent publishes its cards and prepares bound claims, containers print the edits of their plugin even if processes are
killed meanwhile, and invalid requests are refused with a message.

agent_test.py BIN_DIR [VERSION]

VERSION: the kubelet's, 1.34, independent of the rest of the cluster.
"""

import collections
import json
import pathlib
import signal
import sys
import tempfile

import yaml

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import installation
import nodes
import parts
import real_node
import verify
from apiserver import Cluster, guarded
from client import GPUS, Report, resource_claims, claims, pods, until
from ground import FILE, GIB, MINORS, Ground, check_away, logs_if_it_fails, prepare_cluster, running_containers

SIMULATED_NODE = "gpu-0"
AT_ONCE = 30


def check_cards(ground):
    admin, report = ground.admin, ground.report

    def found():
        cards = [each["spec"]["card"] for each in admin.items(GPUS) if "card" in each["spec"]]
        return [each for each in cards if each["nodeName"] == real_node.NAME]

    until("cards are published", lambda: len(found()) == len(FILE))
    published = found()
    report.check("they are those of the machine", {each["uuid"] for each in published} == set(MINORS), published)
    report.check("with their memory, less the driver's, in whole MiB", {each["memory"] for each in published} == {81311 << 20}, published)


def check_samples(ground):
    """The seed samples run as users apply them."""
    samples = installation.MANIFESTS / "samples"
    installation.kubectl(ground.cluster, "apply", "-f", samples / "seed.yaml")
    installation.kubectl(ground.cluster, "apply", "-f", installation.SAMPLE_PODS)
    ground.runs("test-cuda-1", "test-cuda-2")
    for index in (1, 2):
        ground.check_promise(f"sample {index}", f"test-cuda-{index}", "test-cuda", f"gpushare-egpuc-{index}")
        cards = ground.device(f"gpushare-egpuc-{index}")["spec"]["cards"]
        shares = [(each["core"], each["memory"]) for each in cards]
        ground.report.check(f"sample {index}: 10 % and 4 GiB", shares == [(100, 4 * GIB)], shares)


def check_shapes(ground):
    """Containers can use claims in pods of every shape."""
    for name in ("a", "b", "c"):
        ground.claim(name)
    ground.pod("two-containers", {"first": ["a"], "second": ["b"]})
    ground.pod("shares-1", {"main": ["c"]})
    ground.pod("shares-2", {"main": ["c"]})
    ground.pod("inits", {"main": ["a"], "without": []}, init={"before": ["c"]})
    ground.runs("two-containers", "shares-1", "shares-2", "inits")
    ground.check_promise("the first of two containers", "two-containers", "first", "a")
    ground.check_promise("the second of two containers", "two-containers", "second", "b")
    for name in ("shares-1", "shares-2"):
        ground.check_promise(f"{name} of two pods with one claim", name, "main", "c")
    ground.check_promise("an init container", "inits", "before", "c")
    ground.check_promise("the container after it", "inits", "main", "a")
    environment, devices = ground.got("inits", "without")
    ground.report.check("a container without a claim gets nothing", not devices
                        and not any(each.startswith(("ELASTICGPU_", "NVIDIA_")) for each in environment), (environment, devices))
    before = ground.node.prepared()
    ground.report.check("each device has one file", len(before) == 5, list(before))
    ground.kubectl("exec", "shares-1", "--", "kill", "1")
    until("its container was started again", lambda: [
        each["restartCount"] for each in ground.admin.get(f"{pods()}/shares-1")["status"]["containerStatuses"] if each["ready"]] == [1])
    ground.check_promise("a container that was started again", "shares-1", "main", "c")
    ground.report.check("and nothing was prepared for it", ground.node.prepared() == before)
    ground.delete("shares-1")
    ground.report.check("one of two pods gone, the other's device stays", ground.node.prepared() == before)
    ground.delete("shares-2", "inits", "two-containers")
    until("the last pod gone, so is the device", lambda: len(ground.node.prepared()) == 2)


def check_mounts(ground):
    """isolation: hami-core, for a container that is not root: the plugin's mounts exist, and the container can write to its own."""
    node, folder, before = ground.node, ground.put_limiter(), ground.node.prepared()
    ground.claim("limited", cls="limited")
    ground.pod("limited", {"main": ["limited"]}, securityContext={"runAsUser": 1000, "runAsGroup": 1000})
    ground.runs("limited")
    ground.check_promise("a limited container", "limited", "main", "limited", isolation="hami-core")
    limit = ground.got("limited", "main")[0].get("CUDA_DEVICE_MEMORY_LIMIT_0")
    ground.report.check("a limited container: its limit", limit == "4096m", limit)
    output = ground.kubectl("exec", "limited", "--", "sh", "-c", "cat /etc/ld.so.preload /usr/local/vgpu/libvgpu.so && mkdir /tmp/vgpu/below && "
                          "echo x > /tmp/vgpu/below/usage.cache && echo x > /tmp/vgpulock/lock && rm /tmp/vgpulock/lock && echo written")
    ground.report.check("it reads the limiter's files, and writes its cache and the lock, though it is not root",
                        output.split() == ["/usr/local/vgpu/libvgpu.so", "a", "library", "written"], output)
    ground.delete("limited")
    until("its device is gone", lambda: node.prepared() == before)
    left = [str(each) for each in node.namespaces.path(f"{folder}/cache").iterdir()]
    ground.report.check("and all that it left on the disk", not left, left)


def check_usage(ground):
    """A container's process computes on its card according to the fake NVML: card and claim report that."""
    node, pod, name = ground.node, "test-cuda-1", "gpushare-egpuc-1"
    device = ground.device(name)
    card = device["spec"]["cards"][0]
    container = ground.admin.get(f"{pods()}/{pod}")["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    tasks = [line.split() for line in node.ctr("tasks", "ls").splitlines()]
    pid = next(int(each[1]) for each in tasks if each[:1] == [container])
    hardware = yaml.safe_load(real_node.A100.read_text())
    for each in hardware["devices"]:
        if each["uuid"] == card["uuid"]:
            each |= {"sm": 40, "processes": [[pid, GIB, 30]]}
    busy = node.folder / "busy.yaml"
    busy.write_text(yaml.safe_dump(hardware))
    node.put_in_cards(busy)

    def used():
        return ground.admin.get(f"{GPUS}/{card['name']}")["status"].get("usage", {})

    until("the card's status names who uses it", lambda: used().get("devices"))  # the agent measures every 15 s
    usage = {key: used()[key] for key in ("memory", "smPercent", "devices")}
    ground.report.check("what is used of the card, and by whom", usage == {
        "memory": GIB, "smPercent": 40, "devices": {device["metadata"]["uid"]: {"memory": GIB, "smPercent": 30}}}, usage)
    until("the claim reports its usage", lambda: "usage" in ground.admin.get(f"{claims()}/{name}")["status"])
    text = ground.kubectl("get", "egpuc", name, "-o", "wide", "--no-headers")
    ground.report.check("and kubectl get -o wide shows it", "30%, 1Gi" in text, text)
    node.put_in_cards(real_node.A100)


def check_killed(ground):
    """kill -9 of each process, and of all at once: running containers continue, later requests are answered, nothing is prepared twice."""
    for index, names in enumerate((["agent"], ["kubelet"], ["containerd"], ["containerd", "kubelet", "agent"])):
        before, containers = ground.node.prepared(), running_containers(ground)
        claim, pod = f"killed-{index}", f"after-{'-'.join(names)}"
        ground.node.kill(*names)
        ground.claim(claim)
        ground.pod(pod, {"main": [claim]})  # created while they are down
        ground.node.restart(*names)
        ground.runs(pod)
        ground.check_promise(f"{', '.join(names)} killed", pod, "main", claim)
        after = ground.node.prepared()
        ground.report.check(f"{', '.join(names)} killed: what was prepared is as it was", before.items() <= after.items()
                            and len(after) == len(before) + 1, (list(before), list(after)))
        ground.report.check(f"{', '.join(names)} killed: running containers continue", containers.items() <= running_containers(ground).items())
        ground.delete(pod)
        until("its device is gone", lambda before=before: ground.node.prepared() == before)
    # Deleted while the agent is down: unprepared after its return.
    ground.claim("late")
    ground.pod("goes", {"main": ["late"]})
    ground.runs("goes")
    ground.node.kill("agent")
    ground.admin.delete(f"{pods()}/goes")
    ground.node.restart("agent")
    until("what was deleted meanwhile is unprepared", lambda: len(ground.node.prepared()) == 2)


def check_refused(ground):
    """Pods that bypass the scheduler with claims that they may not use here are refused."""
    admin, prepared = ground.admin, ground.node.prepared()
    # A claim bound on another node.
    nodes.publish(admin, [SIMULATED_NODE], 1, model="H100-SXM5-80GB")
    ground.claim("elsewhere", cls="there")
    until("it is bound there", lambda: admin.get(f"{claims()}/elsewhere").get("status", {}).get("phase") == "Bound")
    ground.pod("wrong-node", {"main": ["elsewhere"]}, nodeName=real_node.NAME)
    ground.refused("a claim on another node", "wrong-node", SIMULATED_NODE)
    ground.claim("moved")
    ground.pod("before", {"main": ["moved"]})
    ground.runs("before")
    ground.delete("before")
    until("it is given back, and stays bound", lambda: ground.node.prepared() == prepared)
    # The controller would repair the following cases immediately; the node must not depend on that.
    ground.cluster.processes.pause("controller")
    # A forged ResourceClaim: written by a tenant, with an allocation that names another user's device.
    device = ground.device("gpushare-egpuc-1")["metadata"]["name"]
    admin.create(resource_claims(), {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "forged"},
                              "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "elasticgpu.io"}}]}}})
    allocation = {"devices": {"results": [{"request": "gpu", "driver": "elasticgpu.io", "pool": real_node.NAME, "device": device}]},
                  "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                      {"key": "metadata.name", "operator": "In", "values": [real_node.NAME]}]}]}}
    admin.patch(f"{resource_claims()}/forged/status", {"status": {"allocation": allocation}})
    ground.pod("forger", {"main": ["forged"]}, nodeName=real_node.NAME)
    ground.refused("a forged ResourceClaim", "forger", "not owned by an ElasticGPUClaim")
    # A moved claim: its ResourceClaim's allocation now belongs to another claim.
    its = admin.get(f"{resource_claims()}/moved")["status"]["allocation"]
    for changed in (None, allocation):
        admin.patch(f"{resource_claims()}/moved/status", {"status": {"allocation": changed}})
    ground.pod("mover", {"main": ["moved"]}, nodeName=real_node.NAME)
    ground.refused("a claim that has moved", "mover", "is not the device of ElasticGPUClaim default/moved", "default/gpushare-egpuc-1")
    ground.delete("mover")
    until("it is not reserved", lambda: not admin.get(f"{resource_claims()}/moved").get("status", {}).get("reservedFor"))
    # A claim without a ledger entry.
    device = ground.device("late")
    card, uid = f"{GPUS}/{device['spec']['cards'][0]['name']}", device["metadata"]["uid"]
    entry = admin.get(card)["spec"]["allocations"][uid]
    admin.patch(card, {"spec": {"allocations": {uid: None}}})
    ground.pod("unentered", {"main": ["late"]})
    ground.refused("a claim without its entry in the ledger", "unentered", "no entry", "ledger")
    admin.patch(card, {"spec": {"allocations": {uid: entry}}})
    ground.runs("unentered")  # valid at the next attempt
    ground.delete("unentered")
    until("its device is gone", lambda: ground.node.prepared() == prepared)
    ground.cluster.processes.resume("controller")
    until("the controller writes the moved claim's allocation anew",
          lambda: admin.get(f"{resource_claims()}/moved").get("status", {}).get("allocation", {}).get("devices") == its["devices"])
    ground.report.check("for none of them anything was prepared", ground.node.prepared() == prepared, list(ground.node.prepared()))
    ground.delete("wrong-node", "forger")


def check_at_once(ground):
    names = [f"once-{index:02}" for index in range(AT_ONCE)]
    for name in names:
        ground.claim(name, core=5, memory=1)
        ground.pod(name, {"main": [name]})
    ground.runs(*names)
    shared = collections.Counter(each["uuid"] for name in names for each in ground.device(name)["spec"]["cards"])
    for name in names:
        environment, _ = ground.got(name, "main")
        if environment.get("ELASTICGPU_CLAIM") != f"default/{name}":
            ground.report.check(f"{name} has its own claim", False, environment)
    ground.report.check(f"{AT_ONCE} pods at once share four cards, each with its own claim", sum(shared.values()) == AT_ONCE, shared)
    found = verify.violations(verify.World(ground.admin))
    ground.report.check("nothing is swapped, lost or double-booked", not found, found[:10])
    ground.delete(*names)


def check_manners(ground):
    """The API server's audit log shows that none of the agent's requests was refused, and that it wrote cards only when something changed."""
    text = ground.cluster.audit_log.read_text().splitlines()
    asked = [each for each in map(json.loads, text) if each["user"]["username"].endswith(f":{real_node.AGENT}")]
    refused = {(each["verb"], each["objectRef"]["resource"]) for each in asked if each["responseStatus"]["code"] == 403}
    ground.report.check("the agent asks for nothing that it may not", asked and not refused, refused)
    starts = (ground.node.folder.parent / f"{real_node.NAME}-agent.log").read_text().count('msg="starting"')
    written = [each for each in asked if each["objectRef"].get("resource") == "elasticgpus" and each["verb"] in ("create", "patch")]
    ground.report.check("it writes a card and its status once a start, and else what changed", len(written) <= 2 * len(FILE) * starts,
                        (len(written), starts))


def main():
    bin_dir = pathlib.Path(sys.argv[1]).resolve()
    version = sys.argv[2] if len(sys.argv) > 2 else None
    real_node.permitted(version)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-agent-") as folder, Cluster(folder, wanted=parts.WHOLE, audit=True) as cluster:
        installation.apply_manifests(cluster)
        node = real_node.RealNode(cluster, version=version).start(installation.client_of(cluster))
        ground = Ground(cluster, node, report)
        with logs_if_it_fails(cluster):
            prepare_cluster(cluster, node, bin_dir, "--usage-interval=1s")
            for part in (check_cards, check_samples, check_mounts, check_usage, check_shapes, check_killed, check_refused, check_at_once,
                         check_away, check_manners):
                part(ground)
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
