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
import re
import signal
import sys
import tempfile
import time

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import images
import installation
import namespaces
import parts
import real_node
from apiserver import Cluster, guarded
from client import GPUS, Report, claims, pods, until
from ground import GIB, SHARE, Ground, check_away, logs_if_it_fails
from isolation_ground import (CLIENT, DRIVER_ROOT, IMAGE, MIB, MIG, MIG_PLACE, PLAIN_CARDS, PROFILE, PROMISED, SMS, WHOLE, Tenant, check_mode, install_driver,
                              machine, make_class, plain)
from isolation_kills import MANY, Killer, check_daemon_end, check_kills, check_states, fake_instances
from isolation_others import QGPU_FILES, PoolServer, check_hami_core, check_qgpu, check_remote

PODS = 8  # that start and end while the agent is killed


def make_classes(admin):
    for mode in (*PROMISED, "auto", "driver"):
        make_class(admin, mode, SHARE, {"isolation": mode, "resizable": "true"})
    make_class(admin, "mig", "mig.provisioner.elasticgpu.io", {})
    make_class(admin, "qgpu", "qgpu.provisioner.elasticgpu.io",
               {"isolation": "qgpu", "paths": ", ".join(QGPU_FILES), "hostPaths": "/dev/qgpu/*, /dev/qgpu-ctl"})


def shared_memories(node):
    """Returns the tmpfs of MPS clients. The node also has the mounts of the machine, such as those of tests that run at the same time."""
    places = [line.split()[1] for line in node.namespaces.run("cat", "/proc/self/mounts").splitlines()]
    return [each for each in places if each.startswith(f"{real_node.STATE}/mps-shm/")]


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
    report.check("mps: its card has a tmpfs for its clients", len(shared_memories(ground.node)) == 1, shared_memories(ground.node))
    tenant.remove("mps")


def check_not_offered(tenant):
    """isolation: driver on a machine without its requirements: cards and claims name the reason, no container starts, and auto takes the next mode."""
    admin, report = tenant.admin, tenant.ground.report
    reasons = {each["metadata"]["name"]: each["spec"]["card"].get("attributes", {}).get("memoryLimits") for each in admin.items(GPUS)
               if "card" in each["spec"]}
    report.check("driver: each card names the reason why it is not offered", len(reasons) == PLAIN_CARDS + 1 and all(
        each and each != "available" for each in reasons.values()), reasons)
    if not any(kind == "cgroup2" and "memory" in (place / "cgroup.controllers").read_text().split() for place, kind, _ in namespaces.hierarchies()):
        mig = next(each["metadata"]["name"] for each in admin.items(GPUS) if each["spec"].get("card", {}).get("mig"))
        report.check("driver: the reason is cgroup v1", all("cgroup v2" in each for name, each in reasons.items() if name != mig), reasons)
    tenant.share("driver", "driver")
    tenant.pod("driver", "driver")

    until("the claim does not fit", lambda: tenant.bound("driver").get("reason") == "NoFit")
    condition = tenant.bound("driver")
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
        tenant.instance(name)
        tenant.pod(name, name)
    ground.runs("mig-1", "mig-2")
    for name in ("mig-1", "mig-2"):
        seen = check_mode(tenant, name, name, name, MIG)
        given = ground.got(name, "main")[0]["ELASTICGPU_MIG_INSTANCES"]
        report.check(f"{name}: NVML shows its instance and no other", [each["uuid"] for each in seen["mig"]] == [given], (seen, given))
        report.check(f"{name}: so does CUDA", [each["uuid"] for each in seen["cuda"]] == [plain(given)], (seen, given))
        profile = next(each for each in machine()["devices"][MIG_PLACE]["migProfiles"] if each["name"] == PROFILE)
        report.check(f"{name}: memory and SMs are those of the profile",
                     (seen["cuda"][0]["total"], seen["cuda"][0]["sms"]) == (profile["memoryMib"] * MIB, profile["sms"]), seen)
        series = re.search(f'^elasticgpu_mig_instance_info{{(.*claim="{name}".*)}} 1$', ground.node.ask_agent("/metrics")[1], re.MULTILINE)
        labels = dict(re.findall(r'(\w+)="([^"]*)"', series[1] if series else ""))
        report.check(f"{name}: a metric of the agent names the instance", (labels.get("mig_uuid"), labels.get("UUID")) == (given, machine()["devices"][MIG_PLACE]["uuid"])
                     and int(labels["GPU_I_ID"]) in range(1, 8), labels)
        uuids.add(given)
    report.check("the claims have different instances", len(uuids) == 2, uuids)
    for name in ("mig-1", "mig-2"):
        tenant.remove(name)


