"""Runs `kubectl egpu` with the real kubectl on the embedded API server, as a user and as a tenant would.

  plugin_test.py BIN_DIR"""
import csv
import datetime
import glob
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "e2e"))
from front import ROOT, Front, manifests  # noqa: E402
from standalone import Kubectl, Report, Standalone, until  # noqa: E402

NODES = """
nodes:
- name: n
  count: 2
  gpus: [{model: T4, count: 2, memory: 16Gi}]
"""
CLASSES = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: share, annotations: {elasticgpu.io/is-default-class: "true"}}
provisioner: gpushare.provisioner.elasticgpu.io
parameters: {resizable: "true"}
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: moves}
provisioner: gpushare.provisioner.elasticgpu.io
parameters: {movable: "true"}
"""


def claim(name, core, cls="share", space="default"):
    return f"""---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {{name: {name}, namespace: {space}}}
spec: {{egpuClassName: {cls}, resources: {{requests: {{elasticgpu.io/gpu-core: {core}}}}}}}
"""


def pod(name, claim_name, space="default", extra=""):
    return f"""---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {space}, annotations: {{egpuc.elasticgpu.io/g: {claim_name}}}}}
spec:
  {extra}
  containers: [{{name: m, image: x, env: [{{name: API_TOKEN, value: planted-env-secret}}], args: [--password=planted-arg-secret]}}]
"""


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {egpu.elasticgpu.io/gpu-core: "60"}}
    spec: {containers: [{name: m, image: x}]}
"""


with open(os.path.join(ROOT, "manifests", "samples", "workloads", "classes.yaml"), encoding="utf-8") as classes:
    WORKLOAD_CLASSES = classes.read()


REMOTE_DEVICE = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPU
metadata: {name: lab, labels: {elasticgpu.io/role: device}}
spec: {remote: {endpoint: 10.0.0.9:7000}, provisioner: remote.provisioner.elasticgpu.io, egpuClassName: pool, reclaimPolicy: Retain}
---
"""


class Egpu:
    """Runs `kubectl egpu` with the plugin in kubectl's PATH."""

    def __init__(self, r, kubectl, bin_dir):
        self.r, self.kubectl = r, kubectl
        kubectl.env["PATH"] = os.path.realpath(bin_dir) + os.pathsep + kubectl.env["PATH"]

    def run(self, *args, stdin=None, env=None):
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return subprocess.run([self.kubectl.binary, "egpu", *args], input=data, env={**self.kubectl.env, **(env or {})}, capture_output=True, timeout=60, check=False)

    def ok(self, *args, stdin=None, status=0, env=None):
        done = self.run(*args, stdin=stdin, env=env)
        self.r.check("egpu " + " ".join(a.replace("\n", " ") for a in args)[:100], done.returncode == status, done)
        return done.stdout.decode()

    def json(self, *args, stdin=None, status=0):
        return json.loads(self.ok(*args, "-o", "json", stdin=stdin, status=status))

    def refused(self, name, args, expected, status=1, stdin=None):
        done = self.run(*args, stdin=stdin)
        err = done.stderr.decode()
        self.r.check(name, done.returncode == status and all(e in err for e in expected), (done.returncode, err[-800:]))


def columns(text):
    """Checks the layout of kubectl's tables: returns the cells of each line, split at the columns of the header."""
    lines = text.rstrip("\n").split("\n")
    starts = [m.start() for m in re.finditer(r"(?:^|(?<=   ))\S", lines[0])]
    return [[line[a:b].rstrip() for a, b in zip(starts, starts[1:] + [None])] for line in lines]


