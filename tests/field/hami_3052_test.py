"""HAMi 3052: a namespace's quota of GPU memory is passed over as soon as the pod has an init container that asks for no GPU. Two containers of
16000 MB each are accepted under a quota of 24000 MB.
Elastic GPU lets such a pod wait, with or without init containers and sidecars. Its claims name the quota that holds them up, the amount that is
missing and the claims that hold the rest; cards with free capacity are not blamed.  hami_3052_test.py BIN_DIR"""
import sys

from field import claim, gang, main, namespace, pod, pod_of, pod_with, quota, template

NODES = "nodes:\n- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: X40, count: 1, memory: 40Gi, sms: 80, tflops: 100}]}\n"
HARD = {"gpu-memory": "24Gi"}
INIT = {
    "without": [],
    "init": [{"name": "fetch", "image": "busybox"}],
    "init-before": [{"name": "one", "image": "busybox"}, {"name": "two", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}],
    "sidecar": [{"name": "log", "image": "busybox", "restartPolicy": "Always"}],
}
BLAMES_CARDS = "have no free capacity"


def messages(world, space):
    """Returns reasons and messages of all claims of the namespace."""
    return " ".join(f"{reason} {message}" for _, reason, message in world.claims(space).values())


def blames_no_cards(world, what, text):
    world.check(f"{what}: nothing is said about cards without capacity", BLAMES_CARDS not in text, text)


def two_containers(class_name, kind):
    """A pod of two containers with a claim each."""
    space = f"{class_name}-{kind}"

    def part(world):
        world.apply(namespace(space), quota("mem", HARD, space), template("part", class_name, space, core=40, memory="16Gi"))
        world.apply(pod("two", space, {"egpuct.elasticgpu.io/a": "part", "egpuct.elasticgpu.io/b": "part"}, ("a", "b"), initContainers=INIT[kind]))
        world.contains(f"{space}: the claims say why they wait", lambda: messages(world, space), "QuotaExceeded", "quota mem allows gpu-memory 24Gi",
                       "8Gi too little for another 16Gi")
        blames_no_cards(world, space, messages(world, space))
        found = world.get("pod", "two", space)
        gates = [each["name"] for each in found["spec"].get("schedulingGates", [])]
        world.check(f"{space}: the pod of 32Gi does not run under 24Gi", found["status"]["phase"] == "Pending" and gates == ["elasticgpu.io/claims"], found)
        world.check(f"{space}: at most one claim is charged", len(world.ledger()) <= 1 and not world.overfull(), world.ledger())
        world.delete("pod", "two", namespace=space)
        world.empty(f"{space}: all is given back")
    return part


def gang_of_two(class_name):
    """Each member alone is within the quota."""
    space = f"{class_name}-init"

    def part(world):
        for i in (1, 2):
            world.apply(claim(f"gang{i}", class_name, space, gang("g", 2), core=10, memory="16Gi"))
            if class_name == "wait":
                world.apply(pod_of(f"gang{i}", namespace=space))
        world.contains(f"{space}: a gang names the quota and the missing amount", lambda: messages(world, space),
                       "quota mem allows gpu-memory 24Gi, 0 is used and 16Gi would be used by claims that are decided with it: 8Gi too little for another 16Gi")
        blames_no_cards(world, f"{space}: gang", messages(world, space))
        world.delete("pod", "--all", namespace=space)
        world.delete("egpuc", "--all", namespace=space)
        world.empty(f"{space}: the gang holds nothing")
    return part


def rest_of_the_quota(class_name):
    """One claim has a part of the quota, and the rest is too little for a second one."""
    space = f"{class_name}-without"

    def part(world):
        world.apply(*(claim(name, class_name, space, core=10, memory="16Gi") for name in ("one", "more")), pod_of("one", namespace=space))
        if class_name == "wait":
            world.runs("one", namespace=space)
        world.apply(pod_of("more", namespace=space))
        world.contains(f"{space}: the claim names the quota", lambda: world.message("more", space),
                       "quota mem allows gpu-memory 24Gi, 16Gi is used: 8Gi too little for another 16Gi")
        world.contains(f"{space}: it names the holder, and the release that is enough", lambda: world.message("more", space),
                       f"held by {space}/one 16Gi: without {space}/one it would be within its quotas")
        blames_no_cards(world, f"{space}: one claim", world.message("more", space))
        world.runs("one", namespace=space)
        world.delete("pod", "--all", namespace=space)
        world.delete("egpuc", "--all", namespace=space)
        world.empty(f"{space}: both are given back")
    return part


def within_the_quota(class_name):
    """One container requests a GPU; the init container and the other container do not."""
    space = f"{class_name}-init"

    def part(world):
        world.apply(pod("one", space, {"egpuct.elasticgpu.io/a": "part"}, ("a", "web"), initContainers=INIT["init"]))
        world.runs("one", namespace=space)
        world.equals(f"{space}: the claim is counted once", lambda: world.used("mem", space).get("gpu-memory"), "16Gi")
        annotations = world.get("pod", "one", space)["metadata"]["annotations"]
        world.check(f"{space}: container a has the card", "prepared.elasticgpu.io/a" in annotations, annotations)
        world.check(f"{space}: the init container has none", "prepared.elasticgpu.io/fetch" not in annotations, annotations)
        world.check(f"{space}: the other container has none", "prepared.elasticgpu.io/web" not in annotations, annotations)
        world.delete("pod", "one", namespace=space)
        world.equals(f"{space}: nothing is used after the deletion", lambda: world.used("mem", space).get("gpu-memory"), "0")
    return part


def amounts_on_the_pod(class_name):
    """Init container and container have the same claim."""
    space = f"{class_name}-init"

    def part(world):
        world.apply(pod_with("amounts", class_name, space, spec={"initContainers": INIT["init"]}, memory="16Gi"))
        world.runs("amounts", namespace=space)
        world.equals(f"{space}: amounts are counted once", lambda: world.used("mem", space).get("gpu-memory"), "16Gi")
        world.delete("pod", "amounts", namespace=space)
        world.empty(f"{space}: amounts are given back")
    return part


def parts():
    for class_name in ("share", "wait"):
        yield from (two_containers(class_name, kind) for kind in INIT)
        yield from (each(class_name) for each in (gang_of_two, rest_of_the_quota, within_the_quota, amounts_on_the_pod))


if __name__ == "__main__":
    sys.exit(main(NODES, *parts()))
