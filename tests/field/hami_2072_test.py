"""HAMi 2072: after pods have come and gone, the free parts of a node's cards together are enough for a new pod, but no card has enough. Users evict pods by
hand and ask for a defragmentation of the node on request.
`defrag` of Elastic GPU names the fewest moves that let the new claim fit, and writes nothing. One eviction carries the plan out, and the new claim is bound on
the freed card. An annotation moves a claim that a user created. Claims of classes that are not movable are not moved, and placement by `binpack` leaves no
fragments in the first place.  hami_2072_test.py BIN_DIR"""
import json
import sys

from field import claim, egpu_class, main, pod_of

NODES = "nodes:\n- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: T4, count: 2, memory: 16Gi}]}\n"
MODES = {"movable": "Immediate", "movable-wait": "WaitForFirstConsumer"}


def prepare(world):
    for name, mode in MODES.items():
        world.apply(egpu_class(name, mode, movable="true", cardPolicy="spread"))
    world.apply(egpu_class("fixed", cardPolicy="spread"))


def defrag(world, name):
    return json.loads(world.server.http(f"/defrag?claim={name}"))


def end(world, what):
    world.delete("pod", "--all")
    world.delete("egpuc", "--all")
    world.empty(what)


def fragments(world, class_name):
    """Two claims of 60 and 40 percent on one card each: 100 percent are free, and no card has 70."""
    for name, core in (("large", 60), ("small", 40)):
        world.apply(claim(name, class_name, core=core, memory="2Gi"), owned(world, name))
        world.runs(name)
    world.check(f"{class_name}: the claims are on two cards", world.cards_of("large") != world.cards_of("small"), world.ledger())
    world.apply(claim("waits", class_name, core=100, memory="8Gi"), pod_of("waits"))
    world.equals(f"{class_name}: a whole card finds no capacity", lambda: world.reason("waits"), "NoFit")


def owned(world, name):
    """A pod of a controller, which recreates it after an eviction. A Lease represents the controller."""
    world.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "default"}})
    made = pod_of(name)
    made["metadata"]["ownerReferences"] = [{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": name, "controller": True,
                                            "uid": world.get("lease", name)["metadata"]["uid"]}]
    return made


def moved(class_name):
    def part(world):
        fragments(world, class_name)
        before = world.ledger()
        plan = defrag(world, "waits")
        world.check(f"{class_name}: one move lets the claim in", plan["possible"] and len(plan["moves"]) == 1, plan)
        move = plan["moves"][0]
        name = move["claim"].split("/")[1]
        other = {"small": "large", "large": "small"}[name]
        world.check(f"{class_name}: the plan names the pod to evict", move["pods"] == [f"default/{name}"], move)
        world.check(f"{class_name}: a plan moves nothing", world.ledger() == before, world.ledger())
        source, target = world.cards_of(name), world.cards_of(other)
        uid = world.get("egpu", world.get("egpuc", name)["status"]["elasticGPUName"])["metadata"]["uid"]
        world.kubectl.ok("annotate", "egpuc", name, f"elasticgpu.io/move={uid}")
        world.check(f"{class_name}: the annotation evicts nothing", world.pod_phase(name) == "Running" and world.cards_of(name) == source, world.ledger())
        world.delete("pod", name)
        world.apply(owned(world, name))
        world.runs(name, "waits")
        world.check(f"{class_name}: the moved claim is on the other card", world.cards_of(name) == target, world.ledger())
        world.check(f"{class_name}: the new claim has the card that became free", world.cards_of("waits") == source, world.ledger())
        end(world, f"{class_name}: all is given back after a move")
    return part


def nothing_movable(world):
    fragments(world, "fixed")
    plan = defrag(world, "waits")
    world.check("fixed: claims that may not move are not in a plan", not plan["possible"] and not plan["moves"] and plan["movable"] == 0, plan)
    world.delete("pod", "small")
    world.delete("egpuc", "small")
    world.runs("waits")
    end(world, "fixed: all is given back")


def no_fragments(class_name):
    """The default card policy fills the fullest card."""
    def part(world):
        for name, core in (("large", 60), ("small", 40)):
            world.apply(claim(name, class_name, core=core, memory="2Gi"), pod_of(name))
            world.runs(name)
        world.check(f"{class_name}: both claims share a card", world.cards_of("large") == world.cards_of("small"), world.ledger())
        world.apply(claim("whole", class_name, core=100, memory="8Gi"), pod_of("whole"))
        world.runs("whole")
        end(world, f"{class_name}: all is given back without a move")
    return part


if __name__ == "__main__":
    sys.exit(main(NODES, prepare, *(moved(name) for name in MODES), nothing_movable, *(no_fragments(name) for name in ("share", "wait"))))