def why(r, e, kubectl):
    text = e.ok("why", "user")
    rows = columns(text.split("\n\n")[0])
    r.check("the chain of a running pod is done", [x[0] for x in rows] == ["STEP", "pod", "claim", "decision", "ledger", "ResourceClaim", "node", "device"]
            and all(x[1] == "Done" for x in rows[1:]) and "Nothing holds it up." in text, text)
    chain = e.json("why", "pod/user")["chains"][0]
    r.check("and has no stop", "stopsAt" not in chain and chain["claim"] == "default/small", chain)
    named = kubectl.ok("get", "egpuc", "small", "-o", "name").strip()
    for words in (["pod", "user"], ["egpuc/small"], ["elasticgpuclaims", "small"], [named]):
        r.check("the kind in each of kubectl's forms: " + " ".join(words), "default/small" in e.ok("why", *words))
    r.check("a name of kubectl get -o name", "default/small" in e.ok("try", named) and e.ok("top", named).count("small") == 1)
    r.check("a claim leads to its pod", e.json("why", "small")["chains"][0]["steps"][0]["object"] == "default/user")
    chain = e.json("why", "claim/large")["chains"][0]
    r.check("a claim that fits nowhere stands at the decision", chain["stopsAt"] == "decision" and chain["steps"][2]["reason"] == "NoFit" and chain["steps"][2]["since"], chain)
    r.check("with what would help", any("kubectl egpu try -n default large" in h for h in chain["help"]), chain)
    text = e.ok("why", "waits")
    r.check("a gated pod stands where its claim stands", "Stands at: decision" in text and "What would help" in text and "NoFit" in text, text)
    r.check("an unknown class is named", e.json("why", "classless")["chains"][0]["stopsAt"] == "claim", e.json("why", "classless"))
    gone = e.json("why", "lonely")["chains"][0]
    r.check("a pod without its claim", gone["stopsAt"] == "claim" and gone["steps"][1]["reason"] == "ClaimNotFound", gone)
    r.check("a pod without GPUs", "it uses no ElasticGPUClaim" in e.ok("why", "plain"))
    r.check("YAML", yaml.safe_load(e.ok("why", "small", "-o", "yaml"))["name"] == "small")
    r.check("no headers", e.ok("why", "small", "--no-headers").splitlines()[0].startswith("pod"))
    e.refused("neither pod nor claim", ["why", "nothing"], ['no pod and no ElasticGPUClaim "nothing" in namespace "default"', "-n NAMESPACE"])
    e.refused("another kind", ["why", "service/x"], ["pod/NAME, claim/NAME"], 2)
    e.refused("no subject", ["why"], ["POD|CLAIM"], 2)
    r.check("another namespace", e.json("why", "theirs", "-n", "team-b")["namespace"] == "team-b")


def tables(r, e, kubectl):
    rows = columns(e.ok("map"))
    r.check("map: a row per card, in kubectl's layout", rows[0] == ["NODE", "CARD", "MODEL", "CORE", "MEMORY", "CLAIMS", "STATE"] and len(rows) == 5
            and {x[0] for x in rows[1:]} == {"n-0", "n-1"}, rows)
    r.check("map names claims with their amounts", any("default/small=30%" in x[5] for x in rows), rows)
    r.check("map -o wide has pods and names", "default/user" in e.ok("map", "-o", "wide") and "NAME" in e.ok("map", "-o", "wide").splitlines()[0])
    r.check("map --no-headers", len(e.ok("map", "--no-headers").splitlines()) == 4)
    r.check("map --node", {n["name"] for n in e.json("map", "--node", "n-1")["nodes"]} == {"n-1"})
    r.check("map -o bars", e.ok("map", "-o", "bars").startswith("n-0"))
    e.refused("map of an unknown node", ["map", "--node", "m"], ['no node "m"'])
    rows = columns(e.ok("top"))
    r.check("top shows grants", rows[0][:3] == ["NAME", "CORE", "CORE USED"] and ["small", "30%"] in [x[:2] for x in rows], rows)
    r.check("top -A has the namespace", "team-b" in [x[0] for x in columns(e.ok("top", "-A"))[1:]])
    r.check("top of one claim", [c["name"] for c in e.json("top", "small")["claims"]] == ["small"])
    r.check("top without claims reports it", "No bound claims found in namespace none." in e.run("top", "-n", "none").stderr.decode())
    rows = columns(e.ok("fit"))
    r.check("fit: a row per class", rows[0] == ["CLASS", "FIT", "SIZE", "BY MODEL"] and [x[0] for x in rows[1:]] == ["moves", "share"], rows)
    free = sum(not c["claims"] for n in e.json("map")["nodes"] for c in n["cards"])
    whole = e.json("fit", "share", "--gpu", "1")["forecasts"]
    r.check("fit of a size", [f["count"] for f in whole] == [free], (whole, free))
    e.refused("fit of an unknown class", ["fit", "none"], ["there are"])
    r.check("colour on demand only", "\033[" not in e.ok("check") and "\033[" in e.ok("why", "small", "--color", "always"))
    r.check("NO_COLOR", "\033[" not in on_terminal(e, {"NO_COLOR": "1", "TERM": "xterm"}) and "\033[" in on_terminal(e, {"TERM": "xterm"}))
    e.refused("an output that isn't there", ["map", "-o", "xml"], ["--output"], 2)
    e.refused("an unknown verb", ["mop"], ['unknown verb "mop"', "drain-card"], 2)
    e.refused("an unknown flag", ["map", "--colour"], ["--colour"], 2)
    e.refused("no cluster", ["map", "--server", "http://127.0.0.1:1"], ["127.0.0.1:1"])
    e.refused("an unknown context", ["map", "--context", "nope"], ["nope"])
    helped = e.ok("--help")
    r.check("help lists verbs and exit statuses", all(v in helped for v in ("map", "why", "top", "fit", "try", "drain-card", "check", "bundle", "bill", "Exit status: 0")), helped)
    r.check("without a verb it prints the same", e.ok() == helped)


