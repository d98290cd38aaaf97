"""Volcano 3616 and 4809: a node has one 24Gi card left, and a Deployment of three replicas that ask for 12Gi each gets all three pods
bound to that card (3616). The scheduler's records of a card count the memory and core of one pod twice (4809). Elastic GPU must bind
two of the three pods, keep the third one pending until a pod ends, and charge each claim to its card exactly once, also when two pods
share the claim and after the controller was killed.  volcano_3616_test.py BIN_DIR"""
import sys

from field import GI, claim, main, pod_of, pod_with

NODES = """
nodes:
- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: L4, count: 8, memory: 24Gi, sms: 58, tflops: 121}]}
"""
HALF = {"core": 50, "memory": "12Gi"}


def names(world):
    return [each["metadata"]["name"] for each in world.list("pods") if each.get("status", {}).get("phase") == "Running"]


def entries(world):
    """Returns core and memory of each entry, without those of the seven full cards."""
    return [(core, memory) for _, holder, core, memory in world.ledger() if "full" not in holder]


def replicas(world, mode):
    """Three pods of half a card each are created at once, and one card is free."""
    pods = [f"{mode}-{index}" for index in range(3)]
    world.apply(*(pod_with(name, mode, **HALF) for name in pods))
    world.equals(f"{mode}: two of three pods run", lambda: len([name for name in names(world) if name in pods]), 2)
    waiting = next(name for name in pods if name not in names(world))
    world.contains(f"{mode}: the third claim waits for capacity", lambda: str(world.claims().get(world.claim_of(waiting))), "'Pending', 'NoFit'")
    world.equals(f"{mode}: each claim is charged once", lambda: entries(world), [(500, 12 * GI)] * 2)
    world.check(f"{mode}: no card is over its capacity", not world.overfull(), world.ledger())
    card = {name for name, holder, _, _ in world.ledger() if "full" not in holder}
    world.check(f"{mode}: both are on the card that was free", len(card) == 1, world.ledger())
    world.delete("pod", next(name for name in pods if name != waiting))
    world.runs(waiting)
    world.equals(f"{mode}: the third claim took the released half", lambda: entries(world), [(500, 12 * GI)] * 2)
    world.delete("pod", *[name for name in pods if world.get("pod", name)])
    world.equals(f"{mode}: the card is empty again", lambda: entries(world), [])


def full_cards(world):
    world.apply(claim("full", gpu=7), pod_of("full"))
    world.runs("full")
    for mode in ("share", "wait"):
        replicas(world, mode)


def charged_once(world):
    """Two pods of one claim, a quota-free namespace, and a controller that starts again from its data."""
    world.apply(claim("both", **HALF), pod_of("both", "both-a"), pod_of("both", "both-b"))
    world.runs("both-a", "both-b")
    world.equals("two pods of one claim are charged once", lambda: entries(world), [(500, 12 * GI)])
    card = world.cards_of("both")[0]

    def allocated():
        status = world.cards()[card]["status"].get("allocated", {})
        return str(status.get("coreText")), str(status.get("memoryText"))

    world.equals("the status of the card counts the claim once", allocated, ("50%", "12Gi/24Gi"))
    world.restart()
    world.equals("a restart charges nothing again", lambda: entries(world), [(500, 12 * GI)])
    world.equals("nor does the status of the card", allocated, ("50%", "12Gi/24Gi"))
    world.apply(pod_with("fits", **HALF), pod_with("over", **HALF))
    world.equals("one more half fits, the second one waits", lambda: sorted(world.pod_phase(name) for name in ("fits", "over")), ["Pending", "Running"])
    world.check("no card is over its capacity after the restart", not world.overfull(), world.ledger())
    world.delete("pod", "both-a", "both-b", "fits", "over", "full")
    world.delete("egpuc", "both", "full")
    world.empty("all cards are empty at the end")


if __name__ == "__main__":
    sys.exit(main(NODES, full_cards, charged_once, retain_data=True))
