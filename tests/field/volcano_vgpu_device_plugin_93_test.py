"""volcano-vgpu-device-plugin 93: pods that ask for different numbers of GPUs reach one node in a very short interval. The device plugin serves
the request of the kubelet for the oldest pending pod, which is sometimes another pod, and fails with "device number not matched"; the pod
ends as UnexpectedAdmissionError.
Elastic GPU identifies a device by its claim. Each pod gets the cards and amounts of its own claim, whatever the number, the order and the
ages of the pods on the node.  volcano_vgpu_device_plugin_93_test.py BIN_DIR"""
import random
import sys

from field import claim, egpu_class, main, pod_of, pod_with

NODES = "nodes:\n- {name: n, cpu: 256, memory: 1Ti, gpus: [{model: A100, count: 16, memory: 40Gi}]}\n"
MI = 1 << 20
CLASSES = {"hami": "Immediate", "hami-wait": "WaitForFirstConsumer"}


def prepare(world):
    for name, mode in CLASSES.items():
        world.apply(egpu_class(name, mode, isolation="hami-core"))


def environment(world, pod_name):
    """Returns the variables that the node gave to the container."""
    given = world.get("pod", pod_name)["metadata"]["annotations"].get("prepared.elasticgpu.io/main", "")
    return dict(line[len("  env "):].split("=", 1) for line in given.split("\n") if line.startswith("  env "))


def own(world, pod_name, claim_name, cards, core, memory):
    """Checks that the container has the cards of the claim's ledger entries, and its amounts on each."""
    entries = [entry for entry in world.ledger() if entry[1] == f"default/{claim_name}"]
    world.check(f"{pod_name}: the ledger has {cards} entries of {core}", [entry[2:] for entry in entries] == [(core, memory)] * cards, entries)
    given = environment(world, pod_name)
    names = [card for card, *_ in entries]
    world.check(f"{pod_name}: the container has the claim's cards", sorted(card.lower() for card in given.get("ELASTICGPU_CARDS", "").split(",")) == names,
                (given, names))
    world.check(f"{pod_name}: and its device", given.get("ELASTICGPU_DEVICE") == world.get("egpuc", claim_name)["status"]["elasticGPUName"], given)
    limits = [given.get(f"CUDA_DEVICE_MEMORY_LIMIT_{i}") for i in range(cards)]
    if core == 1000:  # whole cards have no limiter
        amounts = [given.get(f"ELASTICGPU_MEMORY_{i}") for i in range(cards)]
        world.check(f"{pod_name}: and its memory", amounts == [str(memory)] * cards, given)
        world.check(f"{pod_name}: and no limit", limits == [None] * cards and given.get("ELASTICGPU_ISOLATION") == "whole-card", given)
        return
    world.check(f"{pod_name}: and its limits", limits == [f"{memory // MI}m"] * cards and given.get("CUDA_DEVICE_SM_LIMIT") == str(core // 10), given)


def end(world, what):
    world.delete("pod", "--all")
    world.delete("egpuc", "--all")
    world.empty(what)


def different_numbers(class_name):
    def part(world):
        for round_ in range(3):
            numbers = {f"p{round_}-{i}": number for i, number in enumerate([1, 2, 1, 4, 2, 1, 4, 1])}
            world.apply(*(pod_with(name, class_name, gpu=number) for name, number in numbers.items()))
            world.runs(*numbers)
            for name, number in numbers.items():
                own(world, name, world.claim_of(name), number, 1000, 40960 * MI)
            end(world, f"{class_name} {round_}: the numbers are given back")
    return part


def different_amounts(class_name):
    """Parts of cards, as in ascend-device-plugin 15: halves and eighths."""
    def part(world):
        amounts = {f"a{i}": (50, 20) if i % 2 else (12, 5) for i in range(12)}
        world.apply(*(pod_with(name, class_name, core=core, memory=f"{memory}Gi") for name, (core, memory) in amounts.items()))
        world.runs(*amounts)
        for name, (core, memory) in amounts.items():
            own(world, name, world.claim_of(name), 1, core * 10, memory * 1024 * MI)
        end(world, f"{class_name}: the amounts are given back")
    return part


def against_the_age(class_name):
    """The pods are created in a different order than their claims, so that the oldest claim does not belong to the oldest pod."""
    def part(world):
        numbers = {"one": 1, "three": 3, "two": 2, "four": 4}
        world.apply(*(claim(name, class_name, gpu=number, core=40, memory="8Gi") for name, number in numbers.items()))
        order = sorted(numbers, key=lambda name: random.Random(name).random())
        world.apply(*(pod_of(name) for name in reversed(order)))
        world.runs(*numbers)
        for name, number in numbers.items():
            own(world, name, name, number, 400, 8 * 1024 * MI)
        end(world, f"{class_name}: the claims are given back")
    return part


if __name__ == "__main__":
    sys.exit(main(NODES, prepare, *(each(name) for name in CLASSES for each in (different_numbers, different_amounts, against_the_age))))