def on_terminal(e, env):
    """Returns the output of `why` on a terminal."""
    ours, theirs = os.openpty()
    inherited = {k: v for k, v in e.kubectl.env.items() if k not in ("NO_COLOR", "TERM")}
    done = subprocess.Popen([e.kubectl.binary, "egpu", "why", "small"], stdout=theirs, stderr=theirs, env={**inherited, **env})
    os.close(theirs)
    out = b""
    try:
        while piece := os.read(ours, 65536):
            out += piece
    except OSError:  # the terminal is closed
        pass
    os.close(ours)
    done.wait(timeout=60)
    return out.decode("utf-8", "replace")


def refused_resize(e, kubectl):
    objects = len(kubectl.json("get", "egpu")["items"])
    kubectl.ok("apply", "-f", "-", stdin=claim("fixed", 10, "moves"))
    until(lambda: kubectl.json("get", "egpuc", "fixed").get("status", {}).get("phase") == "Bound")
    e.ok("try", "--resize", "fixed,gpu-core=20", status=3)
    kubectl.ok("delete", "egpuc", "fixed")
    until(lambda: len(kubectl.json("get", "egpu")["items"]) == objects)


def attempts(r, e, kubectl):
    refused_resize(e, kubectl)
    before = kubectl.json("get", "egpu,egpuc")["items"]
    e.ok("try", "large", status=3)
    r.check("try of amounts", "would go to node" in e.ok("try", "--gpu-core", "50"))
    r.check("try --explain", "STAGE" in e.ok("try", "large", "--explain", status=3))
    steps = e.json("try", "--drain", "n-0", "--add", "new,model=T4,cards=5,memory=16Gi")["steps"]
    r.check("steps keep their order", [x["step"] for x in steps] == ["drain n-0", "add node new with 5 cards"], steps)
    nodes = [n["name"] for n in e.json("map")["nodes"]]
    everywhere = [a for name in nodes for a in ("--drain", name)]
    drained = e.json("try", *everywhere, status=3)["steps"]
    r.check("a drain that leaves claims without a place", any(not m["to"]["fits"] for s in drained for m in s["moved"]), drained)
    e.ok("try", *everywhere, "--add", "new,model=T4,cards=7,memory=16Gi")
    e.ok("try", "small", "--resize", "small,gpu-core=40")
    e.ok("try", "small", "--resize", "small,gpu-core=5000", status=3)
    e.ok("try", "--resize", "small,gpu-core=5000", "--drain", "n-0", status=3)
    e.ok("try", "--resize", "large,gpu-core=10")
    e.ok("try", "--resize", "large,gpu-core=600", status=3)
    r.check("a claim of a file", "claim default/tried" in e.ok("try", "-f", "-", stdin=claim("tried", 20)))
    r.check("a pod with its claim", "pod default/p" in e.ok("try", "-f", "-", stdin=claim("tried", 20) + pod("p", "tried")))
    fitting = e.json("try", "-f", "-", stdin=DEPLOYMENT.replace("REPLICAS", "2"))
    r.check("a Deployment that fits", fitting["fits"] and [p["name"] for p in fitting["places"]] == ["default/web-0", "default/web-1"]
            and all(len(p["cards"]) == 1 for p in fitting["places"]), fitting)
    r.check("its pods get different cards", len({p["cards"][0] for p in fitting["places"]}) == 2, fitting)
    beyond = e.json("try", "-f", "-", stdin=DEPLOYMENT.replace("REPLICAS", "9"), status=3)
    r.check("a Deployment that does not fit as a whole", not beyond["fits"] and 0 < beyond["count"] < 9 and any(p["message"] for p in beyond["places"] if not p["fits"]), beyond)
    two = columns(e.ok("try", "-f", "-", stdin=claim("a", 20) + claim("b", 20)).split("\n\n")[0])
    r.check("several claims are placed together", [x[1] for x in two[1:]] == ["default/a", "default/b"] and all(x[2] == "yes" for x in two[1:]), two)
    for sample, count in (("jobset", 4), ("leaderworkerset", 2), ("kubeflow-training", 4), ("ray", 3)):
        with open(os.path.join(ROOT, "manifests/samples/workloads", sample + ".yaml"), encoding="utf-8") as f:
            made = json.loads(e.run("try", "-f", "-", "-o", "json", stdin=WORKLOAD_CLASSES + "---\n" + f.read()).stdout)
        r.check(f"the pods of {sample}", len(made["places"]) == count and len({p["name"] for p in made["places"]}) == count, made)
    e.refused("nothing to place", ["try", "-f", "-"], ["kind: it has nothing to place", "Deployment", "PyTorchJob"],
              stdin="{apiVersion: v1, kind: Service, metadata: {name: s}}")
    e.refused("a role without a template", ["try", "-f", "-"], ["RayCluster r, group head: its pod template is missing"],
              stdin="{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {}}}")
    e.refused("too many replicas", ["try", "-f", "-"], ["Deployment web", "valid are 0 to 1000"], stdin=DEPLOYMENT.replace("REPLICAS", "5000"))
    e.refused("nothing to try", ["try"], ["-f FILE"], 2)
    e.refused("no such file", ["try", "-f", "/nope"], ["--filename", "/nope"], 2)
    e.refused("a misspelt field", ["try", "-f", "-"], ["standard input", "sepc"], stdin=claim("bad", 10).replace("spec:", "sepc:"))
    after = kubectl.json("get", "egpu,egpuc")["items"]
    r.check("nothing has changed", [(o["metadata"]["uid"], o.get("spec")) for o in before] == [(o["metadata"]["uid"], o.get("spec")) for o in after])


