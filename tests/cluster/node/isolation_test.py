#!/usr/bin/env python3
"""Proves each isolation mode in containers of a real kubelet and containerd: a program in the container sees the amounts of its claim, and gets as much memory
as status.isolation of the claim promises.

isolation_test.py BIN_DIR [--pods N]

--pods: number of pods that start and end while the agent is killed; default 8.
The program is tests/gpu/container_client.cpp. The node has the fake driver of tests/gpu, with NVIDIA's device nodes and capabilities: a process sees the cards
and MIG instances that its device cgroup permits. The mode driver needs cgroup v2 with the controller dmem and a driver that limits it, which no fake can replace:
the test shows that it is not offered, and the reason.
"""

import contextlib
import json
import pathlib
import random
import shutil
import signal
import struct
import sys
import tempfile
import time

import yaml

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import images
import installation
import namespaces
import parts
import real_node
from apiserver import Cluster, guarded
from client import CLASSES, GPUS, Report, claims, pods, until
from ground import GIB, SHARE, Ground, check_away, logs_if_it_fails

IMAGE = "localhost/gpu-client:1"
CLIENT = "/bin/container_client"
DRIVER_ROOT = "/run/nvidia/driver"  # on the node
LIBRARIES = f"{DRIVER_ROOT}/usr/lib/x86_64-linux-gnu"
MIG_NODE = real_node.A100.with_name("a100-mig.yaml")
MPS = installation.ROOT / "tests" / "gpu" / "mps"
MIB = 1 << 20
OUT_OF_MEMORY = 2
AT_ONCE, KILLS, MAX_PAUSE = 8, 3, 0.7  # pods, kills of the agent at their start and at their end, and seconds between two kills
CAPS_MAJOR = 196  # not used by the kernel
CAPABILITIES = "/run/mig-minors"  # on the node and in containers
INSTANCES = f"{real_node.STATE}/fake-instances"  # where plugins may write
PROFILE = "1g.5gb"
SMS = 108  # of an A100
# guide/isolation.md: status.isolation by the value of the class parameter.
PROMISED = {
    "none": {"mode": "none", "memory": "None", "compute": "None", "faults": "Soft"},
    "limiter": {"mode": "limiter", "memory": "Soft", "compute": "Soft", "faults": "Soft"},
    "mps": {"mode": "mps", "memory": "Soft", "managedMemory": "None", "compute": "Soft", "faults": "None"},
}
WHOLE = {"mode": "whole-card", "memory": "Enforced", "compute": "Enforced", "faults": "Enforced"}
MIG = WHOLE | {"mode": "mig"}


def machine():
    """Returns the node's hardware: three A100, and one in MIG mode."""
    plain, mig = (yaml.safe_load(each.read_text()) for each in (real_node.A100, MIG_NODE))
    cards = [plain["each"] | each for each in plain["devices"]]
    cards[3] |= mig["each"] | {"mig": 1}
    # The driver has memory limits, so that only the machine's cgroups are an obstacle to the mode driver.
    return {"driver": plain["driver"], "cuda": plain["cuda"], "deviceNodes": True, "capabilities": CAPABILITIES,
            "memoryLimits": "dmem", "devices": cards}


def minors_of_capabilities(cards):
    """Returns the lines of /proc/driver/nvidia-caps/mig-minors."""
    names = ["config", "monitor"]
    for card in cards:
        for instance in range(15):
            names += [f"gpu{card['minor']}/gi{instance}/access", *(f"gpu{card['minor']}/gi{instance}/ci{each}/access" for each in range(8))]
    return "".join(f"{name} {minor}\n" for minor, name in enumerate(names, 1))


