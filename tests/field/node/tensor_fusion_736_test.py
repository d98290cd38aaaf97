"""TensorFusion pull request 736 (ported as 738): cards that are removed while the node's hypervisor component is down stay in the cluster as stale objects
and count as capacity. Missing cards must not be counted: idle ones are removed, and busy ones are marked and excluded from the node's capacity until they
return or become idle. Elastic GPU must do so for an agent that was down meanwhile: claims and their entries stay, no new claim gets a missing card, and a
card that returns is used again.  tensor_fusion_736_test.py BIN_DIR"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
from field import Agent, a100, claim, main, pod_of, pod_with

NODES = """
nodes:
- {name: gpu-node, cpu: 64, memory: 256Gi}
"""
CARDS = [f"gpu-a{index}" for index in range(4)]


def removed_while_down(world, agent):
    """Card 2, which is busy, and card 3, which is idle, are removed while the agent is down."""
    world.equals("four cards are offered", lambda: sorted(world.cards()), CARDS)
    world.apply(claim("busy", spec={"elasticGPUName": CARDS[2]}), pod_of("busy"))
    world.runs("busy")
    agent.kill()
    agent.devices = [a100(0), a100(1)]
    agent.write()
    agent.start()
    for card in CARDS[2:]:
        world.equals(f"{card} is marked as missing", lambda card=card: agent.healthy(card), ("False", "CardGone"))
    world.equals("the claim keeps its entry", lambda: world.cards_of("busy"), [CARDS[2]])
    world.equals("and reports the loss", lambda: world.condition("busy", "Healthy").get("status"), "False")
    world.check("its pod is not touched", world.pod_phase("busy") == "Running", world.get("pod", "busy"))


def capacity(world, agent):
    """The missing cards are no capacity, in either binding mode, even if a claim names one of them."""
    world.apply(claim("three", gpu=3), pod_of("three"), pod_with("late", "wait", gpu=3), claim("named", spec={"elasticGPUName": CARDS[3]}))
    for name in ("three", world.awaited_claim_of("late"), "named"):
        world.equals(f"{name} waits", lambda name=name: world.reason(name), "NoFit")
        world.contains(f"{name}: the message names a missing card and why", lambda name=name: world.message(name), CARDS[3], "CardGone")
    world.delete("pod", "late")
    world.apply(claim("two", gpu=2), pod_of("two"))
    world.runs("two")
    world.equals("two cards are of use", lambda: sorted(world.cards_of("two")), CARDS[:2])
    world.delete("pod", "two")
    world.delete("egpuc", "two")
    world.delete("pod", "busy")
    world.delete("egpuc", "busy")
    world.empty("also the missing card has no entry any more")
    world.equals("idle, it is still no capacity", lambda: (world.reason("three"), agent.healthy(CARDS[2])), ("NoFit", ("False", "CardGone")))


def back(world, agent):
    agent.devices = [a100(index) for index in range(4)]
    agent.restart()
    for card in CARDS[2:]:
        world.equals(f"{card} is offered again", lambda card=card: agent.healthy(card), ("True", "Working"))
    world.equals("the named card is bound", lambda: (world.phase("named"), world.cards_of("named")), ("Bound", [CARDS[3]]))
    world.runs("three")
    world.delete("egpuc", "named")
    world.delete("pod", "three")
    world.delete("egpuc", "three")
    world.empty("released")


def node(world):
    agent = Agent(world, "gpu-node", [a100(index) for index in range(4)])
    try:
        for part in (removed_while_down, capacity, back):
            part(world, agent)
    finally:
        agent.close()


if __name__ == "__main__":
    sys.exit(main(NODES, node))
