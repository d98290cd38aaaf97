"""Volcano 1818 and pull request 2215: a node loses two of its eight GPUs while a pod has all eight. The scheduler takes the six that are
left for six free ones and sends a pod for six GPUs there, which the kubelet rejects (1818). The devices that a node lost stay in the
scheduler's cache (2215). Elastic GPU must keep the entries of the pod on all eight cards, bind nothing to the node until the pod ends,
remove lost cards that are free at once and used ones with their last claim, and offer exactly the six others.
volcano_1818_test.py BIN_DIR"""
import sys

from field import claim, gang, main, pod_of, pod_with

UUIDS = [f"GPU-{index}" for index in range(8)]
LOST = ("GPU-2", "GPU-6")
LEFT = [each for each in UUIDS if each not in LOST]
CARDS = [each.lower() for each in UUIDS]


def nodes(uuids):
    return ("nodes:\n- {name: node1, cpu: 128, memory: 512Gi, gpus: [{model: H100, memory: 80Gi, sms: 132, tflops: 989, "
            f"count: {len(uuids)}, uuids: [{', '.join(uuids)}]}}]}}\n")


def hardware(world, uuids):
    """Restarts the controller with different cards on the node."""
    with open(world.server.nodes, "w", encoding="utf-8") as file:
        file.write(nodes(uuids))
    world.restart()


def used_cards(world):
    """Two of eight cards that a pod has are lost."""
    world.apply(claim("pod0", gpu=8), pod_of("pod0"))
    world.runs("pod0")
    hardware(world, LEFT)
    world.contains("the claim says which cards are lost", lambda: f"{world.phase('pod0')}: {world.message('pod0')}", "Lost: ", "gpu-2", "gpu-6")
    world.equals("it keeps its entries on all eight cards", lambda: sorted(world.cards_of("pod0")), CARDS)
    world.kubectl.ok("label", "node", "node1", "updated=once")
    world.apply(claim("pod1", gpu=6), pod_of("pod1"), pod_with("late", "wait", gpu=6))
    world.equals("a claim for the six that are left waits", lambda: world.reason("pod1"), "NoFit")
    world.equals("so does one of a first consumer", lambda: world.reason(world.claim_of("late")), "NoFit")
    world.kubectl.ok("annotate", "node", "node1", "updated=twice")
    world.check("no pod went to the node", not world.get("pod", "pod1")["spec"].get("nodeName"), world.get("pod", "pod1"))
    world.delete("pod", "late")
    world.delete("pod", "pod0")
    world.equals("the claim of the eight waits", lambda: world.phase("pod0"), "Pending")
    world.equals("the lost cards are removed with their last claim", lambda: sorted(world.cards()), [each.lower() for each in LEFT])
    world.runs("pod1")
    world.equals("it has the six", lambda: sorted(world.cards_of("pod1")), [each.lower() for each in LEFT])
    world.check("the eight wait", world.reason("pod0") == "NoFit", world.claims())
    world.delete("pod", "pod1")
    world.delete("egpuc", "pod0", "pod1")
    world.empty("all is released")


def free_cards(world):
    """Two further cards are lost while no claim has them: their objects are removed."""
    hardware(world, LEFT[:4])
    four = [each.lower() for each in LEFT[:4]]
    world.equals("free cards that are lost are removed", lambda: sorted(world.cards()), four)
    for mode in ("share", "wait"):
        world.apply(pod_with("six", mode, gpu=6), pod_with("four", mode, gpu=4))
        world.runs("four")
        world.equals(f"{mode}: six cards are not there", lambda: world.reason(world.claim_of("six")), "NoFit")
        world.delete("pod", "six", "four")
        world.empty(f"{mode}: released")
    members = gang("pair", 2)
    world.apply(*(claim(f"pair-{index}", annotations=members, gpu=3) for index in range(2)))
    world.contains("a gang of twice three gets none of the four", lambda: str(world.claims()), "NoFit", "1 of 2 members of gang pair fit")
    world.check("it holds nothing", not world.ledger(), world.ledger())
    hardware(world, UUIDS)
    world.equals("with all eight back the gang is bound", lambda: [world.phase(f"pair-{index}") for index in range(2)], ["Bound"] * 2)
    world.delete("egpuc", "pair-0", "pair-1")
    world.empty("the gang is released")


if __name__ == "__main__":
    sys.exit(main(nodes(UUIDS), used_cards, free_cards, retain_data=True))
