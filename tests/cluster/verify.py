#!/usr/bin/env python3
"""Checks that nothing is swapped, lost or double-booked, from the API objects alone, without knowledge of their history.

verify.py --kubeconfig FILE [--namespace NAME]

Prints each violation; exit status 1 if there is one. Operations in progress (a claim not yet bound, a pod not yet placed) are no violations here; a caller that
expects them to be complete checks that itself.
"""

import argparse
import base64
import json
import pathlib
import sys
import tempfile

from client import CLASSES, GPUS, GROUP, NODES, Client, resource_claims, claims, pods
from pki import admin_context

DRIVER = "elasticgpu.io"
ANNOTATION = "egpuc.elasticgpu.io/"


class World:
    """All objects of one namespace and of the cluster, one list per kind."""

    def __init__(self, client, namespace="default"):
        self.namespace = namespace
        gpus = client.items(GPUS)
        self.cards = {each["metadata"]["name"]: each for each in gpus if "card" in each["spec"]}
        self.devices = {each["metadata"]["name"]: each for each in gpus if "card" not in each["spec"]}
        self.claims = {each["metadata"]["name"]: each for each in client.items(claims(namespace))}
        self.resource_claims = {each["metadata"]["name"]: each for each in client.items(resource_claims(namespace))}
        self.pods = {each["metadata"]["name"]: each for each in client.items(pods(namespace))}
        self.classes = {each["metadata"]["name"]: each for each in client.items(CLASSES)}
        self.nodes = {each["metadata"]["name"] for each in client.items(NODES)}
        # From all namespaces: a device of any claim may be marked for a nominated preemptor.
        self.nominated = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each
                          for each in client.items(f"{GROUP}/elasticgpuclaims") if each.get("status", {}).get("nominated")}


def in_force(device):
    """Returns the device's shares of its cards: as created, or as resized since."""
    return (device.get("status", {}).get("inForce") or device["spec"]).get("cards", [])


def ledgers(world):
    """No card is over-committed; entries and devices name each other with the same amounts."""
    entered = {}
    for name, card in world.cards.items():
        has, entries = card["spec"]["card"], card["spec"].get("allocations") or {}
        for amount in ("core", "memory"):
            total = sum(entry.get(amount, 0) for entry in entries.values())
            if total > has.get(amount, 0):
                yield f"card {name}: {total} of {has.get(amount, 0)} {amount} given out"
        for uid, entry in entries.items():
            entered[name, uid] = entry
    for device in world.devices.values():
        uid, name = device["metadata"]["uid"], device["metadata"]["name"]
        for share in in_force(device):
            entry = entered.pop((share["name"], uid), None)
            if entry is None:
                if device.get("status", {}).get("phase") in ("Bound", "Released"):
                    yield f"device {name}: no entry on card {share['name']}"
                continue
            if entry["device"] != name:
                yield f"card {share['name']}: the entry of {uid} names {entry['device']}, which is not {name}"
            for amount, charged in (("core", "chargedCore"), ("memory", "chargedMemory")):
                if entry.get(amount, 0) != share.get(charged, 0):
                    yield f"device {name}: charged {share.get(charged, 0)} {amount} of card {share['name']}, entered {entry.get(amount, 0)}"
    for (card, uid), entry in entered.items():
        yield f"card {card}: the entry of {uid} ({entry.get('device')}) has no device"


def bindings(world):
    """Each bound claim has one device, and no device belongs to two claims."""
    belongs = {}
    for name, device in world.devices.items():
        ref = device["spec"].get("claimRef")
        if ref and ref["namespace"] == world.namespace:
            belongs.setdefault(ref["uid"], []).append(name)
        homes = {world.cards[share["name"]]["spec"]["card"]["nodeName"]
                 for share in device["spec"].get("cards", []) if share["name"] in world.cards}
        if len(homes) > 1 or (homes and device["spec"].get("nodeName") not in homes):
            yield f"device {name} on node {device['spec'].get('nodeName')}: its cards are on {sorted(homes)}"
    for uid, names in belongs.items():
        if len(names) > 1:
            yield f"claim {uid} has several devices: {names}"
    bound_to = {}
    for name, claim in world.claims.items():
        status = claim.get("status", {})
        if status.get("phase") != "Bound":
            continue
        device = status.get("elasticGPUName", "")
        if device in bound_to:
            yield f"device {device} is bound to claims {bound_to[device]} and {name}"
        bound_to[device] = name
        if device not in world.devices:
            if "deletionTimestamp" not in claim["metadata"]:  # its device is deleted first, then the claim
                yield f"claim {name} is bound to {device}, which is not there"
        elif world.devices[device]["spec"].get("claimRef", {}).get("uid") != claim["metadata"]["uid"]:
            yield f"claim {name} is bound to {device}, which belongs to {world.devices[device]['spec'].get('claimRef')}"


def allocation_of(resource_claim):
    """Returns the (device, node) of the ResourceClaim's allocation, or None."""
    allocation = resource_claim.get("status", {}).get("allocation")
    if not allocation:
        return None
    results = allocation["devices"]["results"]
    nodes = [value for term in allocation["nodeSelector"]["nodeSelectorTerms"] for field in term["matchFields"]
             for value in field["values"]]
    return results[0]["device"], nodes[0] if len(nodes) == 1 and len(results) == 1 else None