def remote(r, e, kubectl):
    kubectl.ok("apply", "-f", "-", stdin="apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClass\nmetadata: {name: pool}\n"
               "provisioner: remote.provisioner.elasticgpu.io\n")
    why = "class pool provides remote GPUs: no card and no node is chosen"
    tried = e.ok("try", "--class", "pool", "--gpu", "1", status=3)
    r.check("try of a class of remote GPUs names no card", why in tried and "would go" not in tried, tried)
    fit = e.run("fit")
    row = next(x for x in columns(fit.stdout.decode()) if x[0] == "pool")
    r.check("fit knows no number of remote GPUs", fit.returncode == 0 and row[1] == "<unknown>" and fit.stderr.decode().startswith("note: " + why), (row, fit))
    kubectl.ok("apply", "-f", "-", stdin=REMOTE_DEVICE + claim("leased", 0, "pool").replace("elasticgpu.io/gpu-core: 0", "elasticgpu.io/gpu: 1"))
    until(lambda: kubectl.json("get", "egpuc", "leased")["status"]["phase"] == "Bound")
    e.refused("a remote GPU keeps its size", ["try", "--resize", "leased,gpu=2"], ["default/leased has a remote GPU, which can't be resized"])
    kubectl.ok("delete", "egpuc", "leased")
    kubectl.ok("delete", "egpu", "lab")
    kubectl.ok("delete", "egpuclass", "pool")


def drain(r, e, kubectl):
    card = next(g["metadata"]["name"] for g in kubectl.json("get", "egpu", "-l", "elasticgpu.io/role=card")["items"]
                if any(a["claim"] == "default/small" for a in g["spec"].get("allocations", {}).values()))
    plan = e.json("drain-card", card)
    mine = next(c for c in plan["claims"] if c["claim"] == "default/small")
    r.check("a plan names claims, pods and obstacles", mine["pods"] == ["default/user"] and "movable" in mine["obstacle"] and mine["to"], plan)
    empty = next(c["name"] for n in e.json("map")["nodes"] for c in n["cards"] if not c["claims"])
    r.check("a plan for an empty card", "No claim has card" in e.ok("drain-card", empty))
    e.ok("drain-card", empty, "--execute")
    tainted = until(lambda: kubectl.json("get", "egpu", empty)["status"].get("phase") == "Tainted")
    r.check("--execute keeps claims off the card", tainted and "NotOffered" not in e.ok("map", "--no-headers"), kubectl.json("get", "egpu", empty))
    e.ok("drain-card", empty, "--undo")
    r.check("--undo offers it again", until(lambda: kubectl.json("get", "egpu", empty)["status"].get("phase") != "Tainted"))
    e.refused("an unknown card", ["drain-card", "none"], ['no card "none"'])
    e.refused("undo without a drain", ["drain-card", empty, "--undo"], [f'card "{empty}" is not out of use', "egpu-drain-"])
    named = kubectl.ok("get", "egpu", empty, "-o", "name").strip()
    r.check("a card as kubectl get -o name writes it", "No claim has card" in e.ok("drain-card", named), named)
    kubectl.ok("apply", "-f", "-", stdin=claim("mover", 20, "moves"))
    until(lambda: kubectl.json("get", "egpuc", "mover")["status"]["phase"] == "Bound")
    on = next(c["name"] for n in e.json("map")["nodes"] for c in n["cards"] if any(x["claim"] == "default/mover" for x in c["claims"]))
    done = e.run("drain-card", on, "--execute", "--timeout", "30s")
    left = [c for n in e.json("map")["nodes"] for c in n["cards"] if c["name"] == on][0]["claims"]
    r.check("a movable claim leaves its card", all(x["claim"] != "default/mover" for x in left) and done.returncode == (3 if left else 0), (done, left))
    e.ok("drain-card", on, "--undo")


def seconds(text):
    """Returns the milliseconds of "12.345", exactly."""
    whole, fraction = text.split(".")
    return int(whole) * 1000 + int(fraction)