def check_whole(tenant):
    """A claim with all of a card has no limit."""
    ground = tenant.ground
    tenant.remove("none")
    tenant.claim("whole", "none", {f"{SHARE}/gpu": 1})
    tenant.pod("whole", "whole")
    ground.runs("whole")
    check_mode(tenant, "whole card", "whole", "whole", WHOLE)


def check_nothing_left(tenant, count, killer):
    """After all claims have gone, no daemon, MIG instance, mount or file of theirs is left, and cards have no mode."""
    ground, report, node = tenant.ground, tenant.ground.report, tenant.ground.node
    check_away(ground)
    if count >= MANY:
        check_daemon_end(killer)

    def daemons():
        found = []
        for each in node.namespaces.processes():
            with contextlib.suppress(OSError):  # the process may end meanwhile
                found.append(pathlib.Path(f"/proc/{each}/cmdline").read_bytes())
        return [each for each in found if b"nvidia-cuda-mps" in each]

    def restored():
        modes = json.loads(node.namespaces.path(f"{DRIVER_ROOT}/driver.json").read_text())["modes"]
        return set(modes.values()) == {"Default"} and not shared_memories(node)

    until("no MPS daemon runs", lambda: not daemons())
    until("each card has its former compute mode, and no tmpfs of MPS is mounted", restored)
    report.check("no MIG instance exists", not fake_instances(node), fake_instances(node))
    left = [str(each) for folder in ("limiter/devices", "mig", "hami-core/cache", "remote", "mps-daemons") for each in node.namespaces.path(f"{real_node.STATE}/{folder}").glob("**/*")
            if not each.is_dir() and not each.name.startswith(("lock-", ".lock-"))]
    report.check("no files of devices are left", not left, left)
    cards = [each for each in tenant.admin.items(GPUS)]
    report.check("no device is left", all("card" in each["spec"] for each in cards), cards)
    kept = [each["metadata"]["name"] for each in cards if each["spec"].get("mode") or each["spec"].get("allocations")]
    report.check("no card has a mode or an entry", not kept, kept)


def main():
    bin_dir, count = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[3]) if sys.argv[2:3] == ["--pods"] else PODS
    if not (bin_dir / "container_client").exists():
        raise parts.Skip("container_client is not built: the fake driver is for x86-64 only")
    real_node.permitted()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-isolation-") as folder, Cluster(folder, wanted=parts.WHOLE) as cluster:
        installation.apply_manifests(cluster)
        node = real_node.RealNode(cluster).start(installation.client_of(cluster))
        stub = bin_dir.parent / "lib/gpu/libvgpu.so"
        libraries = [bin_dir.parent / "lib" / each for each in ("gpu/libcuda.so.1", "nvml/libnvidia-ml.so.1", "limiter/libcuda.so.1")]
        images.busybox(node.folder / "client.tar", real_node.tool("busybox"), [IMAGE], [bin_dir / "container_client", stub, *libraries])
        node.take_image(node.folder / "client.tar")
        install_driver(node, bin_dir)
        tenant, killer = Tenant(Ground(cluster, node, report)), Killer(node, random.Random(count))
        tenant.ground.put_limiter(stub.read_bytes())
        with logs_if_it_fails(cluster), PoolServer(cluster.processes) as pool:
            node.start_agent(bin_dir, f"--driver-root={DRIVER_ROOT}")
            installation.start_controller(cluster, bin_dir)
            make_classes(node.admin)
            for part, *arguments in ((check_shares,), (check_hami_core,), (check_qgpu,), (check_not_offered,), (check_limiter,), (check_mig,), (check_remote, pool),
                                     (check_whole,), (check_kills, count, killer), (check_nothing_left, count, killer), (check_states, count, killer)):
                began = time.monotonic()
                part(tenant, *arguments)
                print(f"{time.monotonic() - began:5.1f} s  {part.__name__}", flush=True)
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
