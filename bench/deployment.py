#!/usr/bin/env python3
"""Measures a Deployment whose pods have a claim each, from apply to Running, beside the same pods without claims and beside the claims' own writes, sent
raw.

deployment.py BIN_DIR [--replicas N] [--rounds N]

Runs a real API server with a syncing etcd, the stock scheduler and controller manager, and kwok's nodes. The rounds alternate: with claims, without claims, and
raw. Raw sends the writes that claims add (by the controller, by the controller manager that stamps ResourceClaims, by the scheduler that reserves them) with
the same contents, one after the other for each pod, for many pods at once. Exit status 77 where Go is missing.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
import apiserver  # noqa: E402  (not a package)
import installation  # noqa: E402
import nodes  # noqa: E402
from client import CLASSES, GPUS, GROUP, Refused, resource_claims, claims, pods, until  # noqa: E402
from parts import WHOLE  # noqa: E402
from pods_test import SHARE, gpu_class  # noqa: E402
from processes import used  # noqa: E402

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TEMPLATES = f"{GROUP}/namespaces/default/elasticgpuclaimtemplates"
NODE_NAMES = [f"n-{index:02}" for index in range(50)]
CARDS = 8
PROCESSES, THREADS = 2, 16  # of the raw writer; a single process would be the bottleneck
NAME = "serving"


def deployment(replicas, annotations):
    labels = {"app": NAME}
    return {"metadata": {"name": NAME}, "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}]}}}}


def runs(client, replicas, annotations):
    """Returns the seconds from apply until the Deployment's status reports that all replicas are ready."""
    started = time.monotonic()
    client.create(DEPLOYMENTS, deployment(replicas, annotations))
    while client.get(f"{DEPLOYMENTS}/{NAME}").get("status", {}).get("readyReplicas", 0) < replicas:
        time.sleep(0.1)
    return time.monotonic() - started


def away(client):
    client.delete(f"{DEPLOYMENTS}/{NAME}?propagationPolicy=Background")
    until("all is gone", lambda: not client.items(pods()) and not client.items(claims()) and not client.items(resource_claims())
          and all("card" in each["spec"] for each in client.items(GPUS)))


def sample(client):
    """Returns the objects that claims add to one running pod: claim, device, ResourceClaim."""
    claim = client.items(claims())[0]
    name = claim["metadata"]["name"]
    return claim, client.get(f"{GPUS}/{claim['status']['elasticGPUName']}"), client.get(f"{resource_claims()}/{name}")


def made(stored, **metadata):
    """Returns a copy to be created without owners, which do not exist for it, and its status separately."""
    copy = json.loads(json.dumps(stored))
    copied = {key: copy["metadata"][key] for key in ("labels", "annotations") if key in copy["metadata"]}
    copy["metadata"] = {**copied, **metadata}
    return copy, copy.pop("status")


def write_raw(client, stored, number):
    """Sends the writes that a claim adds to a pod, in their order."""
    claim, device, resource_claim = stored
    name, uid = f"raw-{number}", str(uuid.uuid4())
    body, status = made(resource_claim, name=name)
    client.create(resource_claims(), body)
    client.create(pods() + "?dryRun=All", POD)  # replaces the update of the pod's status, which names its ResourceClaim
    body, claim_status = made(claim, name=name)
    body["spec"].pop("elasticGPUName", None)
    client.create(claims(), body)
    body, device_status = made(device, name=f"egpu-{uid}", finalizers=device["metadata"].get("finalizers", []))
    body["spec"]["claimRef"].update(name=name, uid=uid)
    device_uid = client.create(GPUS, body)["metadata"]["uid"]
    share = device["spec"]["cards"][0]
    card = nodes.card(NODE_NAMES[number % len(NODE_NAMES)], number // len(NODE_NAMES) % CARDS)["metadata"]["name"]
    client.patch(f"{GPUS}/{card}", {"spec": {"allocations": {device_uid: {
        "device": f"egpu-{uid}", "claim": f"default/{name}", "core": share["chargedCore"], "memory": share["chargedMemory"]}}}})
    client.patch(f"{GPUS}/egpu-{uid}/status", {"status": device_status})
    client.patch(f"{claims()}/{name}", {"metadata": {"finalizers": claim["metadata"]["finalizers"]}, "spec": {"elasticGPUName": f"egpu-{uid}"}})
    client.patch(f"{claims()}/{name}/status", {"status": {**claim_status, "elasticGPUName": f"egpu-{uid}"}})
    client.patch(f"{resource_claims()}/{name}", {"metadata": {"finalizers": resource_claim["metadata"]["finalizers"]}})
    reserved = status.pop("reservedFor", [])
    client.patch(f"{resource_claims()}/{name}/status", {"status": status})
    client.patch(f"{resource_claims()}/{name}/status", {"status": {"reservedFor": reserved}})
    client.create(pods() + "?dryRun=All", POD)  # replaces the removal of the pod's scheduling gate


POD = {"metadata": {"name": "stands-for-a-patch"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}


def raw_part(url, pki, stored, numbers):
    client = apiserver_client(url, pki)
    try:
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda number: write_raw(client, stored, number), numbers))
    except Refused as refused:
        raise RuntimeError(str(refused)) from None  # an exception that another process can unpickle