def next_second():
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def bill(r, e, s, kubectl, folder):
    """Four pods of 25 % on one card cost as much as one card. The sum is exact, also after a kill of the controller."""
    begin = next_second()
    card = next(c["name"] for n in e.json("map")["nodes"] for c in n["cards"] if not c["claims"])
    names = [f"quarter-{i}" for i in range(4)]
    kubectl.ok("apply", "-f", "-", stdin="".join(claim(n, 25).replace("spec: {", f"spec: {{elasticGPUName: {card}, ") for n in names))
    kubectl.ok("create", "-f", "-", stdin="".join(pod("uses-" + n, n) for n in names))
    until(lambda: all(kubectl.json("get", "pod", "uses-" + n)["status"].get("phase") == "Running" for n in names))
    running = next_second()
    time.sleep(2)
    s.kill()
    s.start()
    until(lambda: kubectl.run("get", "nodes").returncode == 0)
    until(lambda: e.json("bill", folder)["gaps"] == 1, step=1)  # without a decision
    end = e.json("bill", folder)["to"]
    window = ["--from", begin, "--to", end]
    total = e.json("bill", folder, *window)
    rows = list(csv.DictReader(io.StringIO(e.ok("bill", folder, "-o", "csv", *window))))
    r.check("bill: the rows add up exactly", sum(seconds(x["card_seconds"]) for x in rows) == total["cardMilliseconds"] > 0, (rows, total))
    passed = datetime.datetime.fromisoformat(end.replace("Z", "+00:00")) - datetime.datetime.fromisoformat(begin.replace("Z", "+00:00"))
    r.check("to the time of four cards", total["cardMilliseconds"] == 4 * round(passed.total_seconds() * 1000), (total, passed))
    r.check("idle time and the time of the kill are rows", {"idle", "unknown", "claim"} <= {x["state"] for x in total["rows"]}, total)
    used = {x["pod"]: x["cardMilliseconds"] for x in total["rows"] if x.get("pod", "").startswith("uses-quarter-")}
    r.check("each pod has a row, with its claim and class", len(used) == 4 and all(
        x["class"] == "share" and x["namespace"] == "default" and x["claim"] == x["pod"][5:] for x in total["rows"] if x.get("pod", "") in used), total)
    # From the last pod's start on, the four pods have the whole card, across the kill.
    late = e.json("bill", folder, "--from", running, "--to", end, "--by", "pod,claim", "--price", "3600")
    mine = [x for x in late["rows"] if x.get("pod", "").startswith("uses-quarter-")]
    span = late["cardMilliseconds"] / 4
    r.check("four pods of 25 % cost one card", len(mine) == 4 and abs(sum(x["cardMilliseconds"] for x in mine) - span) <= 4
            and abs(sum(x["cost"] for x in mine) - span / 1000) < 0.01, (mine, span))
    table = columns(e.ok("bill", folder).split("\n\n")[0])
    r.check("bill: a table in kubectl's layout", table[0] == ["STATE", "NAMESPACE", "CLASS", "CLAIM", "POD", "CARD-SECONDS", "USED"] and len(table) > 5, table)
    r.check("bill -n", [x["namespace"] for x in e.json("bill", folder, "-n", "default", "--by", "namespace")["rows"]] == ["default"])
    opencost = json.loads(e.ok("bill", folder, "-o", "opencost", "--price", "2", "--cluster", "east", *window))
    allocations = opencost["data"][0]
    r.check("OpenCost's allocations", opencost["code"] == 200 and all(a["name"] == n and a["properties"]["cluster"] == "east" for n, a in allocations.items())
            and abs(sum(a["gpuHours"] for a in allocations.values()) - total["cardMilliseconds"] / 3_600_000) < 1e-9
            and abs(sum(a["gpuCost"] for a in allocations.values()) - total["cardMilliseconds"] / 1_800_000) < 1e-6
            and any("__idle__" in n for n in allocations), allocations)
    r.check("YAML", yaml.safe_load(e.ok("bill", folder, "-o", "yaml", *window)) == total)
    asked = ["--controller", s.ops, *window]
    r.check("bill --controller: the same bill", e.json("bill", *asked) == total and e.ok("bill", *asked, "-o", "csv") == e.ok("bill", folder, *window, "-o", "csv"))
    r.check("OpenCost's form of it", json.loads(e.ok("bill", *asked, "-o", "opencost", "--price", "2", "--cluster", "east")) == opencost)
    e.refused("a folder and a controller", ["bill", folder, *asked], ["FOLDER or --controller"], 2)
    e.refused("a controller that does not answer", ["bill", "--controller", "http://127.0.0.1:1"], ["127.0.0.1:1"])
    early = e.run("bill", folder, "--to", "2020-01-01").stderr.decode()
    r.check("a time before the journal", "no part of this time" in early and "No card time found" in early, early)
    e.refused("bill without a folder", ["bill"], ["FOLDER"], 2)
    e.refused("a folder without a journal", ["bill", s.work], ["no journal-"])
    e.refused("a time that is none", ["bill", folder, "--from", "yesterday"], ["--from", "2026-01-31T12:00:00Z"], 2)
    e.refused("a window that ends before it begins", ["bill", folder, "--from", "2026-01-02", "--to", "2026-01-01"], ["--to", "after --from"], 2)
    e.refused("a field that is none", ["bill", folder, "--by", "team"], ["--by", "namespace"], 2)
    e.refused("a price that is none", ["bill", folder, "--price=-1"], ["--price", "MODEL=NUMBER"], 2)
    e.refused("a model without a price", ["bill", folder, "--price", "A100=1"], ["--price", "T4"], 2)
    e.refused("OpenCost without a price", ["bill", folder, "-o", "opencost"], ["--price"], 2)
    r.check("fields are completed", "namespace" in completed(kubectl, "bill", folder, "--by", "") and
            "opencost" in completed(kubectl, "bill", folder, "-o", ""))
    kubectl.ok("delete", "pod", *["uses-" + n for n in names])
    kubectl.ok("delete", "egpuc", *names)