def install_driver(node, bin_dir):
    """Installs the fake driver in a driver root of the node, and the kernel's files of the driver."""
    hardware = machine()
    node.cards = node.folder / "machine.yaml"
    node.cards.write_text(yaml.safe_dump(hardware))
    (node.folder / "run" / "mig-minors").write_text(minors_of_capabilities(hardware["devices"]))
    node.namespaces.run("sh", "-ec", f"mkdir -p {LIBRARIES} {DRIVER_ROOT}/usr/bin; touch {INSTANCES}; chmod 666 {INSTANCES}; ln -s {INSTANCES} /run/nvml.yaml.mig")
    for name, folder in (("libcuda", "gpu"), ("libnvidia-ml", "nvml")):
        file = f"{name}.so.{hardware['driver']}"
        node.namespaces.run("cp", bin_dir.parent / "lib" / folder / f"{name}.so.1", f"{LIBRARIES}/{file}")
        node.namespaces.run("ln", "-s", file, f"{LIBRARIES}/{name}.so.1")
    for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
        node.namespaces.run("ln", "-s", MPS / name, f"{DRIVER_ROOT}/usr/bin/{name}")
    node.namespaces.run("ln", "-s", shutil.which("sleep"), f"{DRIVER_ROOT}/usr/bin/nvidia-cuda-mps-server")
    node.namespaces.run("sh", "-ec", "mount -t tmpfs tmpfs /proc/driver; mkdir /proc/driver/nvidia-caps; "
                        f"cp {CAPABILITIES} /proc/driver/nvidia-caps/; cat /proc/devices > /run/devices; "
                        f"sed -i '/^Character/a {CAPS_MAJOR} nvidia-caps' /run/devices; mount --bind /run/devices /proc/devices")


def make_classes(admin):
    def create(name, provisioner, parameters):
        admin.create(CLASSES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": name}, "provisioner": provisioner,
                               "egpuBindingMode": "Immediate", "reclaimPolicy": "Delete", "parameters": parameters})

    for mode in (*PROMISED, "auto", "driver"):
        create(mode, SHARE, {"isolation": mode, "resizable": "true"})
    create("mig", "mig.provisioner.elasticgpu.io", {})


class Tenant:
    """Creates claims and pods, and asks the program in their containers."""

    def __init__(self, ground):
        self.ground, self.admin = ground, ground.admin

    def claim(self, name, cls, requests):
        self.admin.create(claims(), {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name},
                                     "spec": {"egpuClassName": cls, "resources": {"requests": requests}}})

    def share(self, name, cls, core=10, memory=4):
        self.claim(name, cls, {f"{SHARE}/gpu-core": core, f"{SHARE}/gpu-memory": memory})

    def pod(self, name, claim):
        """Creates a pod that uses the claim. The files of the fake driver take the place of the kernel's driver."""
        files = {"node": ("/run/nvml.yaml",) * 2, "instances": (INSTANCES, "/run/nvml.yaml.mig"), "capabilities": (CAPABILITIES,) * 2}
        self.admin.create(pods(), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "card", "resourceClaimName": claim}],
            "volumes": [{"name": each, "hostPath": {"path": path, "type": "File"}} for each, (path, _) in files.items()],
            "containers": [{"name": "main", "image": IMAGE, "resources": {"claims": [{"name": "card"}]},
                            "env": [{"name": "ELASTICGPU_FAKE_NVML", "value": files["node"][1]}],
                            "volumeMounts": [{"name": each, "mountPath": path} for each, (_, path) in files.items()]}]}})

    def seen(self, pod, *before):
        """Returns the output of the program. before: words of the command before it."""
        text = self.ground.kubectl("exec", pod, "--", *before, CLIENT)
        try:
            return json.loads(text)
        except ValueError as error:
            raise AssertionError(f"the program in {pod} failed: {text}") from error

    def isolation(self, claim):
        return self.admin.get(f"{claims()}/{claim}")["status"].get("isolation")


def plain(uuid):
    """Returns a uuid as the CUDA driver does: without its prefix and hyphens."""
    return uuid.split("-", 1)[1].replace("-", "")


