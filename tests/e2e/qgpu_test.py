"""Proves shares of qGPU with the real kubectl on the standalone controller: steps, device files, 16 shares per card, devices by hand.  qgpu_test.py BIN_DIR"""
import json
import shutil
import sys

from standalone import Kubectl, Report, Standalone, until

NODES = """
nodes:
- name: n1
  gpus: [{model: A100, count: 1, memory: 80Gi}]
"""
CLASS = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: qgpu}
provisioner: qgpu.provisioner.elasticgpu.io
parameters: {isolation: qgpu, paths: "/dev/qgpu/{device}", hostPaths: "/dev/qgpu/*"}
"""
CLAIM = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: %s}
spec: {egpuClassName: qgpu, resources: {requests: {elasticgpu.io/gpu-core: %s, elasticgpu.io/gpu-memory: %s}}}
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {egpuc.elasticgpu.io/gpu: one}}
spec: {containers: [{name: main, image: busybox}]}
"""
BY_HAND = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPU
metadata: {name: by-hand}
spec:
  qGPU: {gpuName: %s, deviceName: qgpu0, paths: [/dev/qgpu/qgpu0]}
  parameters: {isolation: qgpu, hostPaths: "/dev/qgpu/*"}
"""


def condition(k, name, kind):
    found = [c for c in k.json("get", "egpuc", name)["status"].get("conditions", []) if c["type"] == kind]
    return found[0] if found else {}


def steps(r, k):
    k.ok("apply", "-f", "-", stdin=CLASS + "---" + CLAIM % ("one", 25, "4Gi") + CLAIM % ("between", 12, "4Gi") + CLAIM % ("half", 10, "1536Mi"))
    bound = until(lambda: k.json("get", "egpuc", "one")["status"]["phase"] == "Bound")
    r.check("a claim in steps is Bound", bound, k.json("get", "egpuc", "one")["status"])
    for name, nearest in (("between", "nearest: 10 or 15"), ("half", "nearest: 1Gi or 2Gi")):
        refused = until(lambda name=name: condition(k, name, "Accepted").get("status") == "False")
        r.check(f"{name}: refused with the nearest", refused and nearest in condition(k, name, "Accepted")["message"], condition(k, name, "Accepted"))
    device = k.json("get", "egpu", k.json("get", "egpuc", "one")["spec"]["elasticGPUName"])
    name = "qgpu-" + device["metadata"]["uid"]
    r.check("the device has its name and files", device["spec"]["qGPU"].get("deviceName") == name and device["spec"]["qGPU"].get("paths") == ["/dev/qgpu/" + name], device["spec"])
    k.ok("apply", "-f", "-", stdin=POD)
    annotations = until(lambda: k.json("get", "pod", "p")["metadata"]["annotations"]["prepared.elasticgpu.io/main"])
    r.check("they reach the container", "/dev/qgpu/" + name in annotations and "ELASTICGPU_QGPU_DEVICE=" + name in annotations, annotations)
    return device["spec"]["cards"][0]["name"]


def crowd(r, k):
    k.ok("apply", "-f", "-", stdin="".join(CLAIM % (f"many-{i}", 5, 1) for i in range(16)))

    def phases():
        return [c.get("status", {}).get("phase") for c in k.json("get", "egpuc")["items"] if c["metadata"]["name"].startswith("many-")]
    full = until(lambda: phases().count("Bound") == 15 and phases().count("Pending") == 1)
    r.check("a card has at most 16 shares", full, phases())


def by_hand(r, k, card):
    uuid = k.json("get", "egpu", card)["spec"]["card"]["uuid"]
    missing = k.run("apply", "-f", "-", stdin=BY_HAND % card)
    line = "cards: [{name: %s, core: MILLI-CARDS, memory: BYTES}]" % card
    r.check("a device without amounts is refused with the line", missing.returncode != 0 and line in missing.stderr.decode(), missing.stderr)
    added = BY_HAND % card + "  cards: [%s]\n  nodeName: n1\n" % json.dumps({"name": card, "uuid": uuid, "core": 0, "memory": 1073741824, "chargedMemory": 1073741824})
    k.ok("apply", "-f", "-", stdin=added)
    available = until(lambda: k.json("get", "egpu", "by-hand")["status"]["phase"] == "Available")
    r.check("with the line it becomes Available", available, k.json("get", "egpu", "by-hand"))


def main(bin_dir):
    r = Report()
    s = Standalone(bin_dir, NODES)
    try:
        k = Kubectl(shutil.which("kubectl"), s.kubeconfig, s.work)
        card = steps(r, k)
        crowd(r, k)
        by_hand(r, k, card)
    finally:
        s.clean()
    return r.close()


sys.exit(main(sys.argv[1]))
