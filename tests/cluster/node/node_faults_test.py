#!/usr/bin/env python3
"""Proves that a real node survives faults: unhealthy or foreign-used cards, an agent killed at each step or upgraded, a slow or unreachable API server, a
full disk, a reboot. No claim is prepared twice or for the wrong pod, running containers are not touched, and nothing is left over.

node_faults_test.py BIN_DIR [VERSION] [--only NAME…]

VERSION: the kubelet's, 1.34, independent of the rest of the cluster. --only: these parts, named as the functions without check_.
"""

import contextlib
import copy
import os
import pathlib
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
import verify
from apiserver import Cluster, guarded
from client import CLASSES, GPUS, PATIENCE, Report, claims, pods, until
from ground import FILE, GIB, Ground, check_away, logs_if_it_fails, prepare_cluster, running_containers
from processes import used
from tcp_gate import Gate, Loop
from watch import DELETE, MOVED_TO, Watch

MOCK = "mock.provisioner.elasticgpu.io"
SLOW = 2000  # milliseconds of a step of the mock, long enough to kill a process in it; a mount may take 10 s
PROBATION = 10  # seconds
# Seconds. The kubelet's calls take at most 45; the agent waits 8 for the API server.
AWAY = int(os.environ.get("EGPU_API_AWAY", "40"))
# Without these tolerations pods are evicted five minutes after their node counts as unreachable.
STAYS = [{"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute"} for each in ("unreachable", "not-ready")]
CDI = "/run/cdi"
CARDS = [each["uuid"].lower() for each in FILE]  # names of the cards' objects, in NVML's order


def port_of(cluster):
    return int(cluster.url.rsplit(":", 1)[1])


