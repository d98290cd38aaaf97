"""NVIDIA k8s-dra-driver-gpu 459, 659 and 850: a GPU is shared by one ResourceClaim that several pods name, so three replicas of a
Deployment cannot be spread over two nodes with one GPU each that is split in two (459), pods of two namespaces cannot share a GPU (659),
and scaling from two to four replicas puts all four on one GPU instead of two on each (850). Elastic GPU must give each replica a
claim of its own, fill both GPUs with exactly two, leave a fifth replica pending, and let namespaces share a card.
k8s_dra_driver_gpu_459_test.py BIN_DIR"""
import sys

from field import claim, egpu_class, main, namespace, pod, pod_of, pod_with, template

NODES = """
nodes:
- {name: n, count: 2, cpu: 64, memory: 256Gi, gpus: [{model: L4, count: 1, memory: 24Gi, sms: 58, tflops: 121}]}
"""
SLICE = {"core": 50, "memory": "12Gi"}
CLASSES = {"slices": "Immediate", "slices-late": "WaitForFirstConsumer"}


def replica(name, how, class_name, space="default"):
    """A pod of a Deployment, whose claim comes from amounts, an ElasticGPUClaimTemplate, or a stock ResourceClaimTemplate."""
    if how == "amounts":
        return pod_with(name, class_name, space, **SLICE)
    if how == "template":
        return pod(name, space, {"egpuct.elasticgpu.io/gpu": f"slice-{class_name}"})
    made = pod(name, space, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": f"stock-{class_name}"}])
    made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return made


def stock_template(class_name):
    parameters = {"egpuClassName": class_name}
    capacity = {"requests": {"gpu_core": "50", "gpu_memory": "12Gi"}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": f"stock-{class_name}"},
            "spec": {"spec": {"devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "elasticgpu.io", "capacity": capacity}}],
                "config": [{"opaque": {"driver": "elasticgpu.io", "parameters": parameters}}]}}}}


def per_card(world):
    """Returns the number of claims of each card."""
    count = {name: 0 for name in world.cards()}
    for card, _, _, _ in world.ledger():
        count[card] += 1
    return sorted(count.values())


def scaled(world, how, class_name):
    what = f"{class_name}, {how}"
    world.apply(*(replica(f"r{index}", how, class_name) for index in range(3)))
    world.runs("r0", "r1", "r2")
    world.equals(f"{what}: three replicas are two on one GPU and one on the other", lambda: per_card(world), [1, 2])
    world.apply(replica("r3", how, class_name))
    world.runs("r3")
    world.equals(f"{what}: four replicas are two on each GPU", lambda: per_card(world), [2, 2])
    nodes = [world.get("pod", f"r{index}")["spec"]["nodeName"] for index in range(4)]
    world.check(f"{what}: two pods on each node", sorted(nodes) == ["n-0", "n-0", "n-1", "n-1"], nodes)
    world.apply(replica("r4", how, class_name))
    world.equals(f"{what}: the fifth replica waits", lambda: world.reason(world.claim_of("r4")), "NoFit")
    world.check(f"{what}: each replica has a claim of its own", len({world.claim_of(f"r{index}") for index in range(5)}) == 5, world.claims())
    world.delete("pod", "r0")
    world.runs("r4")
    world.delete("pod", *(f"r{index}" for index in range(1, 5)))
    world.empty(f"{what}: released")


def replicas(world):
    world.apply(*(egpu_class(name, mode) for name, mode in CLASSES.items()),
                *(template(f"slice-{name}", name, **SLICE) for name in CLASSES), *(stock_template(name) for name in CLASSES))
    for class_name, how in (("slices", "amounts"), ("slices-late", "template"), ("slices-late", "stock template")):
        scaled(world, how, class_name)


def namespaces(world):
    """One pod in each of two namespaces, both on one card (659)."""
    world.apply(namespace("team-a"), namespace("team-b"))
    for class_name in CLASSES:
        world.apply(pod_with("p", class_name, "team-a", **SLICE), pod_with("p", class_name, "team-b", **SLICE))
        for space in ("team-a", "team-b"):
            world.runs("p", namespace=space)
        world.equals(f"{class_name}: two namespaces share one card", lambda: (len({card for card, _, _, _ in world.ledger()}), per_card(world)), (1, [0, 2]))
        owners = sorted(holder.split("/")[0] for _, holder, _, _ in world.ledger())
        world.check(f"{class_name}: each has its own claim", owners == ["team-a", "team-b"], owners)
        for space in ("team-a", "team-b"):
            world.delete("pod", "p", namespace=space)
        world.empty(f"{class_name}: both released")


def one_claim(world):
    """Pods that name one claim share its slice on its node, charged once."""
    for class_name in CLASSES:
        world.apply(claim("shared", class_name, **SLICE), *(pod_of("shared", f"s{index}") for index in range(3)))
        world.runs("s0", "s1", "s2")
        world.equals(f"{class_name}: one entry for three pods", lambda: [core for _, _, core, _ in world.ledger()], [500])
        nodes = {world.get("pod", f"s{index}")["spec"]["nodeName"] for index in range(3)}
        world.check(f"{class_name}: all on the node of the card", len(nodes) == 1, nodes)
        world.delete("pod", "s0", "s1", "s2")
        world.delete("egpuc", "shared")
        world.empty(f"{class_name}: the shared claim is released")


if __name__ == "__main__":
    sys.exit(main(NODES, replicas, namespaces, one_claim))
