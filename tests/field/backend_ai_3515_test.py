"""Backend.AI 3515: the manager compares a request with the sum of the free resources of an agent and does not know its allocation map. It
therefore sends sessions to agents whose free parts of GPUs are fragmented, where they fail with InsufficientResource. Elastic GPU must
choose a node by its cards: a share goes to a node with one card that can hold it, whatever the policy of the class prefers by totals. Where
no card can, the claim stays pending and the message states the largest share that would fit.  backend_ai_3515_test.py BIN_DIR"""
import sys

from field import claim, egpu_class, main, pod_with

# Free percent of each card. The fragmented node has the largest total, the solid one the largest part on one card.
FREE = {"fragmented": (50, 50, 50), "solid": (60,)}
NODES = "nodes:\n" + "".join(f"- {{name: {name}, cpu: 64, memory: 256Gi, gpus: [{{model: {name}, count: {len(free)}, memory: 100Gi, tflops: 100}}]}}\n"
                             for name, free in FREE.items())
POLICIES = [("binpack", "binpack"), ("spread", "spread"), ("compact-first", "compact-first"), ("low-load-first", "low-load-first"),
            ("fragmentation", "binpack"), ("binpack", "spread")]


def fillers(world):
    """Claims that leave the parts of FREE. Each takes at least a half, so that no two of them fit on one card with less than that."""
    world.apply(egpu_class("spread", nodePolicy="spread", cardPolicy="spread"))
    world.apply(*(claim(f"filler-{name}-{index}", "spread", spec={"models": [name]}, core=100 - part, memory=f"{100 - part}Gi")
                  for name, free in FREE.items() for index, part in enumerate(free)))
    world.equals("each card has one filler", lambda: sorted(core for _, _, core, _ in world.ledger()), [400, 500, 500, 500])
    world.equals("on a card of its own", lambda: len({card for card, _, _, _ in world.ledger()}), 4)


def node_of(world, name):
    cards = world.cards()
    return [cards[card]["spec"]["card"]["nodeName"] for card in world.cards_of(name)]


def policies(world):
    """60 % fits only on the solid node, although the other one has 150 % free."""
    for index, (node_policy, card_policy) in enumerate(POLICIES):
        mode = ("Immediate", "WaitForFirstConsumer")[index % 2]
        name = f"{node_policy}-{card_policy}-{mode.lower()}"
        world.apply(egpu_class(name, mode, nodePolicy=node_policy, cardPolicy=card_policy), pod_with("session", name, core=60, memory="60Gi"))
        world.runs("session")
        world.equals(f"{name}: the node with one card for it", lambda: world.get("pod", "session")["spec"].get("nodeName"), "solid")
        made = world.claim_of("session")
        world.check(f"{name}: and the card is of that node", node_of(world, made) == ["solid"], world.ledger())
        world.delete("pod", "session")
        world.equals(f"{name}: released", lambda: len(world.ledger()), 4)


def too_large(world):
    """70 % is less than the fragmented node has in total, and more than any card has."""
    for mode in ("share", "wait"):
        world.apply(pod_with("large", mode, core=70, memory="10Gi"))
        world.equals(f"{mode}: it waits", lambda: world.reason(world.claim_of("large")), "NoFit")
        world.contains(f"{mode}: the message states the largest share that fits", lambda: world.message(world.claim_of("large")), "60%")
        world.check(f"{mode}: its pod has no node", not world.get("pod", "large")["spec"].get("nodeName"), world.get("pod", "large"))
        world.delete("pod", "large")
    world.apply(pod_with("here", "wait", spec={"nodeSelector": {"kubernetes.io/hostname": "fragmented"}}, core=60, memory="10Gi"))
    world.equals("a pod that has to be on the fragmented node waits", lambda: world.reason(world.claim_of("here")), "NoFit")
    world.check("and holds nothing", len(world.ledger()) == 4, world.ledger())
    world.delete("pod", "here")


def divided(world):
    """A class that divides totals may use the fragments."""
    world.apply(egpu_class("even", split="evenly"), pod_with("parts", "even", core=120, memory="120Gi"))
    world.runs("parts")
    world.equals("120 % in parts is on the fragmented node", lambda: sorted(core for _, holder, core, _ in world.ledger() if "filler" not in holder), [400] * 3)
    world.delete("pod", "parts")
    world.kubectl.ok("delete", "egpuc", "--all")
    world.empty("all is released")


if __name__ == "__main__":
    sys.exit(main(NODES, fillers, policies, too_large, divided))
