"""Volcano 4863 (pull requests 5784 and 5906): a node has one GPU card, which a pod of low priority shares; a pod of high priority that
asks for a part of the card stays pending, although evicting the other pod would free enough. Comparing the request with the idle
resources of the node can never succeed for a percentage, and a scheduler that stops comparing evicts more pods than needed. Elastic GPU
must evict exactly the pods whose release lets the claim fit, on the one card, and none when preemption cannot help or nothing permits
it.  volcano_4863_test.py BIN_DIR"""
import sys

from field import claim, egpu_class, main, pod_of, pod_with, priority_class

NODES = """
nodes:
- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: T4, count: 2, memory: 16Gi, sms: 40, tflops: 65}]}
"""
QUARTER = {"core": 25, "memory": "4Gi"}
CLASSES = {"Immediate": "spare", "WaitForFirstConsumer": "spare-late"}


def low_pods(world):
    return [each["metadata"]["name"] for each in world.list("pods", "-l", "low=yes") if each["status"].get("phase") == "Running"
            and "deletionTimestamp" not in each["metadata"]]


def low(name, class_name, priority="low", **amounts):
    made = pod_with(name, class_name, spec={"priorityClassName": priority}, **amounts)
    made["metadata"]["labels"] = {"low": "yes"}
    return made


def cleared(world):
    world.kubectl.ok("delete", "pod,egpuc", "--all")
    world.empty("released")


def filled(world, class_name):
    """Eight quarters fill both cards."""
    world.apply(*(low(f"low{index}", class_name, **QUARTER) for index in range(8)))
    world.equals(f"{class_name}: eight pods run", lambda: len(low_pods(world)), 8)
    world.check(f"{class_name}: their quarters fill both cards", [core for _, _, core, _ in world.ledger()] == [250] * 8, world.ledger())


def evicts(world, what, name, count):
    """Checks that the pod of high priority runs, and that exactly `count` pods of low priority were evicted."""
    world.runs(name)
    world.equals(f"{what}: {count} went, no more", lambda: len(low_pods(world)), 8 - count)
    world.check(f"{what}: no card is over its capacity", not world.overfull(), world.ledger())


def parts(world):
    """The reported situation, and variants: core alone, memory alone, and three quarters of one card."""
    wanted = (("spare", "a quarter", 1, QUARTER), ("spare-late", "a quarter", 1, QUARTER), ("spare", "core alone", 1, {"core": 20}),
              ("spare-late", "memory alone", 2, {"memory": "5Gi"}), ("spare-late", "three quarters", 3, {"core": 75, "memory": "12Gi"}))
    for class_name, what, count, amounts in wanted:
        filled(world, class_name)
        world.apply(pod_with("high", class_name, spec={"priorityClassName": "high"}, **amounts))
        evicts(world, f"{class_name}, {what}", "high", count)
        world.check(f"{class_name}, {what}: on one card", len(world.cards_of(world.claim_of("high"))) == 1, world.ledger())
        cleared(world)


def made_by_hand(world):
    """The preemptor's claim exists before its pod, and the claim's own PriorityClass counts. The lowest of the eight pods is evicted."""
    world.apply(*(low(f"low{index}", "spare", "lower" if index == 5 else "low", **QUARTER) for index in range(8)))
    world.equals("eight run", lambda: len(low_pods(world)), 8)
    world.apply(claim("high", "spare", spec={"priorityClassName": "high"}, **QUARTER), pod_of("high"))
    evicts(world, "a claim by hand", "high", 1)
    world.check("the lowest went", "low5" not in low_pods(world), low_pods(world))
    cleared(world)


def spared(world):
    """Nothing is evicted for a claim of equal priority, for one that would not fit after any eviction, or for a priority that never preempts."""
    filled(world, "spare-late")
    world.apply(low("equal", "spare-late", **QUARTER), pod_with("huge", "spare-late", spec={"priorityClassName": "high"}, core=50, memory="20Gi"),
                pod_with("never", "spare-late", spec={"priorityClassName": "polite"}, **QUARTER))
    for name in ("equal", "huge", "never"):
        world.equals(f"{name} waits", lambda name=name: world.reason(world.claim_of(name)), "NoFit")
    world.check("none of the eight went", len(low_pods(world)) == 8, low_pods(world))
    cleared(world)
    filled(world, "share")
    world.apply(pod_with("high", "share", spec={"priorityClassName": "high"}, **QUARTER))
    world.equals("where the class is not preemptible it waits", lambda: world.reason(world.claim_of("high")), "NoFit")
    world.check("none of these eight went", len(low_pods(world)) == 8, low_pods(world))
    cleared(world)


def priorities(world):
    world.apply(priority_class("lower", 10), priority_class("low", 100), priority_class("high", 1000),
                priority_class("polite", 1000, preemptionPolicy="Never"),
                *(egpu_class(name, mode, preemptible="true") for mode, name in CLASSES.items()))


if __name__ == "__main__":
    sys.exit(main(NODES, priorities, parts, made_by_hand, spared))
