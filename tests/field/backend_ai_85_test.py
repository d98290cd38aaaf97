"""Backend.AI 85: a request that no single GPU can hold is divided unevenly. Of two GPUs with 0.3 free each, a request for 0.4 gets 0.3 and
0.1, although applications assume that all their GPUs are alike; it should be 0.2 and 0.2. The report lists further cases: one GPU alone
where it suffices, and then the least free one. Elastic GPU must divide a claim of a class with `split: evenly` as the report's table
has it, and leave a claim pending that exceeds the sum.  backend_ai_85_test.py BIN_DIR"""
import sys

from field import GI, claim, egpu_class, main, pod_with

# Percent of each card that is free, request, expected parts. The cases are the report's, in percent of a card.
CASES = [
    ((30, 30), 30, (0, 30)), ((30, 30), 40, (20, 20)), ((30, 30), 50, (25, 25)), ((30, 30), 60, (30, 30)), ((30, 30), 70, None),
    ((30, 20, 10), 10, (0, 0, 10)), ((30, 20, 10), 15, (0, 15, 0)), ((30, 20, 10), 20, (0, 20, 0)), ((30, 20, 10), 30, (30, 0, 0)),
    ((30, 20, 10), 40, (20, 20, 0)), ((30, 20, 10), 50, (30, 20, 0)), ((30, 20, 10), 60, (30, 20, 10)), ((30, 20, 10), 70, None),
]
NODES = "nodes:\n" + "".join(
    f"- {{name: n{index}, cpu: 64, memory: 256Gi, gpus: [{{model: M{index}, count: {len(free)}, memory: 100Gi}}]}}\n" for index, (free, _, _) in enumerate(CASES))


def models(index):
    return {"models": [f"M{index}"]}


def fillers(world):
    """Claims that leave the wanted parts free. Each takes more than half of a card, so that each is on a card of its own."""
    made = [claim(f"filler-{index}-{place}", spec=models(index), core=100 - part, memory=f"{100 - part}Gi")
            for index, (free, _, _) in enumerate(CASES) for place, part in enumerate(free)]
    world.apply(*made)
    world.equals("all fillers are bound", lambda: {phase for phase, _, _ in world.claims().values()}, {"Bound"})


def parts(ledger, index, holder):
    """Returns the percentages that the claim has of each card of its node, in the order of CASES, and whether the memory is in proportion."""
    free = CASES[index][0]
    place_of = {card: int(name.rsplit("-", 1)[1]) for card, name, _, _ in ledger if name.startswith(f"default/filler-{index}-")}
    taken, even = [0] * len(free), True
    for card, name, core, memory in ledger:
        if name == f"default/{holder}" and card in place_of:
            taken[place_of[card]] = core // 10
            even = even and memory == core // 10 * GI
    return tuple(taken), even


def verdicts(world, what, holders):
    """Compares the claims of all cases with the table."""
    states = [("Pending", "NoFit") if expected is None else ("Bound", "") for _, _, expected in CASES]
    world.equals(f"{what}: each case is bound or insufficient", lambda: [world.claims().get(name, ("", ""))[:2] for name in holders], states)
    ledger = world.ledger()
    for index, (free, wanted, expected) in enumerate(CASES):
        taken, even = parts(ledger, index, holders[index])
        # Cards with equal free parts are interchangeable.
        alike = [[sorted(part for part, left in zip(some, free) if left == size) for size in sorted(set(free))]
                 for some in (taken, expected or (0,) * len(free))]
        world.check(f"{what}: {wanted} of {list(free)} is {list(expected or ())}", alike[0] == alike[1], taken)
        world.check(f"{what}: {wanted} of {list(free)}: memory in proportion", even, ledger)


def table(world):
    world.apply(egpu_class("even", split="evenly"), egpu_class("even-late", "WaitForFirstConsumer", split="evenly"))
    fillers(world)
    amounts = [{"core": wanted, "memory": f"{wanted}Gi"} for _, wanted, _ in CASES]
    cases = range(len(CASES))
    world.apply(*(claim(f"case-{index}", "even", spec=models(index), **amounts[index]) for index in cases))
    verdicts(world, "Immediate", [f"case-{index}" for index in cases])
    world.delete("egpuc", *(f"case-{index}" for index in cases))
    world.apply(*(pod_with(f"pod-{index}", "even-late", model=f"M{index}", **amounts[index]) for index in cases))
    world.equals("a claim is made for each pod", lambda: all(world.claim_of(f"pod-{index}") for index in cases), True)
    verdicts(world, "first consumer", [world.claim_of(f"pod-{index}") for index in cases])
    world.equals("the pods of bound claims run", lambda: sum(each["status"].get("phase") == "Running" for each in world.list("pods")),
                 sum(expected is not None for _, _, expected in CASES))


def the_end(world):
    world.kubectl.ok("delete", "pod,egpuc", "--all")
    world.empty("released")


if __name__ == "__main__":
    sys.exit(main(NODES, table, the_end))
