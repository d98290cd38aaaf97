"""Volcano 3555: the scheduler ignores a pod's spec.schedulingGates. An external quota manager holds pods back by a gate of its own until
it has approved them, and Volcano schedules them all the same. Elastic GPU must neither assign a card to such a pod nor count it as a
member of a gang, must name the gate on the claim and on the pod, must serve other pods meanwhile, and must bind the claim once the
manager removes its gate, on the node that the manager selected by then.  volcano_3555_test.py BIN_DIR"""
import json
import sys

from field import claim, gang, main, pod_of, pod_with, until

NODES = """
nodes:
- {name: a, cpu: 64, memory: 256Gi, gpus: [{model: A100, count: 2, memory: 40Gi}]}
- {name: b, cpu: 64, memory: 256Gi, labels: {pool: approved}, gpus: [{model: A100, count: 2, memory: 40Gi}]}
"""
GATE = "example.com/quota-review"
OURS = "elasticgpu.io/claims"
HELD = {"schedulingGates": [{"name": GATE}]}


def gates(world, name):
    return [each["name"] for each in world.get("pod", name)["spec"].get("schedulingGates") or []]


def approve(world, name, selector=None):
    """Removes the manager's gate as the manager would, and keeps all other gates."""
    spec = {"schedulingGates": [{"name": each} for each in gates(world, name) if each != GATE]}
    if selector:
        spec["nodeSelector"] = selector
    world.kubectl.ok("patch", "pod", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def held(world, mode):
    name = f"held-{mode}"
    world.apply(pod_with(name, mode, spec=HELD, gpu=2))
    made = until(lambda: world.claim_of(name))
    world.equals(f"{mode}: the claim waits for the gate", lambda: world.reason(made), "WaitingForGates")
    world.contains(f"{mode}: it names the gate", lambda: world.message(made), GATE)
    world.contains(f"{mode}: an event of the pod names it, too", lambda: json.dumps(world.list("events", "--field-selector", f"involvedObject.name={name}")),
                   GATE)
    world.check(f"{mode}: it has no card and no node", not world.ledger() and not world.get("pod", name)["spec"].get("nodeName"), world.ledger())
    others = [f"other-{mode}-{index}" for index in range(2)]
    world.apply(*(pod_with(each, mode, gpu=2) for each in others))
    world.runs(*others)
    approve(world, name, {"pool": "approved"})
    world.equals(f"{mode}: approved, it waits for capacity", lambda: world.reason(made), "NoFit")
    world.equals(f"{mode}: with our gate alone", lambda: gates(world, name), [OURS])
    world.delete("pod", *others)
    world.runs(name)
    world.equals(f"{mode}: on the node that the manager selected", lambda: world.get("pod", name)["spec"].get("nodeName"), "b")
    world.equals(f"{mode}: with both cards of it", lambda: len(world.cards_of(made)), 2)
    world.delete("pod", name)
    world.empty(f"{mode}: released")


def both_modes(world):
    for mode in ("share", "wait"):
        held(world, mode)


def made_by_hand(world):
    """A claim created by a user is bound immediately if its class is Immediate; with WaitForFirstConsumer it waits for the gate."""
    world.apply(claim("now", "share", gpu=1), pod_of("now", **HELD), claim("later", "wait", gpu=1), pod_of("later", **HELD))
    world.equals("an Immediate claim made by hand is bound", lambda: world.phase("now"), "Bound")
    world.equals("one of a first consumer waits", lambda: world.reason("later"), "WaitingForGates")
    world.check("both pods keep the manager's gate", gates(world, "now").count(GATE) == gates(world, "later").count(GATE) == 1, gates(world, "now"))
    approve(world, "now")
    approve(world, "later")
    world.runs("now", "later")
    world.delete("pod", "now", "later")
    world.delete("egpuc", "now", "later")
    world.empty("released")


def gangs(world):
    """A member whose pod is held back counts as missing in its gang."""
    members = gang("pair", 2)
    world.apply(pod_with("first", "wait", annotations=members, gpu=1), pod_with("second", "wait", annotations=members, spec=HELD, gpu=1))
    world.equals("the member that is not held waits for its gang", lambda: world.reason(world.claim_of("first")), "WaitingForGang")
    world.equals("the held one waits for the gate", lambda: world.reason(world.claim_of("second")), "WaitingForGates")
    world.check("neither has a card", not world.ledger(), world.ledger())
    approve(world, "second")
    world.runs("first", "second")
    world.delete("pod", "first", "second")
    world.empty("the gang is released")


if __name__ == "__main__":
    sys.exit(main(NODES, both_modes, made_by_hand, gangs))
