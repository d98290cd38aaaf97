"""NVIDIA k8s-device-plugin 774: the choice of seven GPUs of a node by their links (GetPreferredAllocation) takes nearly 30 seconds, so that
pods start late. Elastic GPU must choose well-linked cards of nodes of any size: sets of four on a node of 16 cards are whole groups of
the wiring whatever their indexes are, seven of eight cards are found, and so are seven of 64.
k8s_device_plugin_774_test.py BIN_DIR"""
import itertools
import sys

from field import claim, egpu_class, main, pod_of, pod_with

# The links of a DGX-1 with V100 cards: (card, card): number of links.
DGX1 = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1,
        (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2}


def groups(count, size):
    """Groups of cards that are fully linked. Their indexes are interleaved: with four groups, 0, 4, 8 and 12 are one."""
    return {pair: 4 for group in range(count // size) for pair in itertools.combinations(range(group, count, count // size), 2)}


WIRING = {"dgx": (8, DGX1), "sixteen": (16, groups(16, 4)), "most": (64, groups(64, 8))}


def node(name):
    count, links = WIRING[name]
    wires = ", ".join(f"[{a}, {b}, {n}]" for (a, b), n in links.items())
    uuids = ", ".join(f"GPU-{name}-{index}" for index in range(count))
    return (f"- {{name: {name}, cpu: 256, memory: 2Ti, gpus: [{{model: {name}, count: {count}, memory: 32Gi, numa: 0, uuids: [{uuids}], "
            f"nvlinks: [{wires}]}}]}}\n")


NODES = "nodes:\n" + "".join(node(name) for name in WIRING)


def chosen(world, holder):
    """Returns the indexes of the cards of a claim."""
    return sorted(int(card.rsplit("-", 1)[1]) for card in world.cards_of(holder))


def links_of(name, cards):
    return sum(WIRING[name][1].get(pair, 0) for pair in itertools.combinations(sorted(cards), 2))


def taken(world, name, what, gpu, mode):
    """Binds a claim for that many cards of a node and returns their indexes."""
    if mode == "linked":
        world.apply(claim(what, mode, spec={"models": [name]}, gpu=gpu), pod_of(what))
        holder = what
    else:
        world.apply(pod_with(what, mode, model=name, gpu=gpu))
    world.runs(what)
    if mode != "linked":
        holder = world.claim_of(what)
    cards = chosen(world, holder)
    world.check(f"{what}: {gpu} cards", len(cards) == gpu, cards)
    return cards


def released(world):
    world.kubectl.ok("delete", "pod,egpuc", "--all")
    world.empty("released")


def eight_cards(world):
    """The report: seven of eight. Besides, pairs and sets of four of the cube mesh."""
    for mode in ("linked",):
        seven = taken(world, "dgx", f"seven-{mode}", 7, mode)
        one = taken(world, "dgx", f"one-{mode}", 1, mode)
        world.check(f"{mode}: the last card is left for the next claim", sorted(seven + one) == list(range(8)), (seven, one))
        released(world)
        four = taken(world, "dgx", f"four-{mode}", 4, mode)
        world.check(f"{mode}: four of one half of the cube mesh", four in ([0, 1, 2, 3], [4, 5, 6, 7]), four)
        pair = taken(world, "dgx", f"pair-{mode}", 2, mode)
        world.check(f"{mode}: a pair with two links", links_of("dgx", pair) == 2, pair)
        last = taken(world, "dgx", f"last-{mode}", 2, mode)
        world.check(f"{mode}: whose rest is a pair with two links, too", links_of("dgx", last) == 2, last)
        released(world)


def sixteen_cards(world):
    for mode in ("linked", "linked-late"):
        sets = [taken(world, "sixteen", f"{mode}-{index}", 4, mode) for index in range(4)]
        world.check(f"{mode}: each set of four is one group", sorted(sets) == [list(range(group, 16, 4)) for group in range(4)], sets)
        released(world)
        seven = taken(world, "sixteen", f"{mode}-seven", 7, mode)
        best = 4 * (6 + 3)  # a whole group and three cards of another one
        world.check(f"{mode}: seven are a whole group and three of another one", links_of("sixteen", seven) == best, seven)
        released(world)


def many_cards(world):
    """64 cards, the largest number whose links are compared: seven are of one group, and eight are another whole group."""
    for mode in ("linked-late",):
        seven = taken(world, "most", f"{mode}-seven", 7, mode)
        world.check(f"{mode}: seven of one group", len({card % 8 for card in seven}) == 1, seven)
        eight = taken(world, "most", f"{mode}-eight", 8, mode)
        world.check(f"{mode}: eight are a whole group", len({card % 8 for card in eight}) == 1, eight)
        released(world)


def classes(world):
    world.apply(egpu_class("linked", cardPolicy="topology"), egpu_class("linked-late", "WaitForFirstConsumer", cardPolicy="topology"))


if __name__ == "__main__":
    sys.exit(main(NODES, classes, eight_cards, sixteen_cards, many_cards))
