"""HAMi 3076: the device plugin falls back to the annotations of a pending pod when no node lock names a pod. Any user can write pod annotations,
so that a pod can name itself and a card that the scheduler never picked, and the card is used twice.
A pod of Elastic GPU gets the device of a claim of its own namespace and nothing else. Forged annotations, `spec.nodeName`, the claim of
another namespace and a ResourceClaim that names the device of another claim give no device and charge nothing.  hami_3076_test.py BIN_DIR"""
import sys

from field import claim, main, namespace, pod, pod_of, until

NODES = """nodes:
- {name: a, cpu: 64, memory: 256Gi, gpus: [{model: A100, count: 1, memory: 40Gi}]}
- {name: b, cpu: 64, memory: 256Gi, gpus: [{model: A100, count: 1, memory: 40Gi}]}
"""
PREPARED = "prepared.elasticgpu.io/main"


def prepare(world):
    for class_name in ("share", "wait"):
        world.apply(namespace(f"tenant-{class_name}"))


def prepared(world, name, space="default"):
    return world.get("pod", name, space).get("metadata", {}).get("annotations", {}).get(PREPARED, "")


def owner(world, class_name, space):
    """Creates a claim with a whole card, and its pod. Returns the claim's device."""
    world.apply(claim("own", class_name, space, gpu=1), pod_of("own", namespace=space))
    world.runs("own", namespace=space)
    return world.get("egpuc", "own", space)["status"]["elasticGPUName"]


def end(world, space, what):
    for each in ("default", space):
        world.delete("pod", "--all", namespace=each)
        world.delete("egpuc", "--all", namespace=each)
    world.empty(what)


def forged_annotations(class_name):
    """The annotations that the node and the controller write, and those of HAMi, as a user writes them."""
    space = f"tenant-{class_name}"

    def part(world):
        device = owner(world, class_name, space)
        before = world.ledger()
        card = before[0][0]
        world.apply(pod("forger", annotations={PREPARED: f"gpu:\n  device /dev/nvidia0\n  env ELASTICGPU_DEVICE={device}\n  env ELASTICGPU_CARDS={card}",
                                               "hami.io/bind-phase": "allocating", "hami.io/vgpu-node": "a",
                                               "hami.io/vgpu-devices-to-allocate": f"{card},NVIDIA,20000,100:;"}))
        world.runs("forger")
        world.check(f"{class_name}: annotations charge nothing", world.ledger() == before, world.ledger())
        world.check(f"{class_name}: the pod has no claim", "resourceClaims" not in world.get("pod", "forger")["spec"], world.get("pod", "forger"))
        end(world, space, f"{class_name}: the forger goes")
    return part


def foreign_claim(class_name):
    """The annotation names a claim of another namespace, by path and by name."""
    space = f"tenant-{class_name}"

    def part(world):
        owner(world, class_name, space)
        before = world.ledger()
        refused = world.refusal(pod("path", annotations={"egpuc.elasticgpu.io/gpu": f"{space}/own"}))
        world.check(f"{class_name}: a path to another namespace is refused by name of the annotation", "egpuc.elasticgpu.io/gpu" in refused, refused)
        world.apply(pod_of("own", "same-name"))
        world.apply(claim("marker", class_name, core=10, memory="1Gi"), pod_of("marker"))  # decided after `same-name`
        world.runs("marker")
        world.check(f"{class_name}: the name of a claim of another namespace gives nothing", world.pod_phase("same-name") == "Pending"
                    and not prepared(world, "same-name"), world.get("pod", "same-name"))
        world.check(f"{class_name}: only the marker is charged", len(world.ledger()) == len(before) + 1, world.ledger())
        world.apply(claim("own", class_name, core=10, memory="1Gi"))
        world.runs("same-name")
        mine = world.get("egpuc", "own")["status"]["elasticGPUName"]
        world.check(f"{class_name}: the pod gets the claim of its own namespace", mine in prepared(world, "same-name"), prepared(world, "same-name"))
        end(world, space, f"{class_name}: both claims called own go")
    return part