def completed(kubectl, *args):
    """The completion of these arguments, through kubectl. Since 1.26 kubectl starts kubectl_complete-egpu for it; with an
    older one (Debian 12 has 1.20) that program is started directly."""
    if tuple(int(part) for part in kubectl.version().split(".")) >= (1, 26):
        return kubectl.ok("__complete", "egpu", *args)
    return subprocess.run(["kubectl_complete-egpu", *args], env=kubectl.env, capture_output=True, timeout=60, check=True).stdout.decode()


def completion(r, e, kubectl):
    def words(*args):
        return completed(kubectl, *args)

    r.check("kubectl completes the verbs", all(v in words("") for v in ("map\t", "why\t", "drain-card\t")), words(""))
    r.check("a prefix", words("dr").startswith("drain-card\t"), words("dr"))
    r.check("names of claims and pods", {"small", "user"} <= set(words("why", "").split()), words("why", ""))
    r.check("only of the named kind", "user" in words("why", "pod", "").split() and "small" not in words("why", "pod", "").split() and
            words("why", "claim/s").split()[0] == "claim/small", (words("why", "pod", ""), words("why", "claim/s")))
    r.check("outputs of a verb", {"bars", "wide"} <= set(words("map", "-o", "").split()), words("map", "-o", ""))
    r.check("names of nodes", {"n-0", "n-1"} <= set(words("map", "--node", "").split()), words("map", "--node", ""))
    r.check("flags", "--no-headers\t" in words("map", "--"), words("map", "--"))
    r.check("no files", words("why", "").rstrip().endswith(":4"), words("why", ""))
    for shell in ("bash", "zsh", "fish"):
        r.check(f"a script for {shell}", "kubectl-egpu __complete" in e.ok("completion", shell))
    script = 'source <(kubectl-egpu completion bash); COMP_WORDS=(kubectl-egpu why sm); COMP_CWORD=2; _kubectl_egpu; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script], env=kubectl.env, capture_output=True, timeout=60, check=False)
    r.check("bash completes with it", done.stdout.decode().strip() == "small", done)


