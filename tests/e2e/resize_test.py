"""Proves resize with the real kubectl on the standalone controller: grown, shrunk, refused, too large, over quota, dry run.  resize_test.py BIN_DIR"""
import json
import sys

from standalone import Kubectl, Report, Standalone, until

NODES = """
nodes:
- name: n1
  gpus: [{model: T4, count: 1, memory: 16Gi}]
- name: n2
  gpus: [{model: T4, count: 1, memory: 16Gi}]
"""
OBJECTS = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: flex}
provisioner: mock.provisioner.elasticgpu.io
parameters: {resizable: "true"}
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: fixed}
provisioner: gpushare.provisioner.elasticgpu.io
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: refuses}
provisioner: mock.provisioner.elasticgpu.io
parameters: {resizable: "true", at: resize, outcome: invalid, times: "1"}
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: whole}
provisioner: physical.provisioner.elasticgpu.io
parameters: {resizable: "true"}
"""
CLAIM = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: %s}
spec: {egpuClassName: %s, resources: {requests: {elasticgpu.io/gpu-core: %d, elasticgpu.io/gpu-memory: %s}}}
"""
WHOLE = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: w}
spec: {egpuClassName: whole, resources: {requests: {elasticgpu.io/gpu: 1}}}
"""
QUOTA = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUQuota
metadata: {name: team}
spec: {hard: {gpu-core: 95}}
"""


class Resizes:
    def __init__(self, k, s):
        self.k, self.s = k, s

    def claim(self, name):
        return self.k.json("get", "egpuc", name)

    def core(self, name):
        return self.claim(name).get("status", {}).get("capacity", {}).get("core")

    def resized(self, name):
        return next((c for c in self.claim(name)["status"].get("conditions", []) if c["type"] == "Resized"), {})

    def create(self, name, cls, core, memory="1Gi"):
        self.k.ok("apply", "-f", "-", stdin=CLAIM % (name, cls, core, memory))
        return until(lambda: self.claim(name).get("status", {}).get("phase") == "Bound", 20)

    def ask(self, name, core, *args):
        body = json.dumps({"spec": {"resources": {"requests": {"elasticgpu.io/gpu-core": core}}}})
        return self.k.run("patch", "egpuc", name, "--type", "merge", "-p", body, *args)

    def entry(self, name):
        """Returns the core that the ledgers charge to the claim, over all cards."""
        return sum(e["core"] for g in self.k.json("get", "egpu")["items"] for e in (g["spec"].get("allocations") or {}).values()
                   if e["claim"] == "default/" + name)

    def simulated(self, name, core):
        return json.loads(self.s.http(f"/simulate?resize={name},gpu-core={core}"))["steps"][0]["resized"]


def grows_and_shrinks(r, x):
    r.check("a is bound", x.create("a", "flex", 30))
    r.check("its requests in force stand in its status", x.claim("a")["status"].get("requests", {}).get("elasticgpu.io/gpu-core") == "30",
            x.claim("a")["status"])
    before = x.claim("a")["metadata"]["resourceVersion"]
    tried = x.ask("a", 50, "--dry-run=server", "-o", "json")
    r.check("a dry run is accepted", tried.returncode == 0, tried.stderr)
    r.check("and disturbs nothing", x.claim("a")["metadata"]["resourceVersion"] == before and x.entry("a") == 300)
    r.check("simulate reports that it fits", x.simulated("a", 50)["inPlace"] is True, x.simulated("a", 50))
    r.check("it is asked to grow", x.ask("a", 50).returncode == 0)
    r.check("it grows", until(lambda: x.core("a") == "50%" and x.entry("a") == 500, 20), x.claim("a")["status"])
    r.check("kubectl waits for it", x.k.run("wait", "egpuc", "a", "--for=condition=Resized", "--timeout=20s").returncode == 0)
    r.check("it is asked to shrink", x.ask("a", 20).returncode == 0)
    r.check("it shrinks", until(lambda: x.core("a") == "20%" and x.entry("a") == 200, 20), x.claim("a")["status"])
    row = x.k.ok("get", "egpuc", "a", "--no-headers")
    r.check("its row shows what is in force", "20%" in row, row)


