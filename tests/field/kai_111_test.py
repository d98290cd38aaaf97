"""KAI-Scheduler 111: pods with a part of a GPU do not scale a cluster up. No pod asks for a card before the part is scheduled, so an
autoscaler never sees the demand. Elastic GPU states the demand where nothing fits: the claim waits as NoFit with the amount that is missing,
`simulate` answers whether a new node would take the pending claims, and `elasticgpu_claims_that_fit` is 0 for the class. As soon as the node
has joined, the claims are bound and the pods run. The node may be the first one with cards.  kai_111_test.py BIN_DIR"""
import json
import sys
import urllib.parse

from field import claim, main, pod_of, pod_with

CPU_ONLY = "nodes:\n- {name: plain, cpu: 16, memory: 64Gi}\n"
WITH_GPUS = CPU_ONLY + "- {name: scaled, cpu: 64, memory: 256Gi, gpus: [{model: T4, count: 2, memory: 16Gi}]}\n"


def set_nodes(world, text):
    """Nodes are added and removed by the file of the simulated cluster."""
    world.server.stop()
    with open(world.server.nodes, "w", encoding="utf-8") as file:
        file.write(text)
    world.server.start()
    world.kubectl.env["KUBECONFIG"] = world.server.kubeconfig


def simulate(world, **question):
    return json.loads(world.server.http("/simulate?" + urllib.parse.urlencode(question)))


def fitting(world, class_name):
    """Returns the metric of the class."""
    line = f'elasticgpu_claims_that_fit{{class="{class_name}"}} '
    return next((row[len(line):] for row in world.server.http("/metrics").splitlines() if row.startswith(line)), "")


def from_zero(class_name):
    def part(world):
        halves = [f"half-{i}" for i in range(4)]
        world.apply(*(pod_with(name, class_name, core=50, memory="8Gi") for name in halves))
        for name in halves:
            world.equals(f"{class_name}: {name} waits without a card in the cluster",
                         lambda name=name: world.reason(world.claim_of(name) or "none"), "NoFit")
        world.equals(f"{class_name}: nothing of the class fits", lambda: fitting(world, class_name), "0")
        named = world.claim_of(halves[0])
        answer = simulate(world, claim=named, add="new,model=T4,cards=2,memory=16Gi")
        placed = answer["steps"][0]
        world.check(f"{class_name}: two new cards would take all four halves", str(placed).count("'node': 'new'") >= 4, answer)
        answer = simulate(world, claim=named, add="new,model=T4,cards=1,memory=4Gi")
        world.check(f"{class_name}: a node with too small a card would not help", (answer["decision"]["fits"], answer["steps"][0]["bound"])
                    == (False, []), answer)
        set_nodes(world, WITH_GPUS)
        world.runs(*halves)
        world.check(f"{class_name}: all run on the new node", {world.get("pod", name)["spec"]["nodeName"] for name in halves} == {"scaled"})
        world.check(f"{class_name}: each card has two halves", [core for _, _, core, _ in world.ledger()] == [500] * 4, world.ledger())
        world.delete("pod", "--all")
        world.empty(f"{class_name}: all halves are given back")
        set_nodes(world, CPU_ONLY)
        world.equals(f"{class_name}: the cards leave with their node", world.cards, {})
    return part


def from_one(class_name):
    """The cluster has cards, all of which are taken."""
    def part(world):
        set_nodes(world, WITH_GPUS)
        world.apply(claim("first", class_name, gpu=2), pod_of("first"))
        world.runs("first")
        world.apply(claim("part", class_name, core=30, memory="4Gi"), pod_of("part"))
        world.equals(f"{class_name}: a part waits while all cards are taken", lambda: world.reason("part"), "NoFit")
        answer = simulate(world, claim="part", add="new,like=scaled")
        world.check(f"{class_name}: one more node of the kind would take it", "'node': 'new'" in str(answer), answer)
        set_nodes(world, WITH_GPUS + "- {name: second, cpu: 64, memory: 256Gi, gpus: [{model: T4, count: 2, memory: 16Gi}]}\n")
        world.runs("part", "first")
        world.check(f"{class_name}: the part is on the second node", world.get("pod", "part")["spec"]["nodeName"] == "second")
        world.delete("pod", "--all")
        world.delete("egpuc", "--all")
        world.empty(f"{class_name}: both are given back")
        set_nodes(world, CPU_ONLY)
    return part


if __name__ == "__main__":
    sys.exit(main(CPU_ONLY, *(each(name) for name in ("share", "wait") for each in (from_zero, from_one)), retain_data=True))
