"""Proves firstAvailable and adminAccess on the standalone controller, with a real kubectl.  alternatives_test.py BIN_DIR"""
import os
import sys

from standalone import ROOT, Kubectl, Report, Standalone, until

NODES = """
nodes:
- name: big
  gpus: [{model: H100, count: 2, memory: 80Gi}]
- name: small
  gpus: [{model: T4, count: 1, memory: 16Gi}]
"""
CLASSES = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: gpushare-egpuclass}
provisioner: gpushare.provisioner.elasticgpu.io
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: late}
provisioner: gpushare.provisioner.elasticgpu.io
egpuBindingMode: WaitForFirstConsumer
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUQuota
metadata: {name: team, namespace: default}
spec: {hard: {gpu: 9, claims: 3}}
"""
ALTERNATIVES = "[{name: two-h100, models: [H100], resources: {requests: {elasticgpu.io/gpu: 2}}}, {name: card, resources: {requests: {elasticgpu.io/gpu: 1}}}]"


def claim(name, spec, cls="gpushare-egpuclass", namespace="default"):
    return (f"apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClaim\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
            f"spec: {{egpuClassName: {cls}, {spec}}}\n---\n")


def pod(name, of):
    return (f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{egpuc.elasticgpu.io/gpu: {of}}}}}\n"
            "spec: {containers: [{name: main, image: none}]}\n---\n")


def status(k, name, namespace="default"):
    return k.json("get", "egpuc", name, "-n", namespace).get("status", {})


def bound(k, name, namespace="default"):
    return until(lambda: status(k, name, namespace).get("phase") == "Bound", 20)


def condition(k, name, kind, namespace="default"):
    return next((c for c in status(k, name, namespace).get("conditions", []) if c["type"] == kind), {})


def runs(k, name):
    return until(lambda: k.json("get", "pod", name).get("status", {}).get("phase") == "Running", 20)


def alternatives(r, k):
    k.ok("apply", "-f", "-", stdin=claim("first", f"firstAvailable: {ALTERNATIVES}"))
    r.check("the first alternative is given", bound(k, "first") and status(k, "first").get("alternative") == "two-h100", status(k, "first"))
    k.ok("apply", "-f", "-", stdin=claim("second", f"firstAvailable: {ALTERNATIVES}", "late") + pod("p", "second"))
    r.check("a first consumer's claim gets the second one, and its pod runs", runs(k, "p"), status(k, "second"))
    r.check("which its status and its device say", status(k, "second").get("alternative") == "card"
            and k.json("get", "egpu", status(k, "second")["elasticGPUName"])["spec"]["alternative"] == "card", status(k, "second"))
    k.ok("apply", "-f", "-", stdin=claim("third", f"firstAvailable: {ALTERNATIVES}"))
    message = until(lambda: condition(k, "third", "Bound").get("message"), 20) or ""
    r.check("who waits says why of each", message.startswith("two-h100: ") and "; card: " in message, message)
    explained = k.run("explain", "egpuc.spec.firstAvailable")
    r.check("kubectl explain knows it", b"models" in explained.stdout, explained.stderr.decode())
    refused = k.run("apply", "-f", "-", stdin=claim("both", f"resources: {{requests: {{elasticgpu.io/gpu: 1}}}}, firstAvailable: {ALTERNATIVES}"))
    r.check("both forms at once are refused", refused.returncode != 0 and b"either" in refused.stderr, refused.stderr.decode())
    k.ok("delete", "egpuc", "first")
    r.check("it is bound when something comes free", bound(k, "third"), status(k, "third"))


def observers(r, k, s):
    k.ok("apply", "-f", os.path.join(ROOT, "manifests/samples/observer.yaml"))
    message = until(lambda: condition(k, "watch", "Accepted").get("message"), 20) or ""
    r.check("without the label an observer is refused", "resource.kubernetes.io/admin-access" in message, message)
    k.ok("label", "namespace", "default", "resource.kubernetes.io/admin-access=true")
    r.check("with it its pod runs", bound(k, "watch") and runs(k, "monitor"), status(k, "watch"))
    device = status(k, "watch")["elasticGPUName"]
    uid = k.json("get", "egpu", device)["metadata"]["uid"]
    cards = [c for c in k.json("get", "egpu")["items"] if uid in (c["spec"].get("allocations") or {})]
    r.check("its entry in the ledger is of nothing", len(cards) == 1 and cards[0]["spec"]["allocations"][uid]["core"] == 0
            and cards[0]["spec"]["allocations"][uid]["memory"] == 0, cards)
    given = k.json("get", "pod", "monitor")["metadata"]["annotations"].get("prepared.elasticgpu.io/main", "")
    r.check("its container is given the card without a limit", "ELASTICGPU_CARDS=" in given and "MEMORY_LIMIT" not in given, given)
    rows = [c for n in s.map()["nodes"] for card in n["cards"] for c in card["claims"] if c["claim"] == "default/watch"]
    r.check("the map shows it apart", len(rows) == 1 and rows[0].get("adminAccess") is True, rows)
    used = k.json("get", "egpuquota", "team").get("status", {}).get("used", {})
    r.check("no quota counts it", used.get("claims") in ("2", 2), used)
    k.ok("label", "namespace", "default", "resource.kubernetes.io/admin-access-")
    k.ok("delete", "pod", "monitor")
    k.ok("delete", "egpuc", "watch", "--timeout=60s")
    r.check("deleting frees it", until(lambda: k.run("get", "egpu", device).returncode != 0, 20))
    left = [c["metadata"]["name"] for c in k.json("get", "egpu")["items"] if uid in (c["spec"].get("allocations") or {})]
    r.check("and its entry", not left, left)


def main():
    r = Report()
    s = Standalone(sys.argv[1], NODES)
    try:
        k = Kubectl("kubectl", s.kubeconfig, s.work)
        k.ok("apply", "-f", "-", stdin=CLASSES)
        alternatives(r, k)
        observers(r, k, s)
        r.check("it stops cleanly", s.stop() == 0)
        if r.failed:
            s.dump_log()
    finally:
        s.clean()
    return r.close()


if __name__ == "__main__":
    sys.exit(main())
