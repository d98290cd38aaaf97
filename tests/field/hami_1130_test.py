"""HAMi 1130: pods wait with "binding rejected: node has been locked within 5 minutes". The scheduler locks a node for each pod that it binds,
and a pod that never reaches the device plugin leaves the lock behind, so that every other pod of the node waits.
Elastic GPU has no lock of a node. A burst of pods on one node runs, and neither a claim whose provisioner fails, a pod that is deleted in
between, nor a crash of the controller keeps another pod of that node from running.  hami_1130_test.py BIN_DIR"""
import sys

from field import claim, egpu_class, main, pod_of, pod_with

NODES = "nodes:\n- {name: n, cpu: 256, memory: 1Ti, gpus: [{model: T4, count: 4, memory: 16Gi}]}\n"
TENTH = {"core": 10, "memory": "1Gi"}


def prepare(world):
    for mode in ("Immediate", "WaitForFirstConsumer"):
        # `provision` never succeeds; on a node `stage` never succeeds.
        for verb in ("provision", "stage"):
            world.apply(egpu_class(f"{verb}-{mode.lower()}", mode, "mock", at=verb, outcome="unavailable"))


def end(world, what):
    world.delete("pod", "--all")
    world.delete("egpuc", "--all")
    world.empty(what)


def burst(world, class_name, count, prefix="pod"):
    names = [f"{prefix}-{i:02}" for i in range(count)]
    world.apply(*(pod_with(name, class_name, **TENTH) for name in names))
    return names


def all_at_once(class_name):
    def part(world):
        names = burst(world, class_name, 12)
        world.runs(*names)
        world.check(f"{class_name}: twelve tenths are charged", [core for _, _, core, _ in world.ledger()] == [100] * 12, world.ledger())
        end(world, f"{class_name}: the burst is given back")
    return part


def stuck(mode, class_name, verb):
    """A claim of the node is stuck in its provisioner, or its pod is stuck on the node."""
    failing = f"{verb}-{mode.lower()}"

    def part(world):
        world.apply(claim("stuck", failing, **TENTH), pod_of("stuck"))
        world.equals(f"{failing}: the claim has its card and is stuck", lambda: world.cards_of("stuck") != [], True)
        names = burst(world, class_name, 5)
        world.runs(*names)
        world.check(f"{failing}: the stuck pod does not run", world.pod_phase("stuck") == "Pending", world.get("pod", "stuck"))
        end(world, f"{failing}: all is given back")
    return part


def deleted_in_between(class_name):
    """Half of the pods are deleted while they are bound."""
    def part(world):
        names = burst(world, class_name, 10)
        world.delete("pod", *names[::2], flags=("--wait=false",))
        more = burst(world, class_name, 5, "more")
        world.runs(*names[1::2], *more)
        world.equals(f"{class_name}: only the pods that run are charged", lambda: len(world.ledger()), 10)
        end(world, f"{class_name}: all pods are given back")
    return part


def crash(class_name):
    def part(world):
        names = burst(world, class_name, 10)
        world.restart()
        world.runs(*names)
        world.check(f"{class_name}: ten tenths are charged after the crash", [core for _, _, core, _ in world.ledger()] == [100] * 10, world.ledger())
        end(world, f"{class_name}: all is given back after the crash")
    return part


def parts():
    for class_name, mode in (("share", "Immediate"), ("wait", "WaitForFirstConsumer")):
        yield all_at_once(class_name)
        for verb in ("provision", "stage"):
            yield stuck(mode, class_name, verb)
        yield deleted_in_between(class_name)
        yield crash(class_name)


if __name__ == "__main__":
    sys.exit(main(NODES, prepare, *parts(), retain_data=True))
