"""InstaSlice (openshift/instaslice-operator) 82: pods that Kueue queues have the scheduling gate kueue.x-k8s.io/admission. InstaSlice checks only its own
gate, and therefore allocates and prepares a GPU slice as soon as such a pod is submitted instead of when the queue admits it. Elastic GPU must allocate
nothing for queued pods: pods that are submitted later but admitted earlier must get the cards, and queued pods that are deleted before their admission
must leave no trace.  instaslice_82_test.py BIN_DIR"""
import json
import sys

from field import main, pod_with, template

NODES = """
nodes:
- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: A100, count: 1, memory: 40Gi}]}
"""
QUEUE = "kueue.x-k8s.io/admission"
QUEUED = {"schedulingGates": [{"name": QUEUE}]}
SLICE = {"core": 25, "memory": "10Gi"}


def admit(world, name):
    rest = [each for each in world.get("pod", name)["spec"]["schedulingGates"] if each["name"] != QUEUE]
    world.kubectl.ok("patch", "pod", name, "--type=merge", "-p", json.dumps({"spec": {"schedulingGates": rest}}))


def reasons(world, pods):
    return [world.reason(world.claim_of(name)) for name in pods]


def queue(world, mode, made_of_template):
    """Six queued pods of a quarter of the only card each; the queue admits the last four."""
    label = f"{mode}, {'template' if made_of_template else 'amounts'}"
    pods = [f"q{index}" for index in range(6)]
    if made_of_template:
        world.apply(template("slice", mode, **SLICE))
        plain = [pod_with(name, mode, spec=QUEUED) for name in pods]
        for each in plain:
            each["metadata"]["annotations"] = {"egpuct.elasticgpu.io/gpu": "slice"}
    else:
        plain = [pod_with(name, mode, spec=QUEUED, **SLICE) for name in pods]
    world.apply(*plain)
    world.equals(f"{label}: all six wait for the queue", lambda: reasons(world, pods), ["WaitingForGates"] * 6)
    world.check(f"{label}: no slice is allocated", not world.ledger(), world.ledger())
    devices = world.list("egpu", "-l", "elasticgpu.io/role=device")
    world.check(f"{label}: nor a device provisioned", not devices, devices)
    for name in pods[2:]:
        admit(world, name)
    world.runs(*pods[2:])
    world.equals(f"{label}: the admitted four have the card", lambda: [core for _, _, core, _ in world.ledger()], [250] * 4)
    world.check(f"{label}: the other two still wait for the queue", reasons(world, pods[:2]) == ["WaitingForGates"] * 2, world.claims())
    made = world.claim_of("q0")
    world.delete("pod", "q0", flags=("--timeout=60s",))
    world.equals(f"{label}: a queued pod that is deleted takes its claim with it", lambda: world.get("egpuc", made), {})
    admit(world, "q1")
    world.equals(f"{label}: one more is admitted and finds no capacity", lambda: reasons(world, ["q1"]), ["NoFit"])
    world.delete("pod", "q5")
    world.runs("q1")
    world.delete("pod", *pods[1:5])
    world.empty(f"{label}: released")
    if made_of_template:
        world.delete("egpuct", "slice")


def queues(world):
    queue(world, "share", made_of_template=False)
    queue(world, "wait", made_of_template=True)


def all_at_once(world):
    """The queue admits more pods than the card has quarters, all at once."""
    pods = [f"burst{index}" for index in range(8)]
    world.apply(*(pod_with(name, "wait", spec=QUEUED, **SLICE) for name in pods))
    world.equals("eight are queued", lambda: reasons(world, pods), ["WaitingForGates"] * 8)
    for name in pods:
        admit(world, name)
    world.equals("four of eight run", lambda: sorted(world.pod_phase(name) for name in pods), ["Pending"] * 4 + ["Running"] * 4)
    world.check("the card is not over its capacity", not world.overfull(), world.ledger())
    world.delete("pod", *pods)
    world.empty("the burst is released")


if __name__ == "__main__":
    sys.exit(main(NODES, queues, all_at_once))
