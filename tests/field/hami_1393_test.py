"""HAMi 1393: a pod of two cards with 20 percent of compute and 2048 MB of each is counted in the ResourceQuota as 20 and 2048, not as 40 and
4096. Two pods of one card each are counted correctly.
Elastic GPU counts amount times cards, and a pod of two cards as it counts two pods of one card. The quota of the report (2 cards, 50, 4096 MB)
is then full: a further pod waits as QuotaExceeded, and a pod whose cards together exceed the quota is never admitted.  hami_1393_test.py BIN_DIR"""
import sys

from field import claim, main, namespace, pod_of, pod_with, quota

NODES = "nodes:\n- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: A100, count: 4, memory: 40Gi}]}\n"
HARD = {"gpu": 2, "gpu-core": 50, "gpu-memory": "4Gi"}


def usage(world, space):
    used = world.used("default", space)
    return tuple(str(used.get(key)) for key in ("gpu", "gpu-core", "gpu-memory"))


def prepare(world):
    for space in ("share", "wait"):
        world.apply(namespace(space), quota("default", HARD, space))


def end(world, space, what):
    world.delete("pod", "--all", namespace=space)
    world.delete("egpuc", "--all", namespace=space)
    world.empty(what)
    world.equals(f"{what}: nothing is used", lambda: usage(world, space), ("0", "0", "0"))


def reported(space):
    """The namespaces have the names of the classes."""
    def part(world):
        world.apply(pod_with("two-cards", space, space, gpu=2, core=20, memory="2Gi"))
        world.runs("two-cards", namespace=space)
        world.equals(f"{space}: two cards of 20 and 2Gi count 40 and 4Gi", lambda: usage(world, space), ("2", "40", "4Gi"))
        world.apply(pod_with("more", space, space, core=10, memory="1Gi"))
        made = lambda: world.claims(space).get(world.claim_of("more", space), ("", "", ""))
        world.equals(f"{space}: the next pod exceeds the quota", lambda: made()[1], "QuotaExceeded")
        world.contains(f"{space}: the message names quota, key and amounts", lambda: made()[2], "quota default allows gpu", "is used",
                       "1 too little for another 1")
        world.delete("pod", "two-cards", namespace=space)
        world.runs("more", namespace=space)
        world.equals(f"{space}: the quota counts one card", lambda: usage(world, space), ("1", "10", "1Gi"))
        end(world, space, f"{space}: the report's pods go")
    return part


def one_by_one(space):
    def part(world):
        for name in ("first", "second"):
            world.apply(claim(name, space, space, core=20, memory="2Gi"), pod_of(name, namespace=space))
        world.runs("first", "second", namespace=space)
        world.equals(f"{space}: two pods of one card count the same", lambda: usage(world, space), ("2", "40", "4Gi"))
        end(world, space, f"{space}: the pods of one card go")
    return part


def product_exceeds(space):
    """Each card alone is within the quota."""
    def part(world):
        for name, amounts, message in (("core", {"core": 30, "memory": "1Gi"}, "allows gpu-core 50, 0 is used: 10 too little for another 60"),
                                       ("memory", {"core": 10, "memory": "3Gi"}, "allows gpu-memory 4Gi, 0 is used: 2Gi too little for another 6Gi")):
            world.apply(claim(name, space, space, gpu=2, **amounts), pod_of(name, namespace=space))
            world.equals(f"{space}: two cards exceed {name} together", lambda name=name: world.reason(name, space), "QuotaExceeded")
            world.contains(f"{space}: {name} is multiplied in the message", lambda name=name: world.message(name, space), "quota default " + message)
        world.check(f"{space}: nothing is given", not world.ledger(), world.ledger())
        world.apply(quota("default", dict(HARD, **{"gpu-core": 60}), space))
        world.runs("core", namespace=space)
        world.equals(f"{space}: a raised quota admits the first", lambda: usage(world, space), ("2", "60", "2Gi"))
        world.apply(quota("default", HARD, space))
        end(world, space, f"{space}: products go")
    return part


def per_claim(space):
    def part(world):
        world.apply(quota("default", HARD, space, perClaim={"gpu-core": 30}))
        world.apply(claim("wide", space, space, gpu=2, core=20, memory="1Gi"), pod_of("wide", namespace=space))
        world.contains(f"{space}: perClaim counts the product, too", lambda: world.message("wide", space),
                       "quota default allows each claim gpu-core 30, this one would have 40")
        world.apply(quota("default", HARD, space))
        world.runs("wide", namespace=space)
        end(world, space, f"{space}: the wide claim goes")
    return part


if __name__ == "__main__":
    sys.exit(main(NODES, prepare, *(each(space) for space in ("share", "wait") for each in (reported, one_by_one, product_exceeds, per_claim))))