def changed_later(class_name):
    """A pod that runs with one claim is edited to name a different claim."""
    def part(world):
        world.apply(claim("mine", class_name, core=10, memory="1Gi"), claim("yours", class_name, core=20, memory="2Gi"), pod_of("mine"), pod_of("yours"))
        world.runs("mine", "yours")
        before = (world.ledger(), prepared(world, "mine"))
        changed = world.kubectl.run("annotate", "--overwrite", "pod", "mine", "egpuc.elasticgpu.io/gpu=yours")
        world.check(f"{class_name}: the annotation cannot be changed", changed.returncode != 0 and b"immutable" in changed.stderr, changed.stderr)
        added = world.kubectl.run("annotate", "pod", "mine", "egpuc.elasticgpu.io/more=yours")
        world.check(f"{class_name}: nor can one be added", added.returncode != 0, added.stderr)
        world.check(f"{class_name}: device and ledger are as before", (world.ledger(), prepared(world, "mine")) == before, world.ledger())
        end(world, "default", f"{class_name}: mine and yours go")
    return part


def node_by_hand(class_name):
    """spec.nodeName skips the scheduler. The claim's card is on the other node."""
    def part(world):
        world.apply(claim("placed", class_name, gpu=1), pod_of("placed"))
        world.runs("placed")
        other = {"a": "b", "b": "a"}[world.get("pod", "placed")["spec"]["nodeName"]]
        before = world.ledger()
        world.apply(pod_of("placed", "skips", nodeName=other))
        until(lambda: world.pod_phase("skips") == "Failed" or prepared(world, "skips") or events_of(world, "skips"), 60)
        world.check(f"{class_name}: a pod on the wrong node gets no device", world.pod_phase("skips") != "Running" and not prepared(world, "skips"),
                    world.get("pod", "skips"))
        world.check(f"{class_name}: the ledger is as before", world.ledger() == before, world.ledger())
        end(world, "default", f"{class_name}: the pod by hand goes")
    return part


def events_of(world, name):
    return [each for each in world.list("events") if each["involvedObject"].get("name") == name]


def forged_resource_claim(class_name):
    """A ResourceClaim created by a user, whose status names the device of another claim. No user has the right to write this status."""
    space = f"tenant-{class_name}"

    def part(world):
        device = owner(world, class_name, space)
        node = world.get("pod", "own", space)["spec"]["nodeName"]
        before = world.ledger()
        forged = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "forged", "namespace": "default"},
                  "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "elasticgpu.io"}}]}}}
        world.apply(forged)
        allocation = {"devices": {"results": [{"request": "gpu", "driver": "elasticgpu.io", "pool": node, "device": device}]}}
        patched = world.patch_status("apis/resource.k8s.io/v1/namespaces/default/resourceclaims/forged", {"allocation": allocation})
        world.check(f"{class_name}: the forged status is written, unless the claim is gone by then", patched in (200, 404), patched)
        thief = pod("thief", resourceClaims=[{"name": "gpu", "resourceClaimName": "forged"}], nodeName=node)
        thief["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        world.apply(thief)
        world.equals(f"{class_name}: the controller deletes the forged claim", lambda: world.get("resourceclaim", "forged"), {})
        until(lambda: prepared(world, "thief") or events_of(world, "thief"), 60)
        world.check(f"{class_name}: the forged claim gives no device", world.pod_phase("thief") != "Running" and not prepared(world, "thief"),
                    (patched, world.get("pod", "thief")))
        world.check(f"{class_name}: and charges nothing", world.ledger() == before, world.ledger())
        world.check(f"{class_name}: the owner runs on", world.pod_phase("own", space) == "Running")
        world.delete("pod", "thief")
        end(world, space, f"{class_name}: the thief goes")
    return part


if __name__ == "__main__":
    sys.exit(main(NODES, prepare, *(each(name) for name in ("share", "wait")
                                    for each in (forged_annotations, foreign_claim, changed_later, node_by_hand, forged_resource_claim))))
