"""HAMi 1878: pods of a high PriorityClass wait although pods of lower priority have the parts of cards that they need; preemption is missing.
Elastic GPU evicts the fewest pods of lower priority whose parts suffice, on one card, and does not touch other pods. Nothing is evicted for a pod of the same
priority, for a pod with preemptionPolicy Never, from classes that are not preemptible, or if all possible victims would not suffice. The preemptor runs, and
the claim of a victim names it.  hami_1878_test.py BIN_DIR"""
import calendar
import sys
import time

from field import claim, egpu_class, main, pod_of, pod_with, priority_class, until

NODES = "nodes:\n- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: T4, count: 2, memory: 16Gi}]}\n"
HALF = {"core": 50, "memory": "8Gi"}


def prepare(world):
    world.apply(priority_class("low", 100), priority_class("high", 1000), priority_class("polite", 1000, preemptionPolicy="Never"),
                egpu_class("spare", preemptible="true"), egpu_class("spare-wait", "WaitForFirstConsumer", preemptible="true"))


def prioritized(name, class_name, priority, **amounts):
    return pod_with(name, class_name, spec={"priorityClassName": priority}, **amounts)


def fill(world, class_name, priority="low"):
    """Four pods of half a card each fill both cards."""
    names = [f"{priority}-{i}" for i in range(4)]
    world.apply(*(prioritized(name, class_name, priority, **HALF) for name in names))
    world.runs(*names)
    return names


def left(world, names):
    return [name for name in names if world.pod_phase(name) == "Running"]


def end(world, what):
    world.delete("pod", "--all")
    world.delete("egpuc", "--all")
    world.empty(what)


def seconds(made):
    """Returns the creation time of an object in seconds since 1970."""
    return calendar.timegm(time.strptime(made["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ"))


def reason_of(world, pod_name):
    return world.reason(world.claim_of(pod_name) or "none")


def part_of_a_card(class_name):
    def part(world):
        names = fill(world, class_name)
        world.apply(prioritized("urgent", class_name, "high", core=25, memory="4Gi"))
        world.runs("urgent")
        world.equals(f"{class_name}: one pod is evicted for a quarter", lambda: len(left(world, names)), 3)
        end(world, f"{class_name}: all is given back after one eviction")
    return part


def whole_card(class_name):
    def part(world):
        names = fill(world, class_name)
        by_card = {}
        for name in names:
            by_card.setdefault(world.cards_of(world.claim_of(name))[0], []).append(name)
        world.apply(prioritized("urgent", class_name, "high", gpu=1))
        world.runs("urgent")
        card = world.cards_of(world.claim_of("urgent"))[0]
        survivors = sorted(name for each, pods in by_card.items() for name in pods if each != card)
        world.equals(f"{class_name}: the pods of one card are evicted for a whole card", lambda: left(world, names), survivors)
        end(world, f"{class_name}: all is given back after two evictions")
    return part


def by_hand(mode, class_name):
    """Claims created by users outlive their pods: the victim's claim waits, and names the claim that preempted it."""
    def part(world):
        for name in ("one", "two"):
            world.apply(claim(name, class_name, spec={"priorityClassName": "low"}, gpu=1), pod_of(name, priorityClassName="low"))
            world.runs(name)
            device = world.get("egpu", world.get("egpuc", name)["status"]["elasticGPUName"])
            until(lambda device=device: int(time.time()) > seconds(device), 10)  # ages of devices are whole seconds
        world.apply(claim("urgent", class_name, spec={"priorityClassName": "high"}, gpu=1), pod_of("urgent", priorityClassName="high"))
        world.runs("urgent")
        victim, other = ("one", "two") if not world.cards_of("one") else ("two", "one")
        world.check(f"{mode}: the claim with the youngest device is the victim", victim == "two", world.ledger())
        world.contains(f"{mode}: the victim names the claim that preempted it", lambda: str(world.condition(victim, "Preempted")), "default/urgent")
        world.equals(f"{mode}: the pod of the victim is evicted", lambda: world.pod_phase(victim), "")
        world.check(f"{mode}: the other pod runs on", world.pod_phase(other) == "Running" and world.phase(other) == "Bound", world.claims())
        world.delete("pod", "urgent")
        world.delete("egpuc", "urgent")
        world.apply(pod_of(victim, priorityClassName="low"))
        world.runs(victim)
        end(world, f"{mode}: all claims by hand are given back")
    return part


def nothing_evicted(what, class_name, priority, victims="low", **amounts):
    def part(world):
        names = fill(world, class_name, victims)
        world.apply(prioritized("waits", class_name, priority, **amounts))
        world.equals(f"{what} ({class_name}): the pod waits", lambda: reason_of(world, "waits"), "NoFit")
        # The marker is decided after the pod, so its reason shows that the controller is past the search for victims.
        world.apply(prioritized("marker", class_name, "low", core=1, memory="1Gi"))
        world.equals(f"{what} ({class_name}): a later pod waits, too", lambda: reason_of(world, "marker"), "NoFit")
        world.check(f"{what} ({class_name}): nothing is evicted", left(world, names) == names, world.claims())
        end(world, f"{what} ({class_name}): all is given back")
    return part


def parts():
    for class_name in ("spare", "spare-wait"):
        yield part_of_a_card(class_name)
        yield whole_card(class_name)
        yield by_hand(class_name, class_name)
        yield nothing_evicted("same priority", class_name, "low", **HALF)
        yield nothing_evicted("preemptionPolicy Never", class_name, "polite", **HALF)
        yield nothing_evicted("three cards of a node of two", class_name, "high", gpu=3)
    for class_name in ("share", "wait"):
        yield nothing_evicted("a class that is not preemptible", class_name, "high", **HALF)


if __name__ == "__main__":
    sys.exit(main(NODES, prepare, *parts()))
