"""Volcano 3948: three nodes of eight GPUs run jobs of 4, 2 and 1 GPUs, 4 and 2, and 4, 2 and 1. Four GPUs are idle, but on no node are there
four, so a job of four GPUs stays pending; the report asks to find out whether moving running pods would let it in, and to move them. A
second scenario deletes some of several Deployments of pods with one GPU each. Elastic GPU must state why the claim waits, name the fewest
moves that let it in, carry them out, and place the job.  volcano_3948_test.py BIN_DIR"""
import json
import os
import subprocess
import sys
import threading

from field import claim, egpu_class, main, pod_with, until

NODES = """
nodes:
- {name: node, count: 3, cpu: 128, memory: 512Gi, gpus: [{model: H100, count: 8, memory: 80Gi}]}
"""
LOADS = ((4, 2, 1), (4, 2), (4, 2, 1))


def owned(world, name, app, gpu):
    """A pod of a controller. A Lease replaces the ReplicaSet, which the embedded API server does not have."""
    world.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": app, "namespace": "default"}})
    owner = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": app, "uid": world.get("lease", app)["metadata"]["uid"], "controller": True}
    made = pod_with(name, "movable", gpu=gpu)
    made["metadata"].update(labels={"app": app}, ownerReferences=[owner])
    return made


class Controllers(threading.Thread):
    """Creates a pod for each application whose last pod is gone, as ReplicaSets do."""

    def __init__(self, world, applications):
        super().__init__(daemon=True)
        self.world, self.applications, self.created, self.ends = world, applications, [], threading.Event()

    def run(self):
        while not self.ends.wait(0.1):
            there = {each["metadata"]["labels"]["app"] for each in self.world.list("pods", "-l", "app") if "deletionTimestamp" not in each["metadata"]}
            for app, gpu in self.applications.items():
                if app not in there:
                    self.created.append(app)
                    self.world.apply(owned(self.world, f"{app}-again{len(self.created)}", app, gpu))


def applications():
    return {f"job{node}-{gpu}": gpu for node, load in enumerate(LOADS) for gpu in load}


def fragmented(world):
    """Fills node after node. A filler of one or two cards ends each node and is deleted afterwards."""
    world.apply(egpu_class("movable", nodePolicy="binpack", cardPolicy="binpack", movable="true"))
    fillers = []
    for node, load in enumerate(LOADS):
        for gpu in load:
            world.apply(owned(world, f"job{node}-{gpu}-0", f"job{node}-{gpu}", gpu))
            until(lambda node=node, gpu=gpu: world.pod_phase(f"job{node}-{gpu}-0") == "Running")
        fillers.append(f"filler{node}")
        world.apply(claim(fillers[-1], "movable", gpu=8 - sum(load)))
        until(lambda: world.phase(fillers[-1]) == "Bound")
    world.delete("egpuc", *fillers)
    world.equals("7, 6 and 7 cards of the nodes are in use", lambda: sorted(used(world).values()), [6, 7, 7])


def used(world):
    count, cards = {}, world.cards()
    for card, _, _, _ in world.ledger():
        node = cards[card]["spec"]["card"]["nodeName"]
        count[node] = count.get(node, 0) + 1
    return count


def defrag(world, *arguments):
    command = [os.path.join(world.server.bin, "elastic-gpu-controller"), "defrag", *arguments, "--server", world.server.ops]
    return subprocess.run(command, env=dict(os.environ, KUBECONFIG=world.server.kubeconfig), capture_output=True, timeout=60, check=False)


def moves_applied(world, moves):
    """Returns the cards in use by node after the moves, and whether each move's target had enough free cards."""
    count, fits = used(world), True
    for move in moves:
        size, start, end = len(move["from"]["cards"]), move["from"]["node"], move["to"]["node"]
        fits = fits and count.get(end, 0) + size <= 8
        count[start] = count.get(start, 0) - size
        count[end] = count.get(end, 0) + size
    return count, fits


def job_of_four(world):
    world.apply(pod_with("job", "movable", gpu=4))
    made = until(lambda: world.claim_of("job"))
    world.equals("the job of four waits", lambda: world.reason(made), "NoFit")
    planned = defrag(world, "--plan", made, "-o", "json")
    moves = json.loads(planned.stdout)["moves"]
    world.check("two moves would let it in, and none of a job of four", len(moves) == 2 and all(len(each["from"]["cards"]) < 4 for each in moves), moves)
    count, fits = moves_applied(world, moves)
    world.check("after them a node has four free cards", fits and min(count.values()) <= 4, (count, moves))
    controllers = Controllers(world, applications())
    controllers.start()
    done = defrag(world, "--execute", made)
    world.check("the moves are carried out", done.returncode == 0, done)
    world.runs("job")
    world.equals("two pods were evicted", lambda: len(controllers.created), 2)
    world.equals("every pod runs again", lambda: sum(each["status"].get("phase") == "Running" for each in world.list("pods")), 9)
    world.equals("all cards are in use", lambda: used(world), {"node-0": 8, "node-1": 8, "node-2": 8})
    controllers.ends.set()
    controllers.join()
    world.kubectl.ok("delete", "pod", "--all")
    world.empty("released")


def deleted_deployments(world):
    """Three Deployments of eight pods with one GPU each are placed in turn, and one of them is deleted."""
    for index in range(8):
        for app in ("red", "green", "blue"):
            world.apply(owned(world, f"{app}-{index}", app, 1))
    world.equals("24 pods fill the cluster", lambda: sum(each["status"].get("phase") == "Running" for each in world.list("pods")), 24)
    world.kubectl.ok("delete", "pod", "-l", "app=green")
    world.equals("eight cards are free", lambda: sum(used(world).values()), 16)
    plan = json.loads(world.server.http("/defrag?class=movable&gpu=8"))
    count, fits = moves_applied(world, plan["moves"])
    world.check("the plan empties a node", fits and sorted(count.values())[0] == 0, (count, plan))
    fewest = min(used(world).values())
    world.check("by as few moves as the emptiest node has pods", len(plan["moves"]) == fewest, (fewest, plan))
    world.kubectl.ok("delete", "pod", "--all")
    world.empty("all is released")


if __name__ == "__main__":
    sys.exit(main(NODES, fragmented, job_of_four, deleted_deployments))