class FaultyGround(Ground):
    """A Ground with a gate each for the kubelet and the agent, and hardware that can fail."""

    def __init__(self, cluster, node, report, gates, bin_dir):
        super().__init__(cluster, node, report)
        self.gates, self.bin_dir = gates, bin_dir
        self.port = port_of(cluster)

    def claim_of(self, name, cls, core=10, card=None):
        """Like claim(), for any provisioner, and on the named card."""
        self.admin.create(claims(), {
            "apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name},
            "spec": {"egpuClassName": cls, **({"elasticGPUName": card} if card else {}),
                     "resources": {"requests": {"elasticgpu.io/gpu-core": core, "elasticgpu.io/gpu-memory": 4}}}})

    def hardware(self, changes):
        """Sets the hardware. changes: a card's place → keys of the fake NVML's file. Other keys get their original values."""
        file = copy.deepcopy(yaml.safe_load(real_node.A100.read_text()))
        for place, keys in changes.items():
            file["devices"][place] |= keys
        beside = self.node.folder / "hardware.yaml"
        beside.write_text(yaml.safe_dump(file))
        self.node.put_in_cards(beside)

    def card(self, name):
        return self.admin.get(f"{GPUS}/{name}")["spec"]["card"]

    def healthy(self, place):
        """Returns the card's Healthy condition."""
        conditions = self.admin.get(f"{GPUS}/{CARDS[place]}").get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == "Healthy"), {"status": "", "reason": "", "message": ""})

    def are_healthy(self, name):
        """Returns the status of the Healthy condition of the claim and of its device; None if it is missing."""
        both = (self.admin.get(f"{claims()}/{name}"), self.device(name))
        return [next((condition["status"] == "True" for condition in each["status"].get("conditions", []) if condition["type"] == "Healthy"), None) for each in both]

    def resource_health(self, pod):
        """Returns the health that the kubelet reports for the claims of the first container: claim → (health, message)."""
        status = self.admin.get(f"{pods()}/{pod}")["status"]["containerStatuses"][0]
        return {each["name"].removeprefix("claim:"): (each["resources"][0]["health"], each["resources"][0].get("message", ""))
                for each in status.get("allocatedResourcesStatus", []) if each.get("resources")}

    def binds(self, *names):
        """Waits until the claims are bound. Returns the names of their devices' CDI files."""
        for name in names:
            until(f"{name} is bound", lambda name=name: self.admin.get(f"{claims()}/{name}").get("status", {}).get("phase") == "Bound")
        return [f"elasticgpu.io-device_{self.device(name)['metadata']['uid']}.json" for name in names]

    def states(self, *files):
        """Returns the state of each device by its file's name: "none", "part" or "ready"."""
        there = self.node.cdi_files()
        return ["ready" if each in there else "part" if f"{each}.part" in there else "none" for each in files]

    def kill_between(self, who, *files, patience=120):
        """Sends SIGKILL while these devices are being prepared or unprepared. Returns their states at that moment."""
        deadline = time.monotonic() + patience
        while self.states(*files) != ["part"] * len(files):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {patience} s under way at once: {self.states(*files)}")
            time.sleep(0.02)
        self.node.kill(who)
        return self.states(*files)

    def settled(self, what, before):
        """Checks that the folder has exactly these files."""
        try:
            until(f"{what}: what is prepared is as it was", lambda: self.node.cdi_files() == before, patience=120)
        except AssertionError:
            self.report.check(f"{what}: nothing is left over, nothing else is gone", False, (list(self.node.cdi_files()), list(before)))

    def goes_on(self, what, containers):
        self.report.check(f"{what}: running containers continue", containers.items() <= running_containers(self).items(),
                          (containers, running_containers(self)))

    def names_its_claim(self, what, pod, claim):
        """Checks the variables that the mock promises."""
        environment, _ = self.got(pod, "main")
        given = (environment.get("ELASTICGPU_CLAIM"), environment.get("ELASTICGPU_DEVICE"))
        self.report.check(f"{what}: {pod} has its own claim", given == (f"default/{claim}", self.device(claim)["metadata"]["name"]), given)

    def remove(self, *names):
        """Deletes the pods and claims of these names."""
        self.delete(*names)
        for name in names:
            self.admin.delete(f"{claims()}/{name}")
        until("the claims are gone", lambda: not set(names) & {each["metadata"]["name"] for each in self.admin.items(claims())})

    def torn_away(self, pod):
        """Deletes the pod like `kubectl delete --force`, even if its containers run."""
        self.admin.call("DELETE", f"{pods()}/{pod}", {"gracePeriodSeconds": 0})

    def processes(self):
        """Returns the node's running containers: id → process number as the node sees it."""
        lines = [each.split() for each in self.node.ctr("tasks", "ls").splitlines()[1:]]
        return {each[0]: int(each[1]) for each in lines if each[2] == "RUNNING"}

    def container_of(self, pod):
        return self.admin.get(f"{pods()}/{pod}")["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")


