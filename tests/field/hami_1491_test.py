"""HAMi 1491: on a node of eight cards four pods have two cards each. One pod is deleted in an update, and the new pod is placed on cards
that another pod has. HAMi 2622: a pod of two containers on one card counts as one task there, so that the card takes more tasks than it may.
Elastic GPU gives the new pod exactly the two cards that became free, in any order of deletion and creation, for whole cards and for halves.
Each container's claim counts by itself against `maxClaimsPerCard`.  hami_1491_test.py BIN_DIR"""
import sys

from field import GI, egpu_class, main, pod, pod_with, template

NODES = """nodes:
- {name: n, cpu: 128, memory: 512Gi, gpus: [{model: A100, count: 8, memory: 80Gi}]}
- {name: one, cpu: 128, memory: 512Gi, gpus: [{model: L4, count: 1, memory: 24Gi}]}
"""


def cards(world, pod_name):
    return world.cards_of(world.claim_of(pod_name))


def start(world, class_name, names, **amounts):
    world.apply(*(pod_with(name, class_name, **amounts) for name in names))
    world.runs(*names)


def end(world, what):
    world.delete("pod", "--all")
    world.empty(what)


def updated(class_name):
    def part(world):
        start(world, class_name, [f"p{i}" for i in range(4)], gpu=2)
        world.check(f"{class_name}: four pods have the eight cards", [core for _, _, core, _ in world.ledger()] == [1000] * 8, world.ledger())
        for i in range(4):
            free = cards(world, f"p{i}")
            world.delete("pod", f"p{i}")
            start(world, class_name, [f"q{i}"], gpu=2)
            world.check(f"{class_name}: q{i} has the cards that p{i} had", len(free) == 2 and cards(world, f"q{i}") == free, (free, world.ledger()))
        end(world, f"{class_name}: whole cards are given back")
    return part


def created_before_the_deletion(class_name):
    """As in a rolling update with a surge, the new pod exists before the old one is deleted."""
    def part(world):
        start(world, class_name, [f"p{i}" for i in range(4)], gpu=2)
        world.apply(pod_with("surge", class_name, gpu=2))
        world.equals(f"{class_name}: the surge pod waits", lambda: world.reason(world.claim_of("surge") or "none"), "NoFit")
        free = cards(world, "p2")
        world.delete("pod", "p2", flags=("--wait=false",))
        world.runs("surge")
        world.equals(f"{class_name}: it gets the cards of the pod that went", lambda: cards(world, "surge"), free)
        end(world, f"{class_name}: the surge gives back")
    return part


def halves(class_name):
    """Eight pods have halves of two cards each."""
    def part(world):
        start(world, class_name, [f"h{i}" for i in range(8)], gpu=2, core=50, memory="40Gi")
        world.check(f"{class_name}: each card has two halves", sorted(card for card, _, core, memory in world.ledger() if (core, memory) == (500, 40 * GI))
                    == sorted(2 * [card for card in world.cards() if world.cards()[card]["spec"]["card"]["nodeName"] == "n"]), world.ledger())
        free = cards(world, "h3")
        world.delete("pod", "h3")
        start(world, class_name, ["next"], gpu=2, core=50, memory="40Gi")
        world.check(f"{class_name}: the next one has the free halves", cards(world, "next") == free, (free, world.ledger()))
        world.check(f"{class_name}: no card is overfull", not world.overfull(), world.overfull())
        end(world, f"{class_name}: the halves are given back")
    return part


def containers(mode):
    """At most three claims on the card: a pod of two containers uses two of these slots."""
    def part(world):
        name = f"slots-{mode.lower()}"
        world.apply(egpu_class(name, mode, maxClaimsPerCard=3, model="L4"), template(name, name, core=10, memory="2Gi"))
        two = {"egpuct.elasticgpu.io/a": name, "egpuct.elasticgpu.io/b": name}
        world.apply(pod("two", annotations=two, containers=("a", "b")))
        world.runs("two")
        world.check(f"{mode}: two containers are two entries", [(core, memory) for _, _, core, memory in world.ledger()] == [(100, 2 * GI)] * 2, world.ledger())
        world.apply(pod("more", annotations=two, containers=("a", "b")))
        world.contains(f"{mode}: two more are too many", lambda: str(world.claims()), "NoFit",
                       "fits by itself, but no node has capacity for all of them")
        start(world, name, ["single"], core=10, memory="2Gi")
        world.check(f"{mode}: one more is the third", len(world.ledger()) == 3, world.ledger())
        world.check(f"{mode}: the pod of two waits", world.pod_phase("more") == "Pending", world.get("pod", "more"))
        world.delete("pod", "single")
        world.delete("pod", "two")
        world.runs("more")
        world.check(f"{mode}: it is two entries", len(world.ledger()) == 2, world.ledger())
        end(world, f"{mode}: the containers give back")
    return part


if __name__ == "__main__":
    sys.exit(main(NODES, *(each(class_name) for class_name in ("share", "wait") for each in (updated, created_before_the_deletion, halves)),
                  *(containers(mode) for mode in ("Immediate", "WaitForFirstConsumer"))))
