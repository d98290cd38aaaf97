"""Simulated GPU nodes: Node objects that kwok keeps ready, and the cards that a node's agent would publish."""

import concurrent.futures

from client import GPUS, NODES, Refused
from parts import SIMULATED

GIB = 1 << 30
NODE_LABEL = "elasticgpu.io/node"  # on cards and devices


def node(name, labels=None, cpu="64", memory="256Gi", pods="110"):
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {SIMULATED: "true", "kubernetes.io/hostname": name, **(labels or {})}},
            "status": {"capacity": amounts, "allocatable": amounts}}


def card(node_name, index, model="A100-SXM4-80GB", memory=80 * GIB):
    uuid = f"GPU-{node_name}-{index}"
    name = uuid.lower()
    return {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPU",
            "metadata": {"name": name, "finalizers": ["elasticgpu.io/ledger"],
                         "labels": {"elasticgpu.io/role": "card", NODE_LABEL: node_name, SIMULATED: "true"}},
            "spec": {"card": {"uuid": uuid, "nodeName": node_name, "index": index, "model": model, "smCount": 108,
                              "tflops": 312, "core": 1000, "memory": memory},
                     "physicalGPU": {"gpuNames": [name]},
                     "capacity": {"elasticgpu.io/gpu-core": "100", "elasticgpu.io/gpu-memory": str(memory)}}}


def create_unless_there(client, path, body):
    try:
        client.create(path, body)
    except Refused as refused:
        if refused.status != 409:
            raise


def publish(client, names, cards_each, **card_options):
    """Creates the nodes and their cards, several at once. Nodes first: a card without its node counts as lost
    hardware."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: create_unless_there(client, NODES, node(name)), names))
        every = [card(name, index, **card_options) for name in names for index in range(cards_each)]
        list(pool.map(lambda each: create_unless_there(client, GPUS, each), every))


def all_ready(client, names):
    """Returns true if kwok has made the nodes ready and the controller manager has removed their taints."""
    wanted = set(names)
    for each in client.items(NODES):
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in each.get("status", {}).get("conditions", []))
        if ready and not each["spec"].get("taints"):
            wanted.discard(each["metadata"]["name"])
    return not wanted