def number_inside(pid):
    """Returns the process's number in its own namespace."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith("NSpid:")).split()[-1])


def check_health(ground):
    """A card with an XID, and a card that a process outside of pods and a pod without a claim on it use: both are withdrawn, and the reasons reported."""
    admin, report = ground.admin, ground.report
    for place, name in enumerate(("ill", "well", "beside")):
        ground.claim_of(name, "here", card=CARDS[place])
        ground.pod(name, {"main": [name]})
    ground.runs("ill", "well", "beside")
    until("the kubelet reports that all devices are healthy", lambda: all(
        ground.resource_health(each).get(each, ("",))[0] == "Healthy" for each in ("ill", "well", "beside")))
    containers, inside = running_containers(ground), ground.processes()
    ground.node.processes.start("stranger", ["sleep", "100000"], inside=ground.node.namespaces)
    stranger = number_inside(ground.node.processes.children["stranger"].pid)
    own, others = inside[ground.container_of("beside")], inside[ground.container_of("well")]
    began = time.monotonic()
    ground.hardware({0: {"xids": [46]}, 2: {"processes": [[own, GIB]]}, 3: {"processes": [[stranger, GIB], [others, GIB]]}})
    until("the card with the XID is taken out", lambda: ground.healthy(0)["reason"] == "Xid46")
    print(f"XID to condition: {time.monotonic() - began:.1f} s")
    until("the pod's status reports it", lambda: ground.resource_health("ill")["ill"][0] == "Unhealthy")
    print(f"XID to the pod's status: {time.monotonic() - began:.1f} s")
    has_reason = "Xid46" in ground.resource_health("ill")["ill"][1] or ground.node.version is not None  # older kubelets have no message
    report.check("the pod's status says why", has_reason, ground.resource_health("ill"))
    until("the strangers' card is fenced", lambda: ground.healthy(3)["reason"] == "ForeignUse")
    well, message = admin.get(f"{pods()}/well")["metadata"], ground.healthy(3)["message"]
    report.check("and says by whom", f"process {stranger} (sleep) outside of pods" in message and f"process {others} " in message
                 and f"of pod {well['namespace']}/{well['name']}" in message, message)
    for place in (1, 2):
        report.check(f"card {place} is left alone", ground.healthy(place)["status"] == "True", ground.healthy(place))
    report.check("the other pods' status reports healthy devices", ground.resource_health("well")["well"][0] == ground.resource_health("beside")["beside"][0]
                 == "Healthy", (ground.resource_health("well"), ground.resource_health("beside")))
    until("the claim and its device say it", lambda: ground.are_healthy("ill") == [False, False])
    report.check("those of the other pods need no word", ground.are_healthy("well") == [None, None], ground.are_healthy("well"))
    for index in range(2):
        ground.claim_of(f"new-{index}", "here", core=60)
        ground.binds(f"new-{index}")
    cards = {ground.device(f"new-{index}")["spec"]["cards"][0]["name"] for index in range(2)}
    report.check("new claims go to the two cards that are well", cards == {CARDS[1], CARDS[2]}, cards)
    ground.node.processes.stop("stranger")
    ground.hardware({0: {"xids": [46]}})
    until("the strangers gone, the card is on probation", lambda: ground.healthy(3)["reason"] == "Probation")
    ground.goes_on("cards fenced", containers)


def check_health_again(ground):
    """Runs after check_health, whose claims still exist. Only the operator's annotation restores the card with the XID."""
    ground.report.check("the card that was ill stays out", ground.healthy(0)["reason"] == "Xid46", ground.healthy(0))
    ground.admin.patch(f"{GPUS}/{CARDS[0]}", {"metadata": {"annotations": {"elasticgpu.io/repaired": "Xid46"}}})
    until("the card that was fenced is used again", lambda: ground.healthy(3)["status"] == "True")
    until("the card that was ill is on probation", lambda: ground.healthy(0)["reason"] in ("Probation", "Working"))
    message = ground.healthy(0)["message"]
    ground.report.check("it says for how long", f"after {PROBATION} quiet seconds" in message or ground.healthy(0)["status"] == "True", message)
    until("it is used again", lambda: ground.healthy(0)["status"] == "True")
    until("the pod's status reports it", lambda: ground.resource_health("ill")["ill"][0] == "Healthy")
    until("the claim and its device say it", lambda: ground.are_healthy("ill") == [True, True])
    ground.remove("ill", "well", "beside")
    for index in range(2):
        ground.admin.delete(f"{claims()}/new-{index}")
    ground.hardware({})


def check_late(ground):
    """The agent's API access is slow: its cache is stale, and each request takes seconds. A claim is recreated under its name, and cards change under the
    claims bound to them."""
    ground.claim("anew")
    ground.pod("anew", {"main": ["anew"]})
    ground.runs("anew")
    before, old = ground.node.cdi_files(), ground.device("anew")["metadata"]
    ground.gates["agent"].delay(1.0)
    ground.remove("anew")
    names = ["anew", *(f"late-{index}" for index in range(5))]
    memory = {name: ground.card(name)["memory"] for name in CARDS}
    for name in names:
        ground.claim(name)
    ground.hardware({index: {"reserved": GIB, "xids": [92] if index == 0 else []} for index in range(len(CARDS))})
    for name in names:
        ground.pod(name, {"main": [name]})
    ground.runs(*names)
    report = ground.report
    report.check("a claim made anew has another device", ground.device("anew")["metadata"]["uid"] != old["uid"])
    for name in names:
        ground.check_promise(f"{name}, seen late", name, "main", name)
    files = ground.node.cdi_files()
    report.check("the old device is not prepared any more", not any(old["uid"] in name for name in files)
                 and len(files) == len(before) + len(names) - 1, (list(before), list(files)))
    until("the cards are written anew", lambda: all(ground.card(name)["memory"] < memory[name] for name in CARDS))
    found = verify.violations(verify.World(ground.admin))
    report.check("written late, nothing is lost of the ledgers", not found, found[:10])
    ground.gates["agent"].heal()
    ground.hardware({0: {"xids": [92]}})
    ground.remove(*names)
    ground.settled("seen late", {name: text for name, text in before.items() if old["uid"] not in name})


