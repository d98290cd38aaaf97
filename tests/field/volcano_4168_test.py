"""Volcano 4168: a queue limits volcano.sh/vgpu-memory and volcano.sh/vgpu-cores. The pods of a Deployment get more than the queue's
capacity, and the queue's allocated resources list neither of the two. Elastic GPU must count core and memory of shares against the quota
of the namespace, hold back the pods that exceed either limit, name the quota, the amount that is missing and the holders, and show both
amounts as used until the claims are gone.  volcano_4168_test.py BIN_DIR"""
import sys

from field import main, namespace, pod_with, quota

NODES = """
nodes:
- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: A30, count: 4, memory: 24Gi, sms: 56, tflops: 165}]}
"""


def replicas(world, space, mode, count, **amounts):
    """The pods of a Deployment, all at once."""
    pods = [f"replica-{index}" for index in range(count)]
    world.apply(*(pod_with(name, mode, space, **amounts) for name in pods))
    return pods


def running(world, space, pods):
    return [name for name in pods if world.pod_phase(name, space) == "Running"]


def limited(world, mode, key, hard, amounts, fit):
    """`fit` of three replicas are within the quota, which limits core or memory."""
    what = f"{mode}, {key}"
    space = f"{mode}-{key}"
    world.apply(namespace(space), quota("team", hard, space))
    pods = replicas(world, space, mode, 3, **amounts)
    world.equals(f"{what}: {fit} of three run", lambda: len(running(world, space, pods)), fit)
    world.equals(f"{what}: the others exceed the quota", lambda: sorted(reason for _, reason, _ in world.claims(space).values()),
                 [""] * fit + ["QuotaExceeded"] * (3 - fit))
    waiting = [message for _, reason, message in world.claims(space).values() if reason == "QuotaExceeded"]
    world.check(f"{what}: the message names quota and limit", all(f"quota team allows {key} {hard[key]}" in each for each in waiting), waiting)
    return space, pods


def memory_limit(world):
    for mode in ("share", "wait"):
        space, pods = limited(world, mode, "gpu-memory", {"gpu-memory": "12Gi"}, {"core": 10, "memory": "5Gi"}, 2)
        world.equals(f"{mode}: the memory in use is shown", lambda space=space: world.used("team", space).get("gpu-memory"), "10Gi")
        world.contains(f"{mode}: what is missing", lambda space=space: str(world.claims(space)), "3Gi too little for another 5Gi")
        first = running(world, space, pods)[0]
        world.delete("pod", first, namespace=space)
        world.equals(f"{mode}: the third one follows a release", lambda space=space, pods=pods: len(running(world, space, pods)), 2)
        world.kubectl.ok("delete", "pod", "--all", "-n", space)
        world.equals(f"{mode}: nothing is in use at the end", lambda space=space: world.used("team", space).get("gpu-memory"), "0")
    world.empty("released")


def core_limit(world):
    """The report's queue allows 1 % of a card; each replica asks for 10 %."""
    for mode in ("share", "wait"):
        space, _ = limited(world, mode, "gpu-core", {"gpu-core": "1"}, {"core": 10, "memory": "1Gi"}, 0)
        world.check(f"{mode}: no card is used", not world.ledger(), world.ledger())
        world.kubectl.ok("delete", "pod", "--all", "-n", space)
    world.empty("released")


def both_limits(world):
    """The quota limits core and memory together; the message names the exceeded one."""
    for mode in ("share", "wait"):
        space = f"{mode}-both"
        world.apply(namespace(space), quota("team", {"gpu-core": "100", "gpu-memory": "48Gi", "gpu": "4"}, space))
        pods = replicas(world, space, mode, 3, core=40, memory="4Gi")
        world.equals(f"{mode}: two of three run within 100 % of core", lambda space=space, pods=pods: len(running(world, space, pods)), 2)
        world.contains(f"{mode}: core is named", lambda space=space: str(world.claims(space)), "QuotaExceeded", "quota team allows gpu-core 100", "80 is used")
        world.equals(f"{mode}: both amounts are in use", lambda space=space: [world.used("team", space).get(key) for key in ("gpu-core", "gpu-memory", "gpu")],
                     ["80", "8Gi", "2"])
        world.kubectl.ok("delete", "pod", "--all", "-n", space)
    world.empty("released")


if __name__ == "__main__":
    sys.exit(main(NODES, memory_limit, core_limit, both_limits))
