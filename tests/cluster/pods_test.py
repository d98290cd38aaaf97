#!/usr/bin/env python3
"""Proves that the stock scheduler places pods with claims on their claims' nodes on a real cluster, and that nothing is swapped, lost or allocated twice.
The samples, then 500 pods with 1 to 3 claims each on 50 nodes, then the deletion of all.

pods_test.py BIN_DIR
"""

import concurrent.futures
import random
import sys
import tempfile
import time

import installation
import nodes
import verify
from apiserver import Cluster, guarded
from client import CLASSES, GPUS, Report, resource_claims, claims, pods, until
from parts import WHOLE

SHARE = "gpushare.provisioner.elasticgpu.io"
PODS = 500
# Half of the nodes are for claims that name their card, so that other claims never fill such a card.
FREE_NODES = [f"free-{index}" for index in range(25)]
NAMED_NODES = [f"named-{index}" for index in range(25)]
MODEL = "A100-SXM4-80GB"
CARDS = 8
SEED = 20240501


def gpu_class(name, mode, **more):
    return {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": name}, "provisioner": SHARE,
            "egpuBindingMode": mode, **more}


def claim(name, cls, core, memory, card=None):
    spec = {"egpuClassName": cls, "resources": {"requests": {f"{SHARE}/gpu-core": core, f"{SHARE}/gpu-memory": memory}}}
    if card:
        spec["elasticGPUName"] = card
    return {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name}, "spec": spec}


def pod(name, wanted, containers=("main",)):
    """wanted: name in the annotation → claim. Where no policy reads annotations, writes the resourceClaims that the policy would derive."""
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 0,
                     "containers": [{"name": each, "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
                                    for each in containers]}}
    if not installation.PODS_WRITE_CLAIMS:
        made["metadata"]["annotations"] = {f"egpuc.elasticgpu.io/{key}": value for key, value in wanted.items()}
        return made
    made["spec"]["resourceClaims"] = [{"name": key, "resourceClaimName": value} for key, value in wanted.items()]
    for container in made["spec"]["containers"]:
        container["resources"]["claims"] = [{"name": key} for key in wanted if key == container["name"] or key not in containers]
    return made


def running(client, namespace="default"):
    return {each["metadata"]["name"] for each in client.items(pods(namespace)) if each["status"].get("phase") == "Running"}


def expect_clean(client, report, when):
    found = verify.violations(verify.World(client))
    report.check(f"{when}: nothing swapped, lost or double-booked", not found, found[:10])