def slow_class(ground, at):
    ground.admin.create(CLASSES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": f"slow-{at}"},
                                  "provisioner": MOCK, "egpuBindingMode": "Immediate", "reclaimPolicy": "Delete",
                                  "parameters": {"model": "A100-SXM4-80GB", "at": at, "latencyMs": str(SLOW)}})


def killed_preparing(ground, who):
    """kill -9 in stage and in mount of two claims at once. Returns the claims' names."""
    names = [f"{who}-in-{at}" for at in ("stage", "mount")]
    containers = running_containers(ground)
    for name, at in zip(names, ("stage", "mount")):
        ground.claim_of(name, f"slow-{at}")
    files = ground.binds(*names)
    for name in names:
        ground.pod(name, {"main": [name]})
    states = ground.kill_between(who, *files)
    # When the kubelet dies, the agent notices and aborts; when the agent dies, all files stay as they are.
    ground.report.check(f"{who} killed in stage and mount", states == ["part", "part"] or who == "kubelet", states)
    ground.node.restart(who)
    ground.runs(*names)
    for name in names:
        ground.names_its_claim(f"{who} killed", name, name)
    ground.goes_on(f"{who} killed in stage and mount", containers)
    return names


def killed_unpreparing(ground, who):
    """kill -9 in unmount and in unstage. Returns the claims' names."""
    names = [f"{who}-in-{at}" for at in ("unmount", "unstage")]
    for name, at in zip(names, ("unmount", "unstage")):
        ground.claim_of(name, f"slow-{at}")
    files = ground.binds(*names)
    for name in names:
        ground.pod(name, {"main": [name]})
    ground.runs(*names)
    for name in names:
        ground.admin.delete(f"{pods()}/{name}")
    states = ground.kill_between(who, *files)
    ground.report.check(f"{who} killed in unmount and unstage", states == ["part", "part"] or who == "kubelet", states)
    ground.node.restart(who)
    until("the pods are gone", lambda: not set(names) & {each["metadata"]["name"] for each in ground.admin.items(pods())})
    return names


def killed_once(ground, who, name):
    """kill -9 at the moment when a claim is prepared: not yet answered, or not yet used."""
    ground.claim(name)
    ground.binds(name)
    with Watch(ground.node.folder / CDI.lstrip("/")) as watch:
        ground.pod(name, {"main": [name]})
        watch.wait(MOVED_TO, ".json")
        ground.node.kill(who)
    ground.node.restart(who)
    ground.runs(name)
    ground.check_promise(f"{who} killed once it was prepared", name, "main", name)


def check_steps(ground):
    """kill -9 of agent, kubelet and containerd, each at a step of prepare or unprepare, beside running pods."""
    node, report = ground.node, ground.report
    for at in ("stage", "mount", "unmount", "unstage"):
        slow_class(ground, at)
    ground.claim("bystander")
    ground.pod("bystander", {"main": ["bystander"]})
    ground.runs("bystander")
    before, containers = node.cdi_files(), running_containers(ground)
    names = [*killed_preparing(ground, "agent"), *killed_preparing(ground, "kubelet")]
    for who, name in (("agent", "not-answered"), ("containerd", "not-used")):
        killed_once(ground, who, name)
        names.append(name)
    files = node.cdi_files()
    report.check("each device has one file", len(files) == len(before) + len(names) and before.items() <= files.items()
                 and all(each.endswith(".json") for each in files), list(files))
    gone = [*killed_unpreparing(ground, "agent"), *killed_unpreparing(ground, "kubelet")]
    with Watch(node.folder / CDI.lstrip("/")) as watch:
        ground.admin.delete(f"{pods()}/not-answered")
        watch.wait(DELETE, ".part")
        node.kill("agent")
    node.restart("agent")
    until("the pod is gone", lambda: not ground.admin.exists(f"{pods()}/not-answered"))
    ground.delete(*(each for each in names if each != "not-answered"))
    ground.settled("killed at each step", before)
    ground.goes_on("killed at each step", containers)
    for each in (*names, *gone):
        ground.admin.delete(f"{claims()}/{each}")
    ground.remove("bystander")


