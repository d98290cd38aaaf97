"""Grove (ai-dynamo/grove) 226: of a gang that lacks resources one pod is pending without any event, so neither users nor tests can
find out why it waits. Elastic GPU must give every pending pod a reason: the condition Bound of its claim and an event of the pod both
name the obstacle, for each member of a gang, whether capacity, a member, a quota or a gate is missing.  grove_226_test.py BIN_DIR"""
import sys

from field import gang, main, namespace, pod_with, quota, until

NODES = """
nodes:
- {name: n, count: 2, cpu: 64, memory: 256Gi, gpus: [{model: A100, count: 2, memory: 40Gi}]}
"""


def events(world, name, space):
    """Returns reasons and messages of the events of a pod."""
    found = world.list("events", "-n", space, "--field-selector", f"involvedObject.kind=Pod,involvedObject.name={name}")
    return [(each["reason"], each["message"]) for each in found]


def explained(world, what, space, pods, reason):
    """Each claim has this reason, and each pod has an event with it."""
    for name in pods:
        made = until(lambda name=name: world.claim_of(name, space))
        world.equals(f"{what}: the claim of {name} has a reason", lambda made=made: world.reason(made, space), reason)
        condition = world.condition(made, "Bound", space)
        world.check(f"{what}: its condition Bound has the reason and a message", (condition.get("status"), condition.get("reason")) == ("False", reason)
                    and condition.get("message"), condition)
        world.contains(f"{what}: {name} has an event with the reason", lambda name=name: str(events(world, name, space)), reason)


def explained_by_one(world, what, space, pods, reason, *parts):
    """One claim of the gang has this reason, and its pod has an event with it. The other claims name that claim."""
    made = {name: until(lambda name=name: world.claim_of(name, space)) for name in pods}

    def speakers():
        return [name for name, claim in made.items() if world.claims(space).get(claim, ("", "", ""))[1] == reason]

    world.equals(f"{what}: one claim has the reason", lambda: len(speakers()), 1)
    speaker = speakers()[0]
    world.contains(f"{what}: its message", lambda: world.message(made[speaker], space), *parts)
    others = [message for claim, (_, _, message) in world.claims(space).items() if claim != made[speaker]]
    world.check(f"{what}: the others name that claim", len(others) == len(pods) - 1 and all(made[speaker] in message for message in others), others)
    world.contains(f"{what}: an event of the pod of that claim has the reason", lambda: str(events(world, speaker, space)), reason, parts[0])
    for name in pods:
        world.check(f"{what}: {name} has an event", until(lambda name=name: events(world, name, space), 20), events(world, name, space))


def lacking_capacity(world, mode):
    """The reported situation: five members, four cards."""
    space = f"{mode}-capacity"
    world.apply(namespace(space))
    pods = [f"member-{index}" for index in range(5)]
    world.apply(*(pod_with(name, mode, space, gang("workload", 5), gpu=1) for name in pods))
    explained_by_one(world, f"{mode}: no capacity", space, pods, "NoFit", "4 of 5 members of gang workload fit", "add 1 card")
    world.check(f"{mode}: no capacity: nothing is held", not world.ledger(), world.ledger())
    world.kubectl.ok("delete", "pod", "--all", "-n", space)


def lacking_members(world, mode):
    space = f"{mode}-members"
    world.apply(namespace(space))
    pods = [f"member-{index}" for index in range(2)]
    world.apply(*(pod_with(name, mode, space, gang("workload", 3), gpu=1) for name in pods))
    explained(world, f"{mode}: no third member", space, pods, "WaitingForGang")
    world.kubectl.ok("delete", "pod", "--all", "-n", space)


def lacking_quota(world, mode):
    space = f"{mode}-quota"
    world.apply(namespace(space), quota("team", {"gpu": "1"}, space))
    pods = [f"member-{index}" for index in range(2)]
    world.apply(*(pod_with(name, mode, space, gang("workload", 2), gpu=1) for name in pods))
    explained_by_one(world, f"{mode}: no quota", space, pods, "QuotaExceeded", "quota team allows gpu 1")
    world.kubectl.ok("delete", "pod", "--all", "-n", space)


def held_by_a_gate(world, mode):
    space = f"{mode}-gate"
    world.apply(namespace(space))
    world.apply(pod_with("queued", mode, space, spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, gpu=1))
    explained(world, f"{mode}: a foreign gate", space, ["queued"], "WaitingForGates")
    world.kubectl.ok("delete", "pod", "--all", "-n", space)


def too_large(world, mode):
    """A pod outside of any gang that no node can hold."""
    space = f"{mode}-large"
    world.apply(namespace(space))
    world.apply(pod_with("large", mode, space, gpu=3))
    explained(world, f"{mode}: no node with three cards", space, ["large"], "NoFit")
    world.kubectl.ok("delete", "pod", "--all", "-n", space)


def all_obstacles(world):
    for mode in ("share", "wait"):
        for obstacle in (lacking_capacity, lacking_members, lacking_quota, held_by_a_gate, too_large):
            obstacle(world, mode)
    world.empty("nothing is left")


if __name__ == "__main__":
    sys.exit(main(NODES, all_obstacles))