def samples(cluster, client, report):
    """The proposal's YAML as users apply it, then with a class with WaitForFirstConsumer."""
    folder = installation.MANIFESTS / "samples"
    installation.kubectl(cluster, "apply", "-f", folder / "seed.yaml")
    names = ("test-cuda-1", "test-cuda-2")
    output = installation.kubectl(cluster, "apply", "-f", folder / "seed-pods.yaml", check=not installation.PODS_WRITE_CLAIMS)
    if installation.PODS_WRITE_CLAIMS:
        report.check("a pod with annotations alone is refused with the fields to write",
                     "{name: test1, resourceClaimName: gpushare-egpuc-1}" in output, output)
        installation.kubectl(cluster, "apply", "-f", installation.SAMPLE_PODS)
    until("the sample pods run", lambda: running(client).issuperset(names))
    world = verify.World(client)
    for index in ("1", "2"):
        made, bound = world.pods[f"test-cuda-{index}"], world.claims[f"gpushare-egpuc-{index}"]
        device = world.devices[bound["status"]["elasticGPUName"]]
        report.check(f"sample {index}: on its claim's node", made["spec"]["nodeName"] == device["spec"]["nodeName"])
        report.check(f"sample {index}: 10 % and 4 GiB of one card",
                     [(each["core"], each["memory"]) for each in device["spec"]["cards"]] == [(100, 4 << 30)], device["spec"])
        report.check(f"sample {index}: its container has the claim", made["spec"]["containers"][0]["resources"]["claims"] == [{"name": "test1"}])
        report.check(f"sample {index}: its gate is gone", not made["spec"].get("schedulingGates"))
    expect_clean(client, report, "samples")

    client.create(CLASSES, gpu_class("late", "WaitForFirstConsumer", parameters={"model": MODEL}))
    client.create(claims(), claim("waits", "late", 30, "8Gi"))
    until("it waits for its first consumer", lambda: any(
        each["reason"] == "WaitingForConsumer" for each in client.get(f"{claims()}/waits").get("status", {}).get("conditions", [])))
    report.check("nothing is taken before", not [each for each in verify.World(client).devices.values()
                                                 if each["spec"].get("claimRef", {}).get("name") == "waits"])
    client.create(pods(), pod("consumer", {"main": "waits"}))
    until("the first consumer runs", lambda: "consumer" in running(client))
    # A second pod of a bound claim is placed on the claim's node.
    client.create(pods(), pod("second", {"main": "waits"}))
    until("a second consumer runs", lambda: "second" in running(client))
    # A pod with resourceClaims in its spec needs neither annotation nor gate.
    own = pod("own", {})
    own["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "own-claim"}]
    own["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    client.create(pods(), own)
    client.create(claims(), claim("own-claim", "gpushare-egpuclass", 10, "2Gi"))
    until("a pod with resourceClaims of its own runs", lambda: "own" in running(client))
    expect_clean(client, report, "first consumers")


def many(client, report):
    """Creates claims first or pods first, at random, with several writers at once. The claims of one pod are on one node: because their class waits for the
    pod, or because each names a card there."""
    client.create(CLASSES, gpu_class("now", "Immediate", parameters={"model": MODEL, "nodePolicy": "spread"}))
    client.create(CLASSES, gpu_class("named", "Immediate"))
    random_source = random.Random(SEED)
    work, expected = [], {}
    for index in range(PODS):
        count = index % 3 + 1
        name = f"p-{index:03}"
        named = index % 4 == 3
        cls = "named" if named else "now" if count == 1 else "late"
        home = NAMED_NODES[index % len(NAMED_NODES)]
        made = []
        for number in range(count):
            card = nodes.card(home, (index // len(NAMED_NODES) + number) % CARDS)["metadata"]["name"] if named else None
            made.append(claim(f"{name}-{number}", cls, random_source.choice((5, 10, 20)), f"{random_source.randint(1, 8)}Gi", card))
        containers = ("main", "side")[:random_source.randint(1, 2)]
        # The container main gets the first claim, all containers get the others.
        wanted = {("main", "x1", "x2")[number]: each["metadata"]["name"] for number, each in enumerate(made)}
        expected[name] = set(wanted.values())
        objects = [*((claims(), each) for each in made), (pods(), pod(name, wanted, containers))]
        work.append(objects if random_source.random() < 0.5 else objects[::-1])
    random_source.shuffle(work)
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda objects: [client.create(*each) for each in objects], work))
    written = time.monotonic() - started
    until(f"all {PODS} pods run", lambda: len(running(client) & set(expected)) == PODS, patience=900)
    print(f"{PODS} pods with {sum(map(len, expected.values()))} claims on 50 nodes: written in {written:.0f} s, "
          f"all Running {time.monotonic() - started:.0f} s after the first write", flush=True)
    # kwok runs a pod as soon as it is placed; a kubelet would wait until its claims are prepared.
    wanted = set().union(*expected.values())
    until("every claim is bound", lambda: wanted <= {each["metadata"]["name"] for each in client.items(claims())
                                                     if each.get("status", {}).get("phase") == "Bound"})
    world = verify.World(client)
    report.check("every pod has what it named", all(
        {each["resourceClaimName"] for each in world.pods[name]["spec"]["resourceClaims"]} == names for name, names in expected.items()))
    report.check("no pod kept its gate", not [name for name in expected if world.pods[name]["spec"].get("schedulingGates")])
    expect_clean(client, report, f"{PODS} pods")


def away(client, report):
    """Deletes all pods and claims at once: everything is released, except the devices that Retain keeps."""
    for path in (pods(), claims()):
        client.delete_all(path)
    until("all pods are gone", lambda: not client.items(pods()), patience=600)
    until("all claims are gone", lambda: not client.items(claims()), patience=600)
    until("all ResourceClaims are gone", lambda: not client.items(resource_claims()))
    retained = [each for each in verify.World(client).devices.values() if each["spec"]["reclaimPolicy"] == "Retain"]
    report.check("what Retain keeps is Released", all(each["status"]["phase"] == "Released" for each in retained) and len(retained) == 3,
                 [(each["metadata"]["name"], each["status"].get("phase")) for each in retained])
    for each in retained:
        client.delete(f"{GPUS}/{each['metadata']['name']}")
    until("all devices are gone", lambda: not verify.World(client).devices)
    until("all ledgers are empty", lambda: not any(card["spec"].get("allocations") for card in verify.World(client).cards.values()))
    expect_clean(client, report, "at the end")


def main():
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-pods-") as folder, Cluster(folder, wanted=WHOLE) as cluster:
        installation.apply_manifests(cluster)
        client = installation.client_of(cluster)
        nodes.publish(client, FREE_NODES, CARDS, model=MODEL)
        nodes.publish(client, NAMED_NODES, CARDS, model="H100-SXM5-80GB")
        until("the nodes are ready", lambda: nodes.all_ready(client, FREE_NODES + NAMED_NODES))
        installation.start_controller(cluster, sys.argv[1])
        try:
            samples(cluster, client, report)
            many(client, report)
            away(client, report)
        except BaseException:
            for name in ("kube-apiserver", "controller"):
                print(f"{name}:\n{cluster.processes.tail(name, 30)}", file=sys.stderr)
            raise
        report.check("the controller was asked to stop, and did", cluster.processes.stop("controller") == 0)
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