def refused(r, x):
    r.check("b is bound", x.create("b", "fixed", 10))
    no = x.ask("b", 20)
    r.check("its class does not allow it: refused at once, with words", no.returncode != 0 and b"its class is resizable" in no.stderr, no.stderr)
    r.check("simulate reports it, too", "does not set resizable" in x.simulated("b", 20).get("refused", ""), x.simulated("b", 20))
    r.check("c is bound", x.create("c", "refuses", 10))
    x.ask("c", 20)
    r.check("its plugin refuses: said, and it has what it had",
            until(lambda: x.resized("c").get("reason") == "ResizeFailed" and x.entry("c") == 100, 20), x.resized("c"))
    x.ask("c", 10)
    r.check("taken back it is quiet", until(lambda: x.resized("c").get("status") == "True", 20), x.resized("c"))
    x.k.ok("apply", "-f", "-", stdin=WHOLE)
    r.check("w is bound", until(lambda: x.claim("w").get("status", {}).get("phase") == "Bound", 20))
    r.check("simulate knows that its plugin can't", "can't resize devices" in x.simulated("w", 50).get("refused", ""), x.simulated("w", 50))
    x.ask("w", 50)
    r.check("a plugin that can't resize is not asked", until(lambda: x.resized("w").get("reason") == "NotResizable", 20), x.resized("w"))
    for name in "bcw":
        x.k.ok("delete", "egpuc", name)


def too_large(r, x):
    card = next(iter(x.k.json("get", "egpu", x.claim("a")["status"]["elasticGPUName"])["spec"]["cards"]))["name"]
    node = x.claim("a")["status"]["nodeName"]
    r.check("d is bound", x.create("d", "fixed", 60))
    r.check("beside a", x.claim("d")["status"]["nodeName"] == node)
    answer = x.simulated("a", 70)
    x.ask("a", 70)
    r.check("a is too large for its card", until(lambda: x.resized("a").get("reason") == "ResizeInfeasible", 20), x.resized("a"))
    message = x.resized("a").get("message", "")
    r.check("simulate gave the same reason", answer["inPlace"] is False and answer["why"] and message.startswith(answer["why"]), (answer, message))
    r.check("it reports what its card can provide", f"card {card} can provide core 40%" in message, message)
    other = "n2" if node == "n1" else "n1"
    r.check("and where another would fit", f"fit on node {other}" in message and answer["elsewhere"]["node"] == other, (message, answer))
    row = x.k.ok("get", "egpuc", "a", "--no-headers")
    r.check("its row says why", "ResizeInfeasible" in row, row)
    r.check("its amounts stay", x.entry("a") == 200)
    x.k.ok("delete", "egpuc", "d")
    r.check("it grows once there is room", until(lambda: x.core("a") == "70%" and x.entry("a") == 700, 20), x.claim("a")["status"])


def over_quota(r, x):
    x.k.ok("apply", "-f", "-", stdin=QUOTA)
    r.check("e is bound", x.create("e", "flex", 20))
    answer = x.simulated("a", 80)
    r.check("simulate holds it to the quota", answer["inPlace"] is False and "quota team allows" in answer["why"], answer)
    x.ask("a", 80)
    r.check("over quota", until(lambda: x.resized("a").get("reason") == "ScalingQuotaExceeded", 20), x.resized("a"))
    r.check("with the same message", x.resized("a").get("message", "").startswith(answer["why"]), x.resized("a"))
    x.ask("e", 10)
    r.check("it grows once another shrinks", until(lambda: x.core("a") == "80%" and x.core("e") == "10%", 20), x.claim("a")["status"])
    used = lambda: x.k.json("get", "egpuquota", "team").get("status", {}).get("used", {}).get("gpu-core")
    r.check("the quota counts what is in force", until(lambda: str(used()) == "90", 20), used())


def ends(r, x):
    uids = sum(len(c["claims"]) for n in x.s.map()["nodes"] for c in n["cards"])
    r.check("the map has both", uids == 2, x.s.map())
    events = x.k.ok("get", "events", "-o", "jsonpath={range .items[*]}{.involvedObject.name} {.reason}{\"\\n\"}{end}")
    for line in ("a Resized", "a ResizeInfeasible", "a ScalingQuotaExceeded", "c ResizeFailed"):
        r.check(f"event: {line}", line in events, events)
    x.k.ok("delete", "egpuc", "--all")
    r.check("all is given back", until(lambda: all(not g["spec"].get("allocations") for g in x.k.json("get", "egpu")["items"]), 20))
    drift = [line for line in x.s.http("/metrics").splitlines() if line.startswith("elasticgpu_ledger_drift_total{")]
    r.check("no drift was found", not drift, drift)


def main():
    report = Report()
    server = Standalone(sys.argv[1], NODES)
    try:
        kubectl = Kubectl("kubectl", server.kubeconfig, server.work)
        kubectl.ok("apply", "-f", "-", stdin=OBJECTS)
        x = Resizes(kubectl, server)
        for part in (grows_and_shrinks, refused, too_large, over_quota, ends):
            part(report, x)
    finally:
        if report.failed:
            server.dump_log()
        server.clean()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
