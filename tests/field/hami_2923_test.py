"""HAMi 2923: the scheduler keeps the allocation of all eight cards of a node for a pod that is deleted. It missed the delete event, and every
replacement pod waits with "8/8 CardInsufficientMemory" although all cards are idle.
Elastic GPU takes back all eight cards after every form of deletion: graceful, forced, replaced under the same name, of the claim before its
pod, and beside a crash of the controller. A replacement pod runs, and the ledgers end empty.  hami_2923_test.py BIN_DIR"""
import sys

from field import claim, main, pod_of, pod_with

NODES = "nodes:\n- {name: n, cpu: 128, memory: 512Gi, gpus: [{model: H100, count: 8, memory: 80Gi}]}\n"
ALL_CARDS = [1000] * 8


def charged(world):
    """Returns the core of each entry, in milli-cards."""
    return [core for _, _, core, _ in world.ledger()]


def holds_all(world, name):
    world.runs(name)
    world.equals(f"{name} has the eight cards", lambda: charged(world), ALL_CARDS)


def deleted(class_name):
    def part(world):
        for how, flags in (("graceful", ()), ("forced", ("--force", "--grace-period=0")), ("not waited for", ("--wait=false",))):
            name = f"{class_name}-{how.split()[0]}"
            world.apply(pod_with(name, class_name, gpu=8))
            holds_all(world, name)
            world.apply(pod_with(f"{name}-next", class_name, gpu=8))
            made = lambda: world.reason(world.claim_of(f"{name}-next") or "none")
            world.equals(f"{name}: the replacement waits while the cards are held", made, "NoFit")
            world.delete("pod", name, flags=flags)
            world.runs(f"{name}-next")
            world.equals(f"{name}: deletion ({how}) gives the cards to the replacement", lambda: {holder for _, holder, _, _ in world.ledger()},
                         {f"default/{world.claim_of(f'{name}-next')}"})
            world.delete("pod", f"{name}-next")
            world.empty(f"{name}: nothing is left")
    return part


def same_name(class_name):
    """The replacement has the name of the deleted pod, like a StatefulSet's pod."""
    def part(world):
        world.apply(pod_with("predictor-0", class_name, gpu=8))
        holds_all(world, "predictor-0")
        before = world.claim_of("predictor-0")
        world.delete("pod", "predictor-0")
        world.apply(pod_with("predictor-0", class_name, gpu=8))
        holds_all(world, "predictor-0")
        world.check(f"{class_name}: the new pod has a claim of its own", world.claim_of("predictor-0") not in ("", before), before)
        world.delete("pod", "predictor-0")
        world.empty(f"{class_name}: nothing is left of the name")
    return part


def claim_first(class_name):
    """The claim is deleted while its pod runs: the cards stay with the pod until it ends."""
    def part(world):
        world.apply(claim("eight", class_name, gpu=8), pod_of("eight"))
        holds_all(world, "eight")
        world.delete("egpuc", "eight", flags=("--wait=false",))
        world.equals(f"{class_name}: a claim that is deleted under its pod waits", lambda: world.condition("eight").get("reason"), "InUse")
        world.check(f"{class_name}: the pod keeps the eight cards", charged(world) == ALL_CARDS, world.ledger())
        world.delete("pod", "eight")
        world.empty(f"{class_name}: the pod ends, and gives back the cards")
        world.equals(f"{class_name}: the claim goes", lambda: world.get("egpuc", "eight"), {})
    return part


def beside_a_crash(class_name):
    """The controller is killed right after the deletion, so that no delete event reaches it."""
    def part(world):
        world.apply(pod_with("old", class_name, gpu=8))
        holds_all(world, "old")
        world.delete("pod", "old", flags=("--wait=false",))
        world.restart()
        world.empty(f"{class_name}: the cards of a pod that went with the crash are free")
        world.apply(pod_with("new", class_name, gpu=8))
        holds_all(world, "new")
        world.delete("pod", "new")
        world.empty(f"{class_name}: nothing is left after the crash")
    return part


if __name__ == "__main__":
    sys.exit(main(NODES, *(each(class_name) for class_name in ("share", "wait") for each in (deleted, same_name, claim_first, beside_a_crash)),
                  retain_data=True))