SECRETS = ["planted-env-secret", "planted-arg-secret", "planted-annotation", "planted-last-applied", "planted-kubeconfig-token",
           "planted-parameter", "cGxhbnRlZC1zZWNyZXQ=", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2ln", "planted-url-password", "planted-log-token"]


def bundle(r, e, s, front, work):
    """Creates secrets in the usual places, and searches the archive for them."""
    kubectl = e.kubectl
    kubectl.ok("annotate", "--overwrite", "egpuc", "small", "example.com/note=planted-annotation",
               'kubectl.kubernetes.io/last-applied-configuration={"data":"planted-last-applied"}')
    kubectl.ok("annotate", "pod", "user", "example.com/token=planted-annotation")
    kubectl.ok("create", "-f", "-", stdin="""
apiVersion: v1
kind: Event
metadata: {name: leak, namespace: default}
type: Warning
reason: Failed
message: 'pull from https://ann:planted-url-password@registry failed: Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2ln password=planted-arg-secret'
involvedObject: {kind: Pod, name: user, namespace: default}
""")
    kubectl.ok("apply", "-f", "-", stdin="""
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: secretive}
provisioner: gpushare.provisioner.elasticgpu.io
parameters: {apiToken: planted-parameter}
""")
    front.lists["/api/v1/namespaces/default/secrets"] = front.lists["/api/v1/secrets"] = [{"metadata": {"name": "s"}, "data": {"k": "cGxhbnRlZC1zZWNyZXQ="}}]
    agent = {"kind": "Pod", "metadata": {"name": "agent-1", "namespace": "elastic-gpu-system"}, "spec": {"containers": [{"name": "m", "image": "x"}]}}
    front.edits["/api/v1/pods"] = lambda v: v["items"].append(agent)
    front.texts["/api/v1/namespaces/elastic-gpu-system/pods/agent-1/log"] = "ready\ntoken: planted-log-token\n"
    config = os.path.join(work, "with-token")
    with open(config, "w", encoding="utf-8") as f:
        f.write(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                            "clusters": [{"name": "c", "cluster": {"server": front.address}}], "users": [{"name": "u", "user": {"token": "planted-kubeconfig-token"}}]}))
    front.log.clear()
    path = os.path.join(work, "bundle.tar.gz")
    e.ok("bundle", "--file", path, "--kubeconfig", config)
    r.check("the archive is private", os.stat(path).st_mode & 0o777 == 0o600)
    r.check("no Secret is read", not any("/secrets" in p or "/configmaps" in p for _, p in front.log))
    r.check("the archive is a tar", subprocess.run(["tar", "-tzf", path], capture_output=True, check=False).returncode == 0)
    with open(path, "rb") as f:
        archive = tarfile.open(fileobj=io.BytesIO(gzip.decompress(f.read())))
    texts = {m.name: archive.extractfile(m).read().decode() for m in archive.getmembers()}
    leaks = [(name, secret) for name, text in texts.items() for secret in SECRETS if secret in text]
    r.check("no planted secret is in it", not leaks, leaks)
    claims = json.loads(texts["objects/ElasticGPUClaim.json"])
    small = next(c for c in claims if c["metadata"]["name"] == "small")
    r.check("claims are in it", small["status"]["phase"] == "Bound" and small["metadata"]["annotations"]["example.com/note"] == "<removed>", small)
    env = next(p for p in json.loads(texts["objects/Pod.json"]) if p["metadata"]["name"] == "user")["spec"]["containers"][0]["env"]
    r.check("names of variables stay", env[0] == {"name": "API_TOKEN", "value": "<removed>"}, env)
    r.check("logs are in it", texts["logs/agent-1.log"].startswith("ready"), texts.keys())
    kubectl.ok("delete", "egpuclass", "secretive")
    r.check("what was found is in it", "check.txt" in texts and "version.json" in texts and "left-out.txt" in texts, texts.keys())


def rules_of(*names):
    """Returns the rules of the users' roles, as an authorizer has them."""
    roles = {o["metadata"]["name"]: o for o in manifests("rbac/users.yaml") if o["kind"] == "ClusterRole"}
    return [rule for name in names for rule in roles[name]["rules"]]


def permitted(rules, verb, group, resource):
    return any(group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"] for rule in rules)


def tenant(r, e, front):
    """A tenant has the roles view and edit in namespace default by a RoleBinding, and the rights of all users. Kubernetes' own view permits pods and events."""
    own = rules_of("elastic-gpu-view", "elastic-gpu-edit") + [{"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list", "watch"]}]
    everybody = rules_of("elastic-gpu-classes")
    front.allowed = lambda verb, group, resource, space, name: permitted(everybody, verb, group, resource) or (space == "default" and permitted(own, verb, group, resource))
    at = ["--server", front.address]
    chain = e.json("why", "user", *at)["chains"][0]
    states = {x["step"]: x["state"] for x in chain["steps"]}
    r.check("a tenant sees the chain of its pod", states["pod"] == states["claim"] == states["decision"] == states["ResourceClaim"] == states["device"] == "Done", chain)
    r.check("but no card and no node", states["ledger"] == states["node"] == "Unknown", chain)
    r.check("and why its claim waits", e.json("why", "large", *at)["chains"][0]["stopsAt"] == "decision")
    e.refused("another namespace is closed", ["why", "theirs", "-n", "team-b", *at], ["forbidden", "team-b"])
    r.check("a tenant's top", [c["name"] for c in e.json("top", *at)["claims"]][-1:] == ["small"])
    e.refused("top of all namespaces is closed", ["top", "-A", *at], ["forbidden"])
    for verb in (["map"], ["fit"], ["try", "--gpu-core", "10"], ["drain-card", "x"]):
        e.refused(f"{verb[0]} names the role that is needed", [*verb, *at], ["forbidden", "elastic-gpu-cluster-reader"])
    reader = rules_of("elastic-gpu-cluster-reader")
    front.allowed = lambda verb, group, resource, space, name: permitted(reader, verb, group, resource)
    for verb in (["map"], ["fit"], ["try", "--gpu-core", "10"], ["top", "-A"], ["why", "user"], ["drain-card", e.json("map")["nodes"][0]["cards"][0]["name"]]):
        e.ok(*verb, *at)
    front.allowed = None


# Names that documents use -> objects of this test.
PLACES = {"POD": "user", "CLAIM": "small", "NAMESPACE": "default", "NODE": "n-0", "CLASS": "share", "test-cuda-1": "user", "infer-0": "n-0", "train-0": "n-1",
          "train": "small", "too-large": "large"}


