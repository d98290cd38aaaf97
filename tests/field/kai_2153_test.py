"""KAI-Scheduler 2153: sixteen pods of half a card each are created at once on a node of eight cards. Some cards get three or four pods while
others hold one, pods end out of memory, and the binder livelocks on its reservations. The same pods, created one by one, are placed correctly.
Elastic GPU places every burst as it places the pods one by one: two halves on each card, all pods Running, no card over its amount, also when
the controller is killed in the middle of the burst. A pod that exceeds the capacity waits as NoFit.  kai_2153_test.py BIN_DIR"""
import collections
import sys

from field import egpu_class, main, pod_with

NODES = "nodes:\n- {name: n, cpu: 256, memory: 1Ti, gpus: [{model: H100, count: 8, memory: 80Gi}]}\n"


def holders(world):
    """Returns a map from a number of entries to the number of cards with it."""
    return collections.Counter(collections.Counter(card for card, *_ in world.ledger()).values())


def burst(class_name, crash=False):
    def part(world):
        what = f"{class_name}{' with a crash' if crash else ''}"
        names = [f"half-{i:02}" for i in range(16)]
        world.apply(*(pod_with(name, class_name, core=50, memory="40Gi") for name in names))
        if crash:
            world.restart()
        world.runs(*names)
        world.check(f"{what}: each of eight cards has two halves", holders(world) == {2: 8}, world.ledger())
        world.check(f"{what}: no card is overfull", not world.overfull(), world.overfull())
        world.apply(pod_with("more", class_name, core=50, memory="40Gi"))
        world.equals(f"{what}: the seventeenth waits", lambda: world.reason(world.claim_of("more") or "none"), "NoFit")
        world.delete("pod", names[5])
        world.runs("more")
        world.check(f"{what}: each card has two halves again", holders(world) == {2: 8}, world.ledger())
        world.delete("pod", "--all")
        world.empty(f"{what}: all are given back")
    return part


def thirds(class_name):
    """Memory decides: three of 26Gi fit a card of 80Gi, four do not."""
    def part(world):
        names = [f"third-{i:02}" for i in range(24)]
        world.apply(*(pod_with(name, class_name, core=33, memory="26Gi") for name in names))
        world.runs(*names)
        world.check(f"{class_name}: each card has three thirds", holders(world) == {3: 8}, world.ledger())
        world.delete("pod", "--all")
        world.empty(f"{class_name}: all thirds are given back")
    return part


def spread(world):
    """Spreading policies leave no card idle while another one has two claims."""
    world.apply(egpu_class("spread", "WaitForFirstConsumer", cardPolicy="spread"))
    names = [f"spread-{i}" for i in range(8)]
    world.apply(*(pod_with(name, "spread", core=50, memory="40Gi") for name in names))
    world.runs(*names)
    world.check("spread: eight halves are on eight cards", holders(world) == {1: 8}, world.ledger())
    world.delete("pod", "--all")
    world.empty("spread: all are given back")


if __name__ == "__main__":
    sys.exit(main(NODES, *(burst(name, crash) for name in ("share", "wait") for crash in (False, True)), thirds("wait"), spread, retain_data=True))