def check_upgrade(ground):
    """The next agent starts before the current one ends, and the upgrade is reverted in the same way."""
    node, report = ground.node, ground.report
    ground.claim("kept")
    ground.pod("kept", {"main": ["kept"]})
    ground.runs("kept")
    before, containers = node.cdi_files(), running_containers(ground)
    names = [f"upgraded-{index}" for index in range(3)]
    for name in names:
        ground.claim(name)
    node.start_agent(ground.bin_dir, f"--probation={PROBATION}s", name="next-agent")
    until("the older agent reports that another one serves the socket", lambda: "another process serves there" in answer_of(node, "/readyz"))
    ground.pod(names[0], {"main": [names[0]]})
    ground.runs(names[0])
    node.processes.stop(f"{node.name}-agent")
    ground.pod(names[1], {"main": [names[1]]})
    ground.runs(names[1])
    report.check("the newer one stays registered", answer_of(node, "/readyz", "next-agent") == "ok\n", answer_of(node, "/readyz", "next-agent"))
    node.restart("agent")
    node.processes.stop(f"{node.name}-next-agent")
    ground.pod(names[2], {"main": [names[2]]})
    ground.runs(names[2])
    for name in ("kept", *names):
        ground.check_promise(f"{name}, agents exchanged", name, "main", name)
    after = node.cdi_files()
    report.check("agents exchanged: nothing was unprepared or prepared anew", before.items() <= after.items()
                 and len(after) == len(before) + len(names), (list(before), list(after)))
    ground.goes_on("agents exchanged", containers)
    ground.remove("kept", *names)
    ground.settled("agents exchanged", {})


def fill(folder, pages):
    """Fills the folder's file system except for that many pages."""
    filler = folder / "filler"
    filler.unlink(missing_ok=True)
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * os.sysconf("SC_PAGE_SIZE"))
    os.truncate(filler, filler.stat().st_size - pages * os.sysconf("SC_PAGE_SIZE"))


def check_full_disk(ground):
    """The file system of the CDI files is full. Call it when nothing is prepared."""
    node = ground.node
    node.namespaces.run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", CDI)
    node.kill("containerd")
    node.restart("containerd")  # otherwise it would watch the old folder
    folder = node.namespaces.path(CDI)
    fill(folder, 0)
    ground.claim("tight")
    ground.pod("tight", {"main": ["tight"]})
    ground.refused("a full disk", "tight", "tight", CDI, "No space left on device")
    ground.report.check("nothing is there of it", not node.cdi_files(), list(node.cdi_files()))
    fill(folder, 1)
    until("a page more, and it begins", lambda: ground.states(*ground.binds("tight")) == ["part"])
    ground.report.check("it does not end", [each for each in node.cdi_files() if not each.endswith(".part")] == [], list(node.cdi_files()))
    (folder / "filler").unlink()
    ground.runs("tight")
    ground.check_promise("room again", "tight", "main", "tight")
    fill(folder, 0)
    ground.remove("tight")
    ground.settled("unprepared on a full disk", {})
    (folder / "filler").unlink()
    node.namespaces.run("umount", CDI)
    node.kill("containerd")
    node.restart("containerd")


def lines_of(node, pod, container, run):
    """Returns the container's output of that run from the node's log file, without the API server; "" if there is none. Omits the root mount, which differs
    for each container."""
    files = list((node.folder / "log" / "pods").glob(f"default_{pod}_*/{container}/{run}.log"))
    lines = [each.split(" ", 3)[3] for each in files[0].read_text().splitlines()] if files else []
    return "\n".join(each for each in lines if not each.startswith("overlay / "))


