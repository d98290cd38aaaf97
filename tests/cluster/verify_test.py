#!/usr/bin/env python3
"""Proves that verify.py finds each kind of violation planted in a sound world, and none in the sound world. Needs no cluster."""

import copy
import sys
import types

import nodes
import verify
from client import Report
from pods_test import claim, pod


def sound():
    """A claim of 10 % and 1 GiB, bound, allocated, and used by a pod on its node; a second node with a card."""
    cards = {each["metadata"]["name"]: each for each in (nodes.card("n-0", 0), nodes.card("n-1", 0))}
    first = next(iter(cards))
    amounts = {"core": 100, "memory": 1 << 30}
    cards[first]["spec"]["allocations"] = {"du": {"device": "egpu-cu", "claim": "default/c", **amounts}}
    device = {"metadata": {"name": "egpu-cu", "uid": "du"}, "status": {"phase": "Bound"}, "spec": {
        "nodeName": "n-0", "claimRef": {"namespace": "default", "name": "c", "uid": "cu"},
        "cards": [{"name": first, **amounts, "chargedCore": 100, "chargedMemory": 1 << 30}]}}
    bound = claim("c", "now", 10, "1Gi")
    bound["metadata"]["uid"] = "cu"
    bound["status"] = {"phase": "Bound", "elasticGPUName": "egpu-cu"}
    field = {"key": "metadata.name", "operator": "In", "values": ["n-0"]}
    resource_claim = {"metadata": {"name": "c", "ownerReferences": [{"kind": "ElasticGPUClaim", "uid": "cu"}]}, "status": {
        "reservedFor": [{"uid": "pu"}], "allocation": {"devices": {"results": [{"device": "egpu-cu"}]},
                                                       "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}}}
    user = pod("p", {"x": "c"})
    user["metadata"]["uid"] = "pu"
    user["spec"].update(nodeName="n-0", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    user["status"] = {"phase": "Running"}
    return types.SimpleNamespace(namespace="default", cards=cards, devices={"egpu-cu": device}, claims={"c": bound},
                                 resource_claims={"c": resource_claim}, pods={"p": user}, classes={}, nodes={"n-0", "n-1"}, nominated={})


def another_claim(world):
    other = copy.deepcopy(world.claims["c"])
    other["metadata"].update(name="d", uid="other")
    world.claims["d"] = other


def another_device(world):
    world.devices["egpu-2"] = copy.deepcopy(world.devices["egpu-cu"])
    world.devices["egpu-2"]["metadata"].update(name="egpu-2", uid="du-2")
    world.devices["egpu-2"]["status"] = {}


def with_nomination(world, **changed):
    """A preemptor, with the other claim's device as its marked victim."""
    wants = claim("big", "now", 100, "1Gi")
    wants["status"] = {"phase": "Pending", "nominated": {
        "nodeName": "n-0", "cards": [{"name": next(iter(world.cards)), "core": 1000, "memory": 1 << 30}], "victims": ["egpu-cu"]}}
    wants["status"]["nominated"].update({key: value for key, value in changed.items() if key != "phase"})
    wants["status"]["phase"] = changed.get("phase", "Pending")
    world.nominated["default/big"] = wants
    device = world.devices["egpu-cu"]
    device["status"]["reason"] = "Preempted"
    device["spec"].update(reclaimPolicy="Delete", parameters={"preemptible": "true"})
    return world


def resized(world, **entered):
    """The claim was resized to 20 %; the ledger agrees unless `entered` differs."""
    device, claimed = world.devices["egpu-cu"], world.claims["c"]
    share = dict(device["spec"]["cards"][0], core=200, chargedCore=200)
    device["status"]["inForce"] = {"number": 1, "cards": [share]}
    asked = claimed["spec"]["resources"]["requests"]
    claimed["status"]["requests"] = {key: "20" if key.endswith("core") else str(value) for key, value in asked.items()}
    first_card(world)["allocations"]["du"].update(core=200, resize=1)
    first_card(world)["allocations"]["du"].update(entered)
    return world


def first_card(world):
    return next(iter(world.cards.values()))["spec"]


def selected(world):
    return world.resource_claims["c"]["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]


PLANTED = {
    "of 99 core given out": lambda world: first_card(world)["card"].update(core=99),
    "of 1 memory given out": lambda world: first_card(world)["card"].update(memory=1),
    "no entry on card": lambda world: first_card(world).pop("allocations"),
    "has no device": lambda world: first_card(world)["allocations"].update(gone={"device": "gone", "core": 1}),
    "which is not egpu-cu": lambda world: first_card(world)["allocations"]["du"].update(device="egpu-x"),
    "charged 200 core": lambda world: resized(world, core=100),
    "entered 90": lambda world: first_card(world)["allocations"]["du"].update(core=90),
    "several devices": another_device,
    "its cards are on": lambda world: world.devices["egpu-cu"]["spec"].update(nodeName="n-1"),
    "bound to claims": another_claim,
    "bound to egpu-gone, which is not there": lambda world: world.claims["c"]["status"].update(elasticGPUName="egpu-gone"),
    "which belongs to": lambda world: world.claims["c"]["metadata"].update(uid="new"),
    "allocated to egpu-gone": lambda world: world.resource_claims["c"]["status"]["allocation"]["devices"]["results"][0].update(device="egpu-gone"),
    "another claim's": lambda world: world.resource_claims["c"]["metadata"]["ownerReferences"][0].update(uid="new"),
    "allocated on n-1": lambda world: selected(world).update(values=["n-1"]),
    "its claim c on n-0": lambda world: world.pods["p"]["spec"].update(nodeName="n-1"),
    "has no allocated ResourceClaim": lambda world: world.resource_claims.clear(),
    "not reserved for it": lambda world: world.resource_claims["c"]["status"].update(reservedFor=[]),
    "and has other": lambda world: world.pods["p"]["spec"]["resourceClaims"][0].update(resourceClaimName="other"),
    "node n-2, which is not there": lambda world: world.pods["p"]["spec"].update(nodeName="n-2"),
    "was granted 100 milli-cards": lambda world: world.claims["c"]["spec"]["resources"]["requests"].update(
        {key: 20 for key in world.claims["c"]["spec"]["resources"]["requests"] if key.endswith("core")}),
    "was granted 1073741824 bytes": lambda world: world.claims["c"]["spec"]["resources"]["requests"].update(
        {key: "2Gi" for key in world.claims["c"]["spec"]["resources"]["requests"] if key.endswith("memory")}),
    "default/big is Bound, and room is made": lambda world: with_nomination(world, phase="Bound"),
    "is to have 2000 core": lambda world: with_nomination(world, cards=[{"name": next(iter(world.cards)), "core": 2000}]),
    "which is not on node n-1": lambda world: with_nomination(world, nodeName="n-1"),
    "no claim has nominated its capacity": lambda world: with_nomination(world, victims=["egpu-other"]),
    "is not preemptible": lambda world: with_nomination(world).devices["egpu-cu"]["spec"].update(reclaimPolicy="Retain"),
}


def main():
    report = Report()
    report.check("the sound world is sound", not verify.violations(sound()), verify.violations(sound()))
    report.check("so is one in which room is made", not verify.violations(with_nomination(sound())), verify.violations(with_nomination(sound())))
    going = sound()
    going.claims["c"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    going.claims["c"]["status"].update(elasticGPUName="egpu-gone")
    report.check("so is one in which a claim's device went before it", not [each for each in verify.violations(going) if "bound to" in each])
    report.check("so is one in which a claim was resized", not verify.violations(resized(sound())), verify.violations(resized(sound())))
    for words, plant in PLANTED.items():
        world = sound()
        plant(world)
        found = verify.violations(world)
        report.check(f"planted: {words}", any(words in line for line in found), found)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