def check_mode(tenant, what, pod, claim, promised):
    """Checks that the container sees its card and no other, and gets as much memory as status.isolation and the amounts of the claim say."""
    ground, report = tenant.ground, tenant.ground.report
    device, status = ground.device(claim), tenant.isolation(claim)
    card, seen = device["spec"]["cards"][0], tenant.seen(pod)
    environment, _ = ground.got(pod, "main")
    hardware = next(each for each in machine()["devices"] if each["uuid"] == card["uuid"])
    report.check(f"{what}: the claim reports what is promised", status == promised, (status, promised))
    report.check(f"{what}: its device reports the same", device["status"].get("isolation") == status, device["status"])
    told = {key: environment.get(key) for key in ("ELASTICGPU_ISOLATION", "ELASTICGPU_CORE_0", "ELASTICGPU_MEMORY_0", "ELASTICGPU_CARDS")}
    amounts = {} if promised == MIG else {"ELASTICGPU_CORE_0": str(card["core"]), "ELASTICGPU_MEMORY_0": str(card["memory"])}
    expected = dict.fromkeys(told) | {"ELASTICGPU_ISOLATION": status["mode"], "ELASTICGPU_CARDS": card["uuid"]} | amounts
    report.check(f"{what}: the container is told the same", told == expected, (told, expected))
    report.check(f"{what}: NVML shows its card and no other", [each["uuid"] for each in seen["nvml"]] == [card["uuid"]], seen)
    if promised != MIG:
        report.check(f"{what}: so does CUDA", [each["uuid"] for each in seen["cuda"]] == [plain(card["uuid"])], seen)
    got, mode = seen["cuda"][0], status["mode"]
    limit = hardware["memory"] if status["memory"] == "None" or mode == "whole-card" else card["memory"]
    report.check(f"{what}: its memory ends at the limit", got["filled"] == limit, (got, limit))
    report.check(f"{what}: with OUT_OF_MEMORY", got["refusal"] == OUT_OF_MEMORY, got)
    if mode in ("limiter", "mig"):
        totals = {got["total"], got["free"], (seen["mig"] or seen["nvml"])[0]["total"]}
        report.check(f"{what}: CUDA and NVML report the limit as the memory of the card", totals == {card["memory"]}, seen)
    report.check(f"{what}: the limiter limits compute to the amount of the claim", seen["cores"] == ([card["core"]] if mode == "limiter" else []), seen)
    if mode == "mps":
        report.check(f"{what}: the SMs are those of the amount of the claim", got["sms"] == SMS * card["core"] // 1000, got)
    elif mode != "mig":
        report.check(f"{what}: all SMs of the card", got["sms"] == SMS, got)
    return seen


def check_shares(tenant):
    """The modes of shares, each on a card of its own."""
    ground, report = tenant.ground, tenant.ground.report
    for mode in PROMISED:
        tenant.share(mode, mode, core=10, memory=4)
        tenant.pod(mode, mode)
    ground.runs(*PROMISED)
    for mode, promised in PROMISED.items():
        check_mode(tenant, mode, mode, mode, promised)
    names = {mode: ground.device(mode)["spec"]["cards"][0]["name"] for mode in PROMISED}
    modes = {mode: tenant.admin.get(f"{GPUS}/{name}")["spec"].get("mode") for mode, name in names.items()}
    report.check("each mode has a card, which names it", modes == {mode: mode for mode in PROMISED} and len(set(names.values())) == len(names), (names, modes))
    daemon_limits = tenant.seen("mps", "env", "-u", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "-u", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")["cuda"][0]
    report.check("mps: a program that removes its variables has the limits of the daemon",
                 (daemon_limits["filled"], daemon_limits["sms"]) == (4 * GIB, SMS // 10), daemon_limits)
    ground.delete("mps")
    tenant.admin.delete(f"{claims()}/mps")


def check_not_offered(tenant):
    """isolation: driver on a machine without its requirements: cards and claims name the reason, no container starts, and auto takes the next mode."""
    admin, report = tenant.admin, tenant.ground.report
    reasons = {each["metadata"]["name"]: each["spec"]["card"].get("attributes", {}).get("memoryLimits") for each in admin.items(GPUS)
               if "card" in each["spec"]}
    report.check("driver: each card names the reason why it is not offered", len(reasons) == 4 and all(
        each and each != "available" for each in reasons.values()), reasons)
    if not any(kind == "cgroup2" and "memory" in (place / "cgroup.controllers").read_text().split() for place, kind, _ in namespaces.hierarchies()):
        mig = next(each["metadata"]["name"] for each in admin.items(GPUS) if each["spec"].get("card", {}).get("mig"))
        report.check("driver: the reason is cgroup v1", all("cgroup v2" in each for name, each in reasons.items() if name != mig), reasons)
    tenant.share("driver", "driver")
    tenant.pod("driver", "driver")

    def bound():
        conditions = admin.get(f"{claims()}/driver").get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == "Bound" and each.get("reason") == "NoFit"), None)

    condition = until("the claim does not fit", bound)
    report.check("driver: the claim names the obstacle", "without the driver's memory limits" in condition["message"], condition)
    report.check("driver: no limit is reported", tenant.isolation("driver") is None, tenant.isolation("driver"))
    tenant.share("auto", "auto", core=20, memory=6)
    tenant.pod("auto", "auto")
    tenant.ground.runs("auto")
    check_mode(tenant, "auto", "auto", "auto", PROMISED["limiter"])
    status = admin.get(f"{pods()}/driver")["status"]
    report.check("driver: no container was started", status["phase"] == "Pending" and not status.get("containerStatuses"), status)
    tenant.ground.delete("driver", "auto")


def check_limiter(tenant):
    """Containers of one claim share its limit; a resize changes it; without the agent, it stays."""
    ground, report, node = tenant.ground, tenant.ground.report, tenant.ground.node
    tenant.pod("beside", "limiter")
    ground.runs("beside")
    ground.kubectl("exec", "limiter", "--", "sh", "-c",
                   f"{CLIENT} hold </dev/null >/tmp/held 2>&1 & echo $! >/tmp/pid; until grep -q cuda /tmp/held; do sleep 0.1; done")
    other = tenant.seen("beside")["cuda"][0]
    report.check("limiter: a second container gets the rest of the claim's memory, which is nothing",
                 (other["total"], other["free"], other["filled"]) == (4 * GIB, 0, 0), other)
    ground.kubectl("exec", "limiter", "--", "sh", "-c", "kill -9 $(cat /tmp/pid)")
    until("the memory of the killed program is free", lambda: tenant.seen("beside")["cuda"][0]["filled"] == 4 * GIB)
    tenant.admin.patch(f"{claims()}/limiter", {"spec": {"resources": {"requests": {f"{SHARE}/gpu-core": 30, f"{SHARE}/gpu-memory": 8}}}})
    until("the limit follows the claim", lambda: tenant.seen("limiter")["cuda"][0]["total"] == 8 * GIB)
    node.kill("agent")
    seen = tenant.seen("limiter")
    report.check("limiter: the limits after the resize, without the agent", (seen["cuda"][0]["filled"], seen["cores"]) == (8 * GIB, [300]), seen)
    node.restart("agent")
    ground.delete("beside")


def check_mig(tenant):
    """Two instances of a card, for two claims."""
    ground, report = tenant.ground, tenant.ground.report
    uuids = set()
    for name in ("mig-1", "mig-2"):
        tenant.claim(name, "mig", {f"elasticgpu.io/mig-{PROFILE}": 1})
        tenant.pod(name, name)
    ground.runs("mig-1", "mig-2")
    for name in ("mig-1", "mig-2"):
        seen = check_mode(tenant, name, name, name, MIG)
        given = ground.got(name, "main")[0]["ELASTICGPU_MIG_INSTANCES"]
        report.check(f"{name}: NVML shows its instance and no other", [each["uuid"] for each in seen["mig"]] == [given], (seen, given))
        report.check(f"{name}: so does CUDA", [each["uuid"] for each in seen["cuda"]] == [plain(given)], (seen, given))
        profile = next(each for each in machine()["devices"][3]["migProfiles"] if each["name"] == PROFILE)
        report.check(f"{name}: memory and SMs are those of the profile",
                     (seen["cuda"][0]["total"], seen["cuda"][0]["sms"]) == (profile["memoryMib"] * MIB, profile["sms"]), seen)
        uuids.add(given)
    report.check("the claims have different instances", len(uuids) == 2, uuids)
    ground.delete("mig-1", "mig-2")


def check_whole(tenant):
    """A claim with all of a card has no limit."""
    ground = tenant.ground
    ground.delete("none")
    tenant.admin.delete(f"{claims()}/none")
    tenant.claim("whole", "none", {f"{SHARE}/gpu": 1})
    tenant.pod("whole", "whole")
    ground.runs("whole")
    check_mode(tenant, "whole card", "whole", "whole", WHOLE)


def kill_agent(tenant, times, chance):
    """Kills the agent at random times, and starts it again."""
    for _ in range(times):
        time.sleep(chance.uniform(0, MAX_PAUSE))
        tenant.ground.node.kill("agent")
        tenant.ground.node.restart("agent")


def check_kills(tenant, count):
    """Pods with each limit start and end while the agent is killed. None of their containers runs without its limit."""
    ground, report, chance, kills = tenant.ground, tenant.ground.report, random.Random(count), 0
    for first in range(0, count, AT_ONCE):
        names = {f"kill-{first + each}": (*["limiter"] * 4, "mps", "mps", "mig", "mig")[each] for each in range(min(AT_ONCE, count - first))}
        for name, cls in names.items():
            if cls == "mig":
                tenant.claim(name, cls, {f"elasticgpu.io/mig-{PROFILE}": 1})
            else:
                tenant.share(name, cls, core=10, memory=2)
            tenant.pod(name, name)
        kill_agent(tenant, KILLS, chance)
        ground.runs(*names)
        for name, cls in names.items():
            limit, cards = ground.device(name)["spec"]["cards"][0]["memory"], tenant.seen(name)["cuda"]
            if [(each["filled"], each["refusal"]) for each in cards] != [(limit, OUT_OF_MEMORY)]:
                report.check(f"{name} ({cls}): its container has its limit", False, (limit, cards))
        for name in names:
            tenant.admin.delete(f"{pods()}/{name}")
            tenant.admin.delete(f"{claims()}/{name}")
        kill_agent(tenant, KILLS, chance)
        until("the pods are gone", lambda: not any(each["metadata"]["name"].startswith("kill-") for each in tenant.admin.items(pods())))
        kills += 2 * KILLS
    print(f"        {count} pods, {kills} kills of the agent", flush=True)


def check_nothing_left(tenant):
    """After all claims have gone, no daemon, MIG instance, mount or file of theirs is left, and cards have no mode."""
    ground, report, node = tenant.ground, tenant.ground.report, tenant.ground.node
    check_away(ground)

    def daemons():
        found = []
        for each in node.namespaces.processes():
            with contextlib.suppress(OSError):  # the process may end meanwhile
                found.append(pathlib.Path(f"/proc/{each}/cmdline").read_bytes())
        return [each for each in found if b"nvidia-cuda-mps" in each]

    def restored():
        modes = json.loads(node.namespaces.path(f"{DRIVER_ROOT}/driver.json").read_text())["modes"]
        return set(modes.values()) == {"Default"} and "mps-shm" not in node.namespaces.run("cat", "/proc/self/mounts")

    until("no MPS daemon runs", lambda: not daemons())
    until("each card has its former compute mode, and no tmpfs of MPS is mounted", restored)
    instances = struct.iter_unpack("15I", node.namespaces.path(INSTANCES).read_bytes())
    report.check("no MIG instance exists", not any(each[0] for each in instances))
    left = [str(each) for folder in ("limiter/devices", "mig") for each in node.namespaces.path(f"{real_node.STATE}/{folder}").iterdir()
            if not each.name.startswith("lock-")]
    report.check("no files of devices are left", not left, left)
    kept = [each["metadata"]["name"] for each in tenant.admin.items(GPUS) if each["spec"].get("mode")]
    report.check("no card has a mode", not kept, kept)


def main():
    bin_dir, count = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[3]) if sys.argv[2:3] == ["--pods"] else AT_ONCE
    if not (bin_dir / "container_client").exists():
        raise parts.Skip("container_client is not built: the fake driver is for x86-64 only")
    real_node.permitted()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-isolation-") as folder, Cluster(folder, wanted=parts.WHOLE) as cluster:
        installation.apply_manifests(cluster)
        node = real_node.RealNode(cluster).start(installation.client_of(cluster))
        libraries = [bin_dir.parent / "lib" / each for each in ("gpu/libcuda.so.1", "nvml/libnvidia-ml.so.1", "limiter/libcuda.so.1")]
        images.busybox(node.folder / "client.tar", real_node.tool("busybox"), [IMAGE], [bin_dir / "container_client", *libraries])
        node.take_image(node.folder / "client.tar")
        install_driver(node, bin_dir)
        tenant = Tenant(Ground(cluster, node, report))
        with logs_if_it_fails(cluster):
            node.start_agent(bin_dir, f"--driver-root={DRIVER_ROOT}")
            installation.start_controller(cluster, bin_dir)
            make_classes(node.admin)
            for part in (check_shares, check_not_offered, check_limiter, check_mig, check_whole, check_kills, check_nothing_left):
                began = time.monotonic()
                part(tenant, *([count] if part is check_kills else []))
                print(f"{time.monotonic() - began:5.1f} s  {part.__name__}", flush=True)
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