def apiserver_client(url, pki):
    from client import Client  # pylint: disable=import-outside-toplevel  (in the other process)
    from pki import admin_context  # pylint: disable=import-outside-toplevel
    client = Client(url, admin_context(pathlib.Path(pki)))
    client.separators = (",", ":")  # with other separators a ResourceClaim with parameters would no longer be mutable
    return client


def raw(cluster, client, stored, replicas):
    started = time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(PROCESSES) as pool:
        list(pool.map(raw_part, *zip(*[(cluster.url, str(cluster.pki), stored, list(range(part, replicas, PROCESSES))) for part in range(PROCESSES)])))
    return time.monotonic() - started


def clear_raw(client):
    for path, is_retained in ((claims(), lambda _: False), (resource_claims(), lambda _: False), (GPUS, lambda each: "card" in each["spec"])):
        for each in client.items(path):
            if is_retained(each):
                client.patch(f"{path}/{each['metadata']['name']}", {"spec": {"allocations": None}})
                continue
            client.patch(f"{path}/{each['metadata']['name']}", {"metadata": {"finalizers": None}})
            client.delete(f"{path}/{each['metadata']['name']}")


def spread(values):
    return f"{statistics.median(values):.1f} (from {min(values):.1f} to {max(values):.1f})"


def processor(cluster):
    """Returns the seconds of processor time so far, by process."""
    return {name: used(child.pid)[0] for name, child in cluster.processes.children.items()}


def measured(cluster, took, cpu, what, act):
    before = processor(cluster)
    took[what].append(act())
    cpu[what].append({name: after - before[name] for name, after in processor(cluster).items()})


def measure(cluster, client, options):
    took, cpu = ({"claims": [], "plain": [], "raw": []} for _ in range(2))
    for _ in range(options.rounds):
        installation.start_controller(cluster, options.bin_dir)
        until("the template is Ready", lambda: any(c["type"] == "Ready" and c["status"] == "True" for c in
              client.get(f"{TEMPLATES}/quarter").get("status", {}).get("conditions", [])))
        measured(cluster, took, cpu, "claims", lambda: runs(client, options.replicas, {"egpuct.elasticgpu.io/gpu": "quarter"}))
        until("all are bound", lambda: all(each.get("status", {}).get("phase") == "Bound" for each in client.items(claims())))
        stored = sample(client)
        away(client)
        measured(cluster, took, cpu, "plain", lambda: runs(client, options.replicas, {}))
        away(client)
        cluster.processes.stop("controller")
        measured(cluster, took, cpu, "raw", lambda: raw(cluster, client, stored, options.replicas))
        clear_raw(client)
        print({key: round(values[-1], 1) for key, values in took.items()}, flush=True)
    ratios = [a / b for a, b in zip(took["claims"], took["plain"])]
    of_raw = [a / (b + c) for a, b, c in zip(took["claims"], took["plain"], took["raw"])]
    print(f"{options.replicas} replicas, apply to Running: with claims {spread(took['claims'])} s, without {spread(took['plain'])} s, what claims add sent "
          f"raw {spread(took['raw'])} s; with ÷ without {statistics.median(ratios):.2f}, with ÷ (without + raw) {statistics.median(of_raw):.2f} "
          f"({min(of_raw):.2f} – {max(of_raw):.2f})")
    for what, rounds in cpu.items():
        each = {name: statistics.median(one.get(name, 0) for one in rounds) / options.replicas * 1000 for name in rounds[0]}
        print(f"  processor time {what}, ms a replica: " + ", ".join(f"{name} {value:.1f}" for name, value in each.items()) + f"; all {sum(each.values()):.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--replicas", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="egpu-bench-") as folder, apiserver.Cluster(folder, wanted=WHOLE, fsync=True) as cluster:
        installation.apply_manifests(cluster)
        client = installation.client_of(cluster)
        nodes.publish(client, NODE_NAMES, CARDS)
        until("the nodes are ready", lambda: nodes.all_ready(client, NODE_NAMES))
        client.create(CLASSES, gpu_class("late", "WaitForFirstConsumer"))
        client.create(TEMPLATES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaimTemplate", "metadata": {"name": "quarter"}, "spec": {
            "spec": {"egpuClassName": "late", "resources": {"requests": {f"{SHARE}/gpu-core": 25, f"{SHARE}/gpu-memory": "16Gi"}}}}})
        measure(cluster, client, options)
    return 0


if __name__ == "__main__":
    sys.exit(apiserver.guarded(main))
