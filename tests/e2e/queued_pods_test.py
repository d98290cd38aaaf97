"""Proves that queued pods (with a queue's scheduling gate) and pods of schedulers that are not served take no cards, and get their cards once they are
admitted. On the standalone controller with a real kubectl.  queued_pods_test.py BIN_DIR"""
import json
import os
import sys

from standalone import Kubectl, Report, Standalone, until

NODES = """
nodes:
- {name: a, cpu: "64", memory: 512Gi, gpus: [{model: A100, count: 8, memory: 40Gi}]}
- {name: b, cpu: "64", memory: 512Gi, labels: {pool: batch}, gpus: [{model: A100, count: 8, memory: 40Gi}]}
"""
QUEUE = "kueue.x-k8s.io/admission"


def gpu_class(mode):
    return (f"apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClass\nmetadata: {{name: {mode.lower()}}}\n"
            f"provisioner: gpushare.provisioner.elasticgpu.io\negpuBindingMode: {mode}\n---\n")


def pod(name, mode, cards, gates="", scheduler="default-scheduler"):
    return (f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{egpu.elasticgpu.io/class: {mode.lower()}, "
            f"egpu.elasticgpu.io/gpu: \"{cards}\"}}}}\nspec:\n  schedulerName: {scheduler}\n  schedulingGates: [{gates}]\n"
            "  containers: [{name: m, image: x}]\n---\n")


def claim_of(k, name):
    """Returns the ElasticGPUClaim created for the pod, or {}."""
    made = k.json("get", "pod", name).get("status", {}).get("resourceClaimStatuses") or [{}]
    found = k.run("get", "egpuc", made[0].get("resourceClaimName", "none"), "-o", "json")
    return json.loads(found.stdout) if found.returncode == 0 else {}


def reason_of(k, name):
    conditions = claim_of(k, name).get("status", {}).get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == "Bound"), "")


def runs(k, name):
    return until(lambda: k.json("get", "pod", name).get("status", {}).get("phase") == "Running", 60)


def devices(k):
    return [each for each in k.json("get", "egpu")["items"] if "claimRef" in each["spec"]]


def admit(k, name):
    gates = k.json("get", "pod", name)["spec"]["schedulingGates"]
    rest = [gate for gate in gates if gate["name"] != QUEUE]
    k.ok("patch", "pod", name, "--type=merge", "-p",
         json.dumps({"spec": {"schedulingGates": rest, "nodeSelector": {"pool": "batch"}}}))
    return len(rest) == len(gates) - 1 == 1


def queued(r, k, mode):
    name = f"queued-{mode.lower()}"
    k.ok("apply", "-f", "-", stdin=pod(name, mode, 8, f"{{name: {QUEUE}}}"))
    r.check(f"{mode}: the claim of a queued pod waits for the gate", until(lambda: reason_of(k, name) == "WaitingForGates", 60), claim_of(k, name))
    r.check(f"{mode}: it holds no card", not devices(k), devices(k))
    for each in ("x", "y"):
        k.ok("apply", "-f", "-", stdin=pod(f"{each}-{mode.lower()}", mode, 8))
    r.check(f"{mode}: others take all cards beside it", runs(k, f"x-{mode.lower()}") and runs(k, f"y-{mode.lower()}"))
    r.check(f"{mode}: the queue removes its gate, ours stays", admit(k, name))
    k.ok("delete", "pod", f"x-{mode.lower()}", f"y-{mode.lower()}")
    r.check(f"{mode}: the admitted pod runs", runs(k, name), claim_of(k, name))
    node = k.json("get", "pod", name)["spec"].get("nodeName")
    r.check(f"{mode}: on the node that its queue selects", node == "b", node)
    k.ok("delete", "pod", name)
    until(lambda: not devices(k), 60)


def unserved(r, k):
    k.ok("apply", "-f", "-", stdin=pod("kai", "Immediate", 1, scheduler="kai-scheduler") + pod("batch", "Immediate", 1, scheduler="batch"))
    r.check("a pod of a scheduler that is not served reports it", until(lambda: reason_of(k, "kai") == "SchedulerNotServed", 60), claim_of(k, "kai"))
    r.check("one of --schedulers gets its cards", until(lambda: len(devices(k)) == 1, 60) and reason_of(k, "batch") != "SchedulerNotServed",
            claim_of(k, "batch"))
    r.check("the other one has none", not claim_of(k, "kai").get("status", {}).get("elasticGPUName"), claim_of(k, "kai"))


def main():
    r = Report()
    s = Standalone(sys.argv[1], NODES, extra=["--schedulers", "default-scheduler,batch"])
    try:
        k = Kubectl("kubectl", s.kubeconfig, s.work)
        k.ok("apply", "-f", "-", stdin=gpu_class("WaitForFirstConsumer") + gpu_class("Immediate"))
        for mode in ("WaitForFirstConsumer", "Immediate"):
            queued(r, k, mode)
        unserved(r, k)
        r.check("the controller ends well", s.stop() == 0)
    finally:
        s.clean()
    return r.close()


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    sys.exit(main())