def answer_of(node, path, agent="agent"):
    """Returns an agent's answer; "" if it does not answer yet."""
    try:
        return node.ask_agent(path, agent)[1]
    except OSError:
        return ""


def log_of(node):
    return (node.folder.parent / f"{node.name}-agent.log").read_text().splitlines()


def of_agent(node):
    """Returns (seconds of CPU so far, MiB resident) of the agent."""
    return used(node.processes.children[f"{node.name}-agent"].pid)


def largest_holders(ground, card, pod):
    """Returns the largest set of devices that had CDI files for the card at the same time, until the pod runs."""
    largest, deadline = set(), time.monotonic() + 300
    while ground.admin.get(f"{pods()}/{pod}")["status"]["phase"] != "Running":
        if time.monotonic() > deadline:
            raise AssertionError(f"{pod} does not run: {list(ground.node.cdi_files())}")
        # A device may have two files: the existing one and the one being written.
        largest = max(largest, {name.split(".json")[0] for name, text in ground.node.cdi_files().items() if card in text.lower()}, key=len)
        time.sleep(0.02)
    return largest


def check_api_away(ground):
    """The node cannot reach the API server; users can. Objects that they delete meanwhile are cleaned up afterwards."""
    node, report, admin = ground.node, ground.report, ground.admin
    names = ("calm", "restarted", "goes", "torn")
    for name in names:
        ground.claim_of(name, "here", core=100 if name == "torn" else 10)
        ground.pod(name, {"main": [name]}, tolerations=STAYS)
    ground.runs(*names)
    before, containers, inside = node.cdi_files(), running_containers(ground), ground.processes()
    old, card = ground.device("torn"), ground.device("torn")["spec"]["cards"][0]["name"]
    nowhere = parts.free_ports(1)[0]
    began = time.monotonic()
    for each in ground.gates.values():
        each.lead_to(nowhere)
    ended = ground.container_of("restarted")
    node.ctr("tasks", "kill", "--signal", "SIGKILL", ended)
    printed = lines_of(node, "restarted", "main", 0)
    report.check("what the node has of a container", "ELASTICGPU_CLAIM=default/restarted" in printed, printed)
    until("the kubelet starts it again by itself, and it gets what it had", lambda: lines_of(node, "restarted", "main", 1) == printed)
    node.kill("agent")
    node.restart("agent", wait=False)
    admin.delete(f"{pods()}/goes")
    ground.torn_away("torn")
    admin.delete(f"{claims()}/torn")
    until("the torn claim's device is gone", lambda: not admin.exists(f"{claims()}/torn"))
    # The same whole card again: in the API it has no holder, on the node it still has one.
    ground.claim_of("torn", "here", core=100, card=card)
    ground.pod("torn", {"main": ["torn"]}, tolerations=STAYS)
    until("the agent reports what it waits for", lambda: "not published" in answer_of(node, "/readyz"))
    seen_lines, (_, memory) = len(log_of(node)), of_agent(node)
    until("a while passes", lambda: time.monotonic() > began + AWAY, patience=AWAY + PATIENCE)
    lines, (cpu, after) = log_of(node)[seen_lines:], of_agent(node)
    print(f"{AWAY} s without the API server: the agent logged {len(lines)} lines and took {cpu:.1f} s of CPU; {memory:.0f} MiB before, {after:.0f} after")
    report.check("the agent says seldom that it waits", len(lines) < AWAY, lines[-20:])
    report.check("the API server away: nothing is unprepared", node.cdi_files() == before, list(node.cdi_files()))
    running = ground.processes()
    report.check("running containers continue", {each: number for each, number in inside.items() if each != ended}.items() <= running.items(), running)
    for each in ground.gates.values():
        each.lead_to(ground.port)
    largest = largest_holders(ground, card, "torn")
    report.check("never two had the whole card", len(largest) == 1, largest)
    until("the agent is ready", lambda: answer_of(node, "/readyz") == "ok\n")
    until("the deleted pod is gone", lambda: not admin.exists(f"{pods()}/goes"))
    ground.check_promise("a claim made anew while the node was cut off", "torn", "main", "torn")
    after = node.cdi_files()
    report.check("three are prepared, none of them the old one", len(after) == 3 and not any(old["metadata"]["uid"] in each for each in after),
                 list(after))
    ground.goes_on("the API server away", {each: count for each, count in containers.items() if each[0] == "calm"})
    admin.delete(f"{claims()}/goes")
    ground.remove("calm", "restarted", "torn")
    ground.settled("the API server away", {})


