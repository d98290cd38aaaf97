"""Kueue 9482: a pod has a scheduling gate of a third party beside Kueue's. Kueue removes its own gate and reports the pod as admitted,
although the pod is still gated. Elastic GPU must not treat a pod as ready while any foreign gate is left: after each removal it must
name exactly the gates that remain, report no claim as bound and no card as used, remove its own gate last, and never remove a gate of
another controller.  kueue_9482_test.py BIN_DIR"""
import json
import sys

from field import main, pod_with, until

NODES = """
nodes:
- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: A100, count: 2, memory: 40Gi}]}
"""
QUEUE, OTHER, OURS = "kueue.x-k8s.io/admission", "example.com/image-pulled", "elasticgpu.io/claims"


def gates(world, name):
    return [each["name"] for each in world.get("pod", name)["spec"].get("schedulingGates") or []]


def remove(world, name, gate):
    rest = [{"name": each} for each in gates(world, name) if each != gate]
    world.kubectl.ok("patch", "pod", name, "--type=merge", "-p", json.dumps({"spec": {"schedulingGates": rest}}))


def removed_in_order(world, mode, first, second):
    name = f"{mode}-{'queue' if first == QUEUE else 'other'}-first"
    world.apply(pod_with(name, mode, spec={"schedulingGates": [{"name": OTHER}, {"name": QUEUE}]}, core=50, memory="10Gi"))
    made = until(lambda: world.claim_of(name))
    world.contains(f"{name}: both gates are named", lambda: f"{world.reason(made)} {world.message(made)}", "WaitingForGates", QUEUE, OTHER)
    remove(world, name, first)
    world.equals(f"{name}: then the other one alone", lambda: (first in world.message(made), second in world.message(made)), (False, True))
    world.equals(f"{name}: it is not bound", lambda: (world.phase(made), world.reason(made), world.condition(made).get("status")),
                 ("Pending", "WaitingForGates", "False"))
    world.check(f"{name}: no card is used", not world.ledger(), world.ledger())
    world.equals(f"{name}: the gate that is left is not ours to remove", lambda: sorted(gates(world, name)), sorted([second, OURS]))
    pod = world.get("pod", name)
    world.check(f"{name}: the pod has no node", not pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending", pod["status"])
    remove(world, name, second)
    world.runs(name)
    world.equals(f"{name}: no gate is left", lambda: gates(world, name), [])
    world.equals(f"{name}: it is bound", lambda: (world.phase(made), world.condition(made).get("status")), ("Bound", "True"))
    world.delete("pod", name)
    world.empty(f"{name}: released")


def orders(world):
    for mode in ("share", "wait"):
        removed_in_order(world, mode, QUEUE, OTHER)
    removed_in_order(world, "wait", OTHER, QUEUE)


def never_admitted(world):
    """A pod that is deleted before its last gate is removed leaves nothing."""
    for mode in ("share", "wait"):
        world.apply(pod_with(f"given-up-{mode}", mode, spec={"schedulingGates": [{"name": OTHER}, {"name": QUEUE}]}, gpu=2))
        made = until(lambda mode=mode: world.claim_of(f"given-up-{mode}"))
        remove(world, f"given-up-{mode}", QUEUE)
        world.equals(f"{mode}: waits for the other gate", lambda made=made: world.reason(made), "WaitingForGates")
        world.delete("pod", f"given-up-{mode}", flags=("--timeout=60s",))
        world.equals(f"{mode}: its claim is gone", lambda made=made: world.get("egpuc", made), {})
        world.empty(f"{mode}: no entry is left")


if __name__ == "__main__":
    sys.exit(main(NODES, orders, never_admitted))
