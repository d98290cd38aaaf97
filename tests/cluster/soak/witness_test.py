#!/usr/bin/env python3
"""Proves that the witness finds each kind of violation planted in a sound history, and none in the sound history. Needs no cluster."""

import copy
import pathlib
import sys

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import nodes
from client import Report
from pods_test import claim
from witness import Judge

CARD = nodes.card("n-0", 0)["metadata"]["name"]


def card(**entries):
    made = nodes.card("n-0", 0)
    made["spec"]["allocations"] = entries
    return made


def entry(device, core=100):
    return {"device": device, "claim": "default/c", "core": core, "memory": core << 20}


def device(name="egpu-c", uid="du", phase="Bound", owner="c", core=100):
    ref = {"claimRef": {"namespace": "default", "name": owner, "uid": owner}} if owner else {}
    return {"metadata": {"name": name, "uid": uid}, "status": {"phase": phase}, "spec": {
        "nodeName": "n-0", "cards": [{"name": CARD, "chargedCore": core, "chargedMemory": core << 20}], **ref}}


def bound(uid="c", to="egpu-c", phase="Bound", **metadata):
    made = claim("c", "now", 10, "1Gi")
    made["metadata"].update(uid=uid, **metadata)
    made["status"] = {"phase": phase, "elasticGPUName": to}
    return made


GPU, CLAIM = "elasticgpus", "elasticgpuclaims"
# A history as the controller writes it.
SOUND = [(GPU, CARD, card()), (CLAIM, "default/c", bound(phase="Pending")), (GPU, "egpu-c", device(phase="")),
         (GPU, CARD, card(du=entry("egpu-c"))), (GPU, "egpu-c", device()), (CLAIM, "default/c", bound())]
AWAY = [(CLAIM, "default/c", bound(deletionTimestamp="now")), (GPU, "egpu-c", device(phase="Released")), (GPU, "egpu-c", None),
        (GPU, CARD, card()), (CLAIM, "default/c", None)]


def shrunk(core, **entries):
    made = card(**entries)
    made["spec"]["card"]["core"] = core
    return GPU, CARD, made


def alternating(times, between=lambda index: []):
    """A claim whose status alternates; between: further versions after each."""
    history = [SOUND[0]]
    for index in range(times):
        each = bound(phase="Pending")
        each["status"]["reason"] = ("NoFit", "Preempting")[index % 2]
        history += [(CLAIM, "default/c", each), *between(index)]
    return history


def others(count):
    """Returns that many versions of other objects."""
    return [(CLAIM, f"default/other-{index}", bound(uid=f"o-{index}", phase="Pending")) for index in range(count)]


PLANTED = {
    "was written to the same contents 6 times": alternating(12),
    "though its spec did not change": alternating(12, lambda index: others(3)),
    "1100 of 1000 core given out": [*SOUND, (GPU, CARD, card(du=entry("egpu-c"), dv=entry("egpu-d", 1000)))],
    "101 of 50 core given out": [*SOUND, shrunk(50, du=entry("egpu-c")), shrunk(50, du=entry("egpu-c"), dv=entry("egpu-d", 1))],
    "moved from": [*SOUND, (GPU, "egpu-c", device(core=50))],
    "swapped from claim c to d": [*SOUND, (GPU, "egpu-c", device(owner="d"))],
    "became Bound with None": [SOUND[0], (GPU, "egpu-c", device())],
    "charged": [SOUND[0], (GPU, CARD, card(du=entry("egpu-c", 50))), (GPU, "egpu-c", device())],
    "has two bound devices": [*SOUND, (GPU, CARD, card(du=entry("egpu-c"), dv=entry("egpu-d"))), (GPU, "egpu-d", device("egpu-d", "dv"))],
    "bound devices have 1100": [*SOUND, (GPU, CARD, None), (GPU, CARD, card(dv=entry("egpu-d", 1000))),
                                (GPU, "egpu-d", device("egpu-d", "dv", owner="d", core=1000))],
    "was taken from claim": [*SOUND, (GPU, "egpu-c", device(phase="Failed"))],
    "Bound to egpu-c and is to egpu-d": [*SOUND, (GPU, CARD, card(du=entry("egpu-c"), dv=entry("egpu-d"))),
                                         (GPU, "egpu-d", device("egpu-d", "dv", owner="d")), (CLAIM, "default/c", bound(to="egpu-d"))],
    "which is not there": [SOUND[0], (CLAIM, "default/c", bound())],
    "which is  and of claim c": [*SOUND[:4], (CLAIM, "default/c", bound())],
    "of claim d": [SOUND[0], (GPU, CARD, card(du=entry("egpu-c"))), (GPU, "egpu-c", device(owner="d")), (CLAIM, "default/c", bound())],
}


def judged(history):
    judge = Judge()
    for kind, key, now in copy.deepcopy(history):
        judge.take(kind, key, now)
    return judge


def main():
    report = Report()
    sound = judged([*SOUND, *AWAY])
    report.check("the sound history is sound", not sound.violations, sound.violations)
    report.check("its claim was bound and is gone", (len(sound.bound_ever), sound.gone_after_bound) == (1, 1))
    fine = judged([*SOUND, shrunk(50, du=entry("egpu-c")), *AWAY])
    report.check("a card may shrink below what it has given out", not fine.violations, fine.violations)
    lost = judged([*SOUND, (CLAIM, "default/c", bound(phase="Lost")), (GPU, "egpu-c", device(phase="Failed")), (GPU, "egpu-c", None)])
    report.check("a lost claim's device may go", not lost.violations, lost.violations)
    for what, history in {
            "contents may return a few times": alternating(10), "and often if other things happen meanwhile": alternating(60, lambda index: others(60)),
            "and if the object's labels change": [(kind, key, {**now, "metadata": {**now["metadata"], "labels": {"turn": str(index // 4)}}})
                                                  for index, (kind, key, now) in enumerate(alternating(60)[1:])]}.items():
        found = judged(history).violations
        report.check(what, not found, found)
    for words, history in PLANTED.items():
        found = judged(history).violations
        report.check(f"planted: {words}", any(words in line for line in found), found)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