def allocated(world):
    """Each ResourceClaim of the project is allocated to its claim's device, on that device's node."""
    for name, resource_claim in world.resource_claims.items():
        owners = [each for each in resource_claim["metadata"].get("ownerReferences", []) if each["kind"] == "ElasticGPUClaim"]
        allocation = allocation_of(resource_claim)
        if not owners or not allocation:
            continue
        device, node = allocation
        there = world.devices.get(device)
        if there is None:
            yield f"ResourceClaim {name} is allocated to {device}, which is not there"
            continue
        if there["spec"].get("claimRef", {}).get("uid") != owners[0]["uid"]:
            yield f"ResourceClaim {name} is allocated to {device}, which is another claim's"
        if node != there["spec"].get("nodeName"):
            yield f"ResourceClaim {name} is allocated on {node}, device {device} is on {there['spec'].get('nodeName')}"


def placed(world):
    """A pod with a node is on the node of all its claims, and exactly its claims are reserved for it."""
    for name, pod in world.pods.items():
        wanted = {key[len(ANNOTATION):]: value for key, value in pod["metadata"].get("annotations", {}).items()
                  if key.startswith(ANNOTATION)}
        # The pod's status names claims stamped from templates; those of an ended pod are deleted.
        stamped = {each["name"]: each.get("resourceClaimName") for each in pod.get("status", {}).get("resourceClaimStatuses", [])}
        ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        has = {each["name"]: each.get("resourceClaimName") or stamped.get(each["name"]) for each in pod["spec"].get("resourceClaims", [])
               if not ended or "resourceClaimTemplateName" not in each}
        for short, claim in wanted.items():
            if has.get(short) != claim:
                yield f"pod {name} asks for claim {claim} as {short}, and has {has.get(short)}"
        node = pod["spec"].get("nodeName")
        if not node:
            continue
        if node not in world.nodes:
            yield f"pod {name} is on node {node}, which is not there"
        for claim in has.values():
            resource_claim = world.resource_claims.get(claim)
            allocation = allocation_of(resource_claim) if resource_claim else None
            if allocation is None:
                yield f"pod {name} is on node {node}, its claim {claim} has no allocated ResourceClaim"
                continue
            if allocation[1] != node:
                yield f"pod {name} is on node {node}, its claim {claim} on {allocation[1]}"
            users = {each["uid"] for each in resource_claim["status"].get("reservedFor", [])}
            if pod["metadata"]["uid"] not in users and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                yield f"pod {name} uses claim {claim}, which is not reserved for it"


def requested(world):
    """Each bound claim was granted exactly its request, to the milli-card and byte, if it requested percent and bytes."""
    units = {"Mi": 1 << 20, "Gi": 1 << 30}
    for name, claim in world.claims.items():
        device = world.devices.get(claim.get("status", {}).get("elasticGPUName", ""))
        if device is None:
            continue
        asked = claim["status"].get("requests") or claim["spec"].get("resources", {}).get("requests", {})
        requests = {key.split("/")[1]: str(value) for key, value in asked.items()}
        if "gpu" in requests:
            continue
        shares = in_force(device)
        core = sum(share.get("core", 0) for share in shares)
        if "gpu-core" in requests and core != int(requests["gpu-core"]) * 10:
            yield f"claim {name} asked for {requests['gpu-core']} % and was granted {core} milli-cards"
        memory = requests.get("gpu-memory", "")
        if memory[-2:] in units and sum(share.get("memory", 0) for share in shares) != int(memory[:-2]) * units[memory[-2:]]:
            yield f"claim {name} asked for {memory} and was granted {sum(share.get('memory', 0) for share in shares)} bytes"


def nominations(world):
    """Nominations belong to waiting claims, on cards with that capacity; each marked victim is preemptible and wanted by one of them."""
    wanted = set()
    for name, claim in world.nominated.items():
        status = claim["status"]
        wanted.update(status["nominated"].get("victims", []))
        if status.get("phase") == "Bound":
            yield f"claim {name} is Bound, and room is made for it"
        for share in status["nominated"].get("cards", []):
            card = world.cards.get(share["name"])
            if card is None or card["spec"]["card"]["nodeName"] != status["nominated"].get("nodeName"):
                yield f"claim {name} is to have {share['name']}, which is not on node {status['nominated'].get('nodeName')}"
                continue
            for amount in ("core", "memory"):
                if share.get(amount, 0) > card["spec"]["card"].get(amount, 0):
                    yield f"claim {name} is to have {share.get(amount, 0)} {amount} of card {share['name']}"
    for name, device in world.devices.items():
        status = device.get("status", {})
        if status.get("reason") != "Preempted":
            continue
        if name not in wanted:
            yield f"device {name} is {status.get('phase')} and marked as a victim, and no claim has nominated its capacity"
        if device["spec"].get("reclaimPolicy") != "Delete" or device["spec"].get("parameters", {}).get("preemptible") != "true":
            yield f"device {name} is marked to go, and is not preemptible"


def violations(world):
    return [line for rule in (ledgers, bindings, allocated, placed, requested, nominations) for line in rule(world)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", required=True, help="as written by tests/cluster")
    parser.add_argument("--namespace", default="default")
    options = parser.parse_args()
    config = json.loads(pathlib.Path(options.kubeconfig).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    with tempfile.TemporaryDirectory() as folder:
        pki = pathlib.Path(folder)
        (pki / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        (pki / "admin.crt").write_bytes(base64.b64decode(user["client-certificate-data"]))
        (pki / "admin.key").touch(mode=0o600)
        (pki / "admin.key").write_bytes(base64.b64decode(user["client-key-data"]))
        client = Client(cluster["server"], admin_context(pki))
    found = violations(World(client, options.namespace))
    for line in found:
        print(line)
    print(f"{len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
