"""Proves MIG instances with the real kubectl on the standalone controller: slots in the ledger, refusals, explanations, the map, and cards without MIG beside them.

mig_test.py BIN_DIR
"""
import json
import pathlib
import shutil
import subprocess
import sys

from standalone import Kubectl, Report, Standalone, until

NODES = """
nodes:
- name: n1
  gpus:
  - {model: A100, count: 1, memory: 80Gi, mig: true}
  - {model: A100, count: 1, memory: 80Gi}
"""
CLASSES = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: mig}
provisioner: mig.provisioner.elasticgpu.io
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: shared}
provisioner: gpushare.provisioner.elasticgpu.io
---
"""
CLAIM = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: %s}
spec: {egpuClassName: %s, resources: {requests: {elasticgpu.io/%s: %s}}}
---
"""


def claim(k, name):
    return k.json("get", "egpuc", name)


def is_bound(k, name):
    return until(lambda: claim(k, name)["status"]["phase"] == "Bound")


def message(k, name, kind="Bound"):
    found = [c for c in claim(k, name).get("status", {}).get("conditions", []) if c["type"] == kind]
    return found[0].get("message", "") if found else ""


def device(k, name):
    return k.json("get", "egpu", claim(k, name)["spec"]["elasticGPUName"])


def card_in_mig_mode(k):
    return next(each for each in k.json("get", "egpu")["items"] if each["spec"].get("card", {}).get("mig"))


def instances(r, k):
    k.ok("apply", "-f", "-", stdin=CLASSES + CLAIM % ("two", "mig", "mig-1g.10gb", 2) + CLAIM % ("media", "mig", "mig-1g.10gb.me", 1))
    r.check("claims of instances are Bound", is_bound(k, "two") and is_bound(k, "media"), claim(k, "two")["status"])
    spec = device(k, "two")["spec"]
    r.check("the device has the profile", spec["mig"]["profile"] == "1g.10gb" and spec["capacity"] == {
        "mig.provisioner.elasticgpu.io/gpu-core": "28.4", "mig.provisioner.elasticgpu.io/gpu-memory": "20Gi", "mig.provisioner.elasticgpu.io/mig-1g.10gb": "2"}, spec)
    card = card_in_mig_mode(k)
    slots = {uid: entry["slots"] for uid, entry in card["spec"]["allocations"].items()}
    used = [slot for each in slots.values() for slot in each]
    r.check("the ledger has the slots, each once", len(used) == len(set(used)) == 4 and 8 in used, slots)
    r.check("the card has the mode", card["spec"]["mode"] == "mig", card["spec"]["mode"])
    r.check("the claim shows its instances", claim(k, "two")["status"]["capacity"] == {"core": "28.4%", "memory": "20Gi", "mig-1g.10gb": "2"}, claim(k, "two")["status"]["capacity"])
    patch = {"spec": {"allocations": {"other": {"device": "egpu-x", "claim": "default/x", "core": 1, "memory": 1, "slots": [used[0]]}}}}
    overlap = k.run("patch", "egpu", card["metadata"]["name"], "--type=merge", "-p", json.dumps(patch))
    r.check("the API server refuses a slot in use", overlap.returncode != 0 and b"slot of the card in common" in overlap.stderr, overlap.stderr)


def beside(r, k):
    k.ok("apply", "-f", "-", stdin=CLAIM % ("share", "shared", "gpu-core", 50) + CLAIM % ("whole", "shared", "gpu", 1))
    r.check("shares go to the card without MIG", is_bound(k, "share") and device(k, "share")["spec"]["cards"][0]["name"] != card_in_mig_mode(k)["metadata"]["name"])
    waits = until(lambda: "in MIG mode" in message(k, "whole"))
    r.check("a whole card never comes from a card in MIG mode", waits, message(k, "whole"))


def pending(r, k):
    k.ok("apply", "-f", "-", stdin=CLAIM % ("large", "mig", "mig-7g.80gb", 1) + CLAIM % ("again", "mig", "mig-1g.10gb.me", 1) + CLAIM % ("odd", "mig", "mig-9g.90gb", 1))
    r.check("an instance that does not fit says why", until(lambda: "short of free" in message(k, "large")), message(k, "large"))
    r.check("and what would help", until(lambda: "fits now" in message(k, "large")), message(k, "large"))
    r.check("second media engines", until(lambda: "without free slots for 1 MIG instance of 1g.10gb.me" in message(k, "again")), message(k, "again"))
    r.check("an unknown profile", until(lambda: "without the MIG profile 9g.90gb (the cluster has 1g.10gb, 1g.10gb.me, " in message(k, "odd")), message(k, "odd"))
    k.ok("delete", "egpuc", "media")
    r.check("freed slots go to the next claim", is_bound(k, "again"), message(k, "again"))


