"""NVIDIA k8s-device-plugin 1014 and 2038: after an XID the plugin marks a GPU as unhealthy, and the node stays at seven of eight GPUs even when the error is
resolved, until the plugin is restarted (1014). A GPU that fell off the bus makes each allocation of the node fail, also of its working GPUs (2038).
Elastic GPU must withdraw only that card and report why, keep the other cards in use, not withdraw a card whose XID only ends a program (XID 94), and
offer a repaired card again without a restart of the agent.
k8s_device_plugin_1014_test.py BIN_DIR"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
from field import Agent, a100, claim, egpu_class, main, pod_of, pod_with

NODES = """
nodes:
- {name: gpu-node, cpu: 64, memory: 256Gi}
"""
CARDS = [f"gpu-a{index}" for index in range(4)]


def lost_from_the_start(world, agent):
    """The agent starts while a card is off the bus (2038)."""
    world.equals("the three cards that work are offered", lambda: sorted(world.cards()), CARDS[:3])
    world.apply(claim("pair", "linked", gpu=2), pod_of("pair"), pod_with("single", "wait", gpu=1))
    world.runs("pair", "single")
    world.equals("two claims have the three", lambda: sorted(card for card, _, _, _ in world.ledger()), CARDS[:3])
    world.contains("an event of the node names the lost card", lambda: str(world.list("events", "--field-selector", "involvedObject.kind=Node")),
                   "fallen off the bus")
    world.delete("pod", "pair", "single")
    world.delete("egpuc", "pair")
    world.empty("the three are released")
    agent.devices = [a100(index) for index in range(4)]
    agent.restart()
    world.equals("the card is offered once it is back", lambda: agent.healthy(CARDS[3]), ("True", "Working"))


def withdrawn(world, agent):
    """Card 2, which a pod uses, has an XID that needs a reset; card 3 has one that only ends a program (1014)."""
    world.apply(claim("user", "linked", spec={"elasticGPUName": CARDS[2]}), pod_of("user"))
    world.runs("user")
    agent.devices = [a100(0), a100(1), a100(2, xids=[119]), a100(3, xids=[94])]
    agent.write()
    world.equals("the card with XID 119 is withdrawn", lambda: agent.healthy(CARDS[2]), ("False", "Xid119"))
    world.equals("the one with XID 94 is not", lambda: agent.healthy(CARDS[3])[0], "True")
    world.equals("the claim that has the card reports it", lambda: world.condition("user", "Healthy").get("status"), "False")
    world.check("the claim keeps its card, and the pod runs", world.cards_of("user") == [CARDS[2]] and world.pod_phase("user") == "Running", world.ledger())
    world.apply(claim("three", "linked", gpu=3), pod_of("three"))
    world.runs("three")
    world.equals("the next claim gets the three that work", lambda: sorted(world.cards_of("three")), [CARDS[0], CARDS[1], CARDS[3]])
    world.delete("pod", "user", "three")
    world.delete("egpuc", "user", "three")
    world.empty("all is released")


def repaired(world, agent):
    """The card returns without a restart of the agent, and a waiting claim gets it."""
    world.apply(claim("four", "linked", gpu=4), pod_of("four"), pod_with("late", "wait", gpu=4))
    for name in ("four", world.awaited_claim_of("late")):
        world.equals(f"{name}: no claim gets the withdrawn card", lambda name=name: world.reason(name), "NoFit")
        world.contains(f"{name}: the message names card and error", lambda name=name: world.message(name), CARDS[2], "Xid119")
    world.delete("pod", "late")
    world.kubectl.ok("annotate", "egpu", CARDS[2], "elasticgpu.io/repaired=Xid119")
    world.equals("once repaired it is offered again", lambda: agent.healthy(CARDS[2]), ("True", "Working"))
    world.check("by the same agent", agent.process.poll() is None)
    world.runs("four")
    world.equals("the claim has all four", lambda: sorted(world.cards_of("four")), CARDS)
    world.delete("pod", "four")
    world.delete("egpuc", "four")
    world.empty("nothing is in use at the end")


def node(world):
    world.apply(egpu_class("linked", cardPolicy="topology"))
    agent = Agent(world, "gpu-node", [a100(index, lost=index == 3) for index in range(4)])
    try:
        for part in (lost_from_the_start, withdrawn, repaired):
            part(world, agent)
    finally:
        agent.close()


if __name__ == "__main__":
    sys.exit(main(NODES, node))
