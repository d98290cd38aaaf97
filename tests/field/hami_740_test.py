"""HAMi 740, 1224 and 1674: users ask to change the compute and memory of a vGPU that a running pod has, without a restart of the pod. HAMi cannot do it.
Elastic GPU accepts an edit of the claim's requests: the claim grows or shrinks on its card, its pod continues to run, and ledger and status show the amounts in
force. A growth that the card or the quota cannot provide changes nothing and reports why. After a shrink under a running pod the old amount is charged until
the pod ends.  hami_740_test.py BIN_DIR"""
import json
import sys

from field import GI, claim, egpu_class, main, pod_of, quota

NODES = "nodes:\n- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: A100, count: 1, memory: 40Gi}]}\n"


def edit(world, name, core, memory, *flags):
    wanted = {"spec": {"resources": {"requests": {"elasticgpu.io/gpu-core": core, "elasticgpu.io/gpu-memory": memory}}}}
    return world.kubectl.run("patch", "egpuc", name, "--type=merge", "-p", json.dumps(wanted), *flags)


def entries(world, name):
    return [(core, memory // GI) for _, holder, core, memory in world.ledger() if holder == f"default/{name}"]


def in_force(world, name):
    status = world.get("egpuc", name).get("status", {})
    return {key.split("/")[1]: str(value) for key, value in status.get("requests", {}).items()}


def resized(world, name):
    """Returns status and reason of the condition Resized."""
    condition = world.condition(name, "Resized")
    return condition.get("status", ""), condition.get("reason", "")


def identity(world, name):
    """Returns fields that change if a pod is restarted or recreated."""
    found = world.get("pod", name)
    return found["metadata"]["uid"], found["status"].get("startTime"), found["status"]["phase"]


def resizes(mode):
    name = f"notebook-{mode.lower()}"
    flex = f"flex-{mode.lower()}"

    def part(world):
        world.apply(egpu_class(flex, mode, resizable="true"), claim(name, flex, core=20, memory="2Gi"), pod_of(name))
        world.runs(name)
        before = identity(world, name)
        world.check(f"{mode}: the pod has 20 and 2Gi", entries(world, name) == [(200, 2)], world.ledger())
        world.check(f"{mode}: the growth of the report, 2Gi to 10Gi, is accepted", edit(world, name, 40, "10Gi").returncode == 0)
        world.equals(f"{mode}: the ledger has the larger amounts", lambda: entries(world, name), [(400, 10)])
        world.equals(f"{mode}: the status has them", lambda: in_force(world, name), {"gpu-core": "40", "gpu-memory": "10Gi"})
        world.equals(f"{mode}: the claim is resized", lambda: resized(world, name)[0], "True")
        world.check(f"{mode}: the pod was not restarted", identity(world, name) == before, world.get("pod", name))

        edit(world, name, 40, "50Gi")
        world.equals(f"{mode}: more than the card has is infeasible", lambda: resized(world, name), ("False", "ResizeInfeasible"))
        world.check(f"{mode}: what it had stays in force", (entries(world, name), in_force(world, name)["gpu-memory"]) == ([(400, 10)], "10Gi"),
                    world.ledger())
        edit(world, name, 40, "10Gi")
        world.equals(f"{mode}: the edit is taken back", lambda: resized(world, name)[0], "True")

        edit(world, name, 10, "1Gi")
        world.equals(f"{mode}: the status has the smaller amounts", lambda: in_force(world, name), {"gpu-core": "10", "gpu-memory": "1Gi"})
        world.check(f"{mode}: a shrink is charged as before while the pod runs", entries(world, name) == [(400, 10)], world.ledger())
        world.check(f"{mode}: the pod was not restarted by a shrink", identity(world, name) == before, world.get("pod", name))
        world.delete("pod", name)
        world.equals(f"{mode}: the shrink is charged once the pod has ended", lambda: entries(world, name), [(100, 1)])
        world.delete("egpuc", name)
        world.empty(f"{mode}: all is given back")
    return part


def limits(mode):
    """Two claims share the card: one can grow only within the capacity that the other leaves free, and within the quota."""
    flex = f"flex-{mode.lower()}"

    def part(world):
        world.apply(claim("a", flex, core=50, memory="10Gi"), claim("b", flex, core=40, memory="10Gi"), pod_of("a"), pod_of("b"))
        world.runs("a", "b")
        tried = edit(world, "a", 60, "10Gi", "--dry-run=server")
        world.check(f"{mode}: a dry run is accepted and changes nothing", tried.returncode == 0 and entries(world, "a") == [(500, 10)], tried.stderr)
        edit(world, "a", 70, "10Gi")
        world.contains(f"{mode}: the card lacks compute, and the message has the available amount", lambda: str(world.condition("a", "Resized")),
                       "ResizeInfeasible", "can provide core 60%")
        world.apply(quota("team", {"gpu-core": 95}))
        edit(world, "b", 50, "10Gi")
        world.contains(f"{mode}: the quota lacks compute", lambda: str(world.condition("b", "Resized")), "ScalingQuotaExceeded",
                       "quota team allows gpu-core 95")
        world.delete("egpuquota", "team")
        edit(world, "b", 40, "10Gi")
        world.delete("pod", "b")
        world.delete("egpuc", "b")
        world.equals(f"{mode}: the growth is done when the card has the capacity", lambda: entries(world, "a"), [(700, 10)])
        world.check(f"{mode}: its pod runs", world.pod_phase("a") == "Running")
        world.delete("pod", "a")
        world.delete("egpuc", "a")
        world.empty(f"{mode}: both are given back")
    return part


def fixed(world):
    """A class that is not resizable refuses the edit at once."""
    world.apply(claim("fixed", core=20, memory="2Gi"), pod_of("fixed"))
    world.runs("fixed")
    refused = edit(world, "fixed", 40, "2Gi")
    world.check("fixed: the edit is refused, and the message names the parameter", refused.returncode != 0 and b"resizable" in refused.stderr, refused.stderr)
    world.check("fixed: the ledger is as before", entries(world, "fixed") == [(200, 2)], world.ledger())
    world.delete("pod", "fixed")
    world.delete("egpuc", "fixed")
    world.empty("fixed: all is given back")


if __name__ == "__main__":
    sys.exit(main(NODES, *(each(mode) for mode in ("Immediate", "WaitForFirstConsumer") for each in (resizes, limits)), fixed))