def commands_of_documents():
    """Yields each `kubectl egpu` command of README.md and the guide, in the order of the files."""
    guide = os.path.join(ROOT, "manifests", "guide")
    for path in [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(guide, "**", "*.md"), recursive=True))]:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for line in text.splitlines():
            for found in re.findall(r"^kubectl egpu [^#\n]+|`kubectl egpu ([^`]+)`", line):
                command = found if found else re.match(r"kubectl egpu ([^#\n]+)", line)[1]
                if command.strip() != "why":  # a mention of the verb
                    yield os.path.basename(path), command.strip()


def guide(r, e, kubectl, work):
    """Runs each command of the documents. 3: answered in the negative."""
    for path in ("seed.yaml", "workloads/classes.yaml"):
        kubectl.ok("apply", "-f", os.path.join(ROOT, "manifests", "samples", path))
    card = e.json("map", "--idle")["nodes"] or e.json("map")["nodes"]
    PLACES["CARD"] = next(c["name"] for n in card for c in n["cards"] if not c["claims"])
    commands = list(commands_of_documents())
    r.check("the documents have commands", len(commands) >= 20, commands)
    for page, command in commands:
        words = [re.sub(r"(?<![\w-])(?:" + "|".join(PLACES) + r")(?![\w-])", lambda m: PLACES[m[0]], w) for w in command.split()]
        words = [os.path.join(ROOT, w) if w.startswith("manifests/") else w for w in words]
        done = subprocess.run([kubectl.binary, "egpu", *words], env=kubectl.env, cwd=work, capture_output=True, timeout=60, check=False)
        r.check(f"{page}: kubectl egpu {command}", done.returncode in (0, 3) and (done.stdout or done.stderr), done)


def documents(r):
    """krew's manifest and k9s' plugins name verbs that exist."""
    with open(os.path.join(ROOT, "manifests", "kubectl", "krew.yaml"), encoding="utf-8") as f:
        krew = yaml.safe_load(f)
    r.check("krew's manifest", krew["kind"] == "Plugin" and krew["metadata"]["name"] == "egpu" and krew["spec"]["platforms"][0]["bin"] == "kubectl-egpu", krew)
    with open(os.path.join(ROOT, "manifests", "kubectl", "k9s-plugins.yaml"), encoding="utf-8") as f:
        plugins = yaml.safe_load(f)["plugins"]
    verbs = {p["args"][p["args"].index("egpu") + 1] if "egpu" in p["args"] else re.search(r"egpu (\S+)", " ".join(p["args"])).group(1) for p in plugins.values()}
    r.check("k9s' plugins", {"why", "drain-card", "map"} <= verbs <= {"why", "top", "map", "drain-card", "fit", "check"}, verbs)
    r.check("k9s' shortcuts are unique", len({(p["shortCut"], s) for p in plugins.values() for s in p["scopes"]}) == sum(len(p["scopes"]) for p in plugins.values()))


def main(bin_dir):
    r = Report()
    journal = tempfile.mkdtemp(prefix="egpu-bill-")
    PLACES["FOLDER"] = os.path.join(journal, "journal")
    s = Standalone(bin_dir, NODES, data=os.path.join(journal, "data"), extra=["--journal", PLACES["FOLDER"]])
    front = None
    try:
        kubectl = Kubectl("kubectl", s.kubeconfig, s.work)
        e = Egpu(r, kubectl, bin_dir)
        kubectl.ok("create", "namespace", "team-b")
        kubectl.ok("apply", "-f", "-", stdin=CLASSES)
        kubectl.ok("apply", "-f", "-", stdin=claim("small", 30) + claim("large", 500) + claim("classless", 10, "none") + claim("theirs", 10, "share", "team-b"))
        kubectl.ok("create", "-f", "-", stdin=pod("user", "small") + pod("waits", "large") + pod("lonely", "missing") + "---\n" +
                   "{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: [{name: m, image: x}]}}\n")
        until(lambda: kubectl.json("get", "pod", "user")["status"]["phase"] == "Running")
        until(lambda: b"NoFit" in kubectl.run("get", "egpuc", "large").stdout)
        until(lambda: kubectl.json("get", "egpuc", "theirs", "-n", "team-b")["status"]["phase"] == "Bound")
        until(lambda: kubectl.json("get", "egpuc", "classless")["status"]["conditions"])
        front = Front(kubectl.ok("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}").strip())
        why(r, e, kubectl)
        tables(r, e, kubectl)
        attempts(r, e, kubectl)
        remote(r, e, kubectl)
        completion(r, e, kubectl)
        tenant(r, e, front)
        bundle(r, e, s, front, s.work)
        drain(r, e, kubectl)
        bill(r, e, s, kubectl, PLACES["FOLDER"])
        PLACES["localhost:9440"] = s.ops.removeprefix("http://")
        guide(r, e, kubectl, s.work)
        documents(r)
    finally:
        if front:
            front.close()
        s.clean()
        shutil.rmtree(journal)
    return r.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