def check_reboot(ground):
    """A power failure: pods run again with their devices. Nothing remains of pods deleted meanwhile."""
    node, report = ground.node, ground.report
    node.disable_health()  # because two pods share a claim
    for name in ("first", "second", "shared", "deleted"):
        ground.claim(name)
    ground.pod("two", {"main": ["first"], "beside": ["second"]})
    wanted = {"sharer-1": "shared", "sharer-2": "shared", "deleted": "deleted"}
    for name, claim in wanted.items():
        ground.pod(name, {"main": [claim]})
    ground.runs("two", *wanted)
    stay = {("two", "main"): "first", ("two", "beside"): "second", ("sharer-1", "main"): "shared", ("sharer-2", "main"): "shared"}
    got = {each: ground.got(*each) for each in stay}
    files, uid, containers = node.cdi_files(), ground.device("deleted")["metadata"]["uid"], running_containers(ground)
    node.power_off()
    ground.torn_away("deleted")
    ground.admin.delete(f"{claims()}/deleted")
    until("its claim is gone", lambda: not ground.admin.exists(f"{claims()}/deleted"))
    report.check("/run is empty", not node.folder.joinpath("run").exists())
    node.power_on("containerd", "kubelet", "agent")

    def again():
        now = set(running_containers(ground))
        return len(now) == len(stay) and not now & set(containers)

    until("all containers run again", again)
    for each, claim in stay.items():
        ground.check_promise(f"{each} after a reboot", *each, claim)
        report.check(f"{each} got what it had before the reboot", ground.got(*each) == got[each], (ground.got(*each), got[each]))
    ground.settled("after a reboot", {name: text for name, text in files.items() if uid not in name})
    report.check("nothing else runs", len(ground.processes()) == len(stay) + 3, ground.processes())  # and one sandbox per pod
    ground.delete("two", "sharer-1", "sharer-2")
    for name in ("first", "second", "shared"):
        ground.admin.delete(f"{claims()}/{name}")
    ground.settled("after a reboot, all deleted", {})


PARTS = (check_health, check_late, check_health_again, check_full_disk, check_upgrade, check_steps, check_api_away, check_reboot, check_away)


def run(ground, only):
    for part in PARTS:
        if only and part.__name__.removeprefix("check_") not in only:
            continue
        began = time.monotonic()
        part(ground)
        print(f"{part.__name__.removeprefix('check_')}: {time.monotonic() - began:.0f} s", flush=True)


def main():
    arguments = sys.argv[1:]
    at = arguments.index("--only") if "--only" in arguments else len(arguments)
    bin_dir, version = pathlib.Path(arguments[0]).resolve(), arguments[1] if at > 1 else None
    real_node.permitted(version)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-faults-") as folder, Cluster(folder, wanted=parts.WHOLE) as cluster:
        installation.apply_manifests(cluster)
        loop = Loop()
        gates = {each: Gate(loop, port_of(cluster)) for each in ("kubelet", "agent")}
        servers = {each: f"https://127.0.0.1:{gate.port}" for each, gate in gates.items()}
        node = real_node.RealNode(cluster, version=version, servers=servers)
        node.reports_health = True  # until two pods share a claim
        node.start(installation.client_of(cluster))
        ground = FaultyGround(cluster, node, report, gates, bin_dir)
        with logs_if_it_fails(cluster):
            prepare_cluster(cluster, node, bin_dir, f"--probation={PROBATION}s")
            until("cards are published", lambda: all(ground.healthy(place)["status"] == "True" for place in range(len(CARDS))))
            run(ground, arguments[at + 1:])
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