def refused(r, k):
    for what, key, amount, words in (("nine instances", "mig-1g.10gb", 9, b"at most 8"), ("half an instance", "mig-1g.10gb", '"0.5"', b"whole number of instances")):
        result = k.run("apply", "-f", "-", stdin=CLAIM % ("bad", "mig", key, amount))
        r.check(f"{what}: refused", result.returncode != 0 and words in result.stderr, result.stderr)
    k.ok("apply", "-f", "-", stdin=CLAIM % ("percent", "mig", "gpu-core", 10) + CLAIM % ("elsewhere", "shared", "mig-1g.10gb", 1))
    r.check("a class of instances has no percent", until(lambda: "MIG instances only" in message(k, "percent", "Accepted")), claim(k, "percent"))
    r.check("another class has no instances", until(lambda: "provides no MIG instances" in message(k, "elsewhere", "Accepted")), claim(k, "elsewhere"))


def by_hand(r, k):
    card = card_in_mig_mode(k)
    used = [slot for entry in card["spec"]["allocations"].values() for slot in entry["slots"]]
    share = {"name": card["metadata"]["name"], "uuid": card["spec"]["card"]["uuid"], "core": 142, "memory": 10 << 30, "chargedCore": 142, "chargedMemory": 10 << 30}

    def create(name, **more):
        source = {"mig": {"gpuName": share["name"], "profile": "1g.10gb"}} if "slots" in more else more.pop("source")
        spec = {**source, "nodeName": "n1", "provisioner": "mig.provisioner.elasticgpu.io", "cards": [{**share, **more}]}
        return k.run("create", "-f", "-", stdin=json.dumps({"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPU", "metadata": {"name": name}, "spec": spec}))

    def has_failed(name, words):
        return until(lambda: words in k.json("get", "egpu", name).get("status", {}).get("message", ""))
    none = create("none", source={"mig": {"gpuName": share["name"], "profile": "1g.10gb"}})
    r.check("a device of instances without slots is refused", none.returncode != 0 and b"add the line slots: [SLOT]" in none.stderr, none.stderr)
    r.check("a device in slots in use", create("over", slots=[used[0]]).returncode == 0 and has_failed("over", "slot of the card in common"), k.json("get", "egpu", "over"))
    r.check("a share of a card in MIG mode", create("part", source={"gpuShare": {"gpuName": share["name"]}}).returncode == 0 and has_failed("part", "add the line slots: [SLOT] to spec.cards"), k.json("get", "egpu", "part"))
    k.ok("delete", "egpu", "over", "part")


def limited(r, k):
    quota = {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUQuota", "metadata": {"name": "team"}, "spec": {"hard": {"mig-1g.10gb": 2, "mig-2g.20gb": 1}}}
    k.ok("apply", "-f", "-", stdin=json.dumps(quota))

    def summary():
        return k.json("get", "egpuquota", "team").get("status", {}).get("summary")
    r.check("the quota counts the instances of each profile", until(lambda: summary() == {"mig-1g.10gb": "2/2", "mig-2g.20gb": "0/1"}), summary())
    k.ok("apply", "-f", "-", stdin=CLAIM % ("third", "mig", "mig-1g.10gb", 1))
    r.check("a claim beyond its quota waits", until(lambda: "quota team allows mig-1g.10gb 2, 2 is used" in message(k, "third")), message(k, "third"))
    k.ok("delete", "egpuc", "two")
    r.check("until instances of the profile are released", is_bound(k, "third"), message(k, "third"))
    quota["spec"]["hard"] = {"mig-1g": 2, "elasticgpu.io/mig-1g.10gb": 1}
    wrong = k.run("apply", "-f", "-", stdin=json.dumps(quota))
    r.check("an unknown key names the valid ones", wrong.returncode != 0 and b"tflops, claims or mig-<profile>" in wrong.stderr, wrong.stderr)


def asked(r, bin_dir, kubeconfig):
    def egpu(*words):
        return subprocess.run([pathlib.Path(bin_dir) / "kubectl-egpu", *words, "--kubeconfig", kubeconfig], capture_output=True, text=True, check=False)
    table = egpu("map")
    r.check("the map names number and profile", "=2x1g.10gb" in table.stdout and "=1g.10gb+me" in table.stdout, table.stdout + table.stderr)
    why = egpu("why", "claim/two", "-o", "wide")
    r.check("why names the slots", "28.4% 20Gi, 1g.10gb in slots " in why.stdout, why.stdout + why.stderr)
    fit = egpu("fit", "mig", "--mig", "1g.10gb", "-o", "json")
    r.check("fit counts the free places", fit.returncode == 0 and '"count":4,' in fit.stdout.replace(" ", ""), fit.stdout + fit.stderr)
    attempt = egpu("try", "--class", "mig", "--mig", "2x2g.20gb")
    r.check("try places instances", "n1" in attempt.stdout, attempt.stdout + attempt.stderr)


def main(bin_dir):
    r = Report()
    s = Standalone(bin_dir, NODES)
    try:
        k = Kubectl(shutil.which("kubectl"), s.kubeconfig, s.work)
        instances(r, k)
        beside(r, k)
        pending(r, k)
        refused(r, k)
        asked(r, bin_dir, s.kubeconfig)
        by_hand(r, k)
        limited(r, k)
    finally:
        s.clean()
    return r.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
