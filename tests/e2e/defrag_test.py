"""Proves defrag --execute on the standalone controller: a pod is evicted and recreated, and its claim moves so that capacity is freed. Also over HTTP, one
move per request, and for a gang.  defrag_test.py BIN_DIR"""
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request

from standalone import Kubectl, Report, Standalone, until

NODES = """
nodes:
- name: n
  gpus: [{model: T4, count: 2, memory: 16Gi}]
"""
CLASS = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: share}
provisioner: gpushare.provisioner.elasticgpu.io
reclaimPolicy: Delete
parameters: {movable: "true"}
"""
GANG_NODES = """
nodes:
- {name: a, gpus: [{model: T4, count: 1, memory: 16Gi}]}
- {name: b, gpus: [{model: T4, count: 1, memory: 16Gi}]}
- {name: c, gpus: [{model: T4, count: 1, memory: 16Gi}]}
- {name: d, gpus: [{model: T4, count: 1, memory: 16Gi}]}
"""
MEMBERS = 3
WAITS = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: waits}
spec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: 90}}}
"""


def pod(k, name, app, core):
    """A pod whose owner must exist, or it is garbage-collected: a Lease replaces the ReplicaSet, which the embedded server doesn't have."""
    k.ok("apply", "-f", "-", stdin=f"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {{name: {app}}}\n")
    uid = k.json("get", "lease", app)["metadata"]["uid"]
    owner = f"[{{apiVersion: coordination.k8s.io/v1, kind: Lease, name: {app}, uid: {uid}, controller: true}}]"
    return f"""
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {app}}}
  ownerReferences: {owner}
  annotations: {{egpu.elasticgpu.io/class: share, egpu.elasticgpu.io/gpu-core: "{core}"}}
spec: {{containers: [{{name: main, image: none}}]}}
"""


class ReplicaSet(threading.Thread):
    """Recreates a pod as soon as the previous one is deleted, as a ReplicaSet does."""

    def __init__(self, kubectl, app, core):
        super().__init__(daemon=True)
        self.kubectl, self.app, self.core, self.made, self.stopping = kubectl, app, core, 0, threading.Event()

    def run(self):
        while not self.stopping.wait(0.1):
            pods = self.kubectl.json("get", "pods", "-l", "app=" + self.app)["items"]
            if not [p for p in pods if "deletionTimestamp" not in p["metadata"]]:
                self.made += 1
                self.kubectl.ok("create", "-f", "-", stdin=pod(self.kubectl, f"{self.app}-{self.made}", self.app, self.core))


def card_of(k, name):
    """Returns the card of this pod's only claim, or of this claim."""
    for card in k.json("get", "egpu")["items"]:
        for entry in (card["spec"].get("allocations") or {}).values():
            if entry["claim"].startswith("default/" + name):
                return card["metadata"]["name"]
    return None


def moves(r, k, s, binary):
    def defrag(*args):
        env = dict(os.environ, KUBECONFIG=s.kubeconfig)
        return subprocess.run([binary, "defrag", *args, "--server", s.ops], env=env, capture_output=True, timeout=60, check=False)

    k.ok("apply", "-f", "-", stdin=CLASS)
    runs = lambda app: any(p.get("status", {}).get("phase") == "Running" for p in k.json("get", "pods", "-l", "app=" + app)["items"])
    for app, core in (("first", 60), ("large", 60)):
        k.ok("create", "-f", "-", stdin=pod(k, app + "-0", app, core))
        r.check(f"{app} runs", until(lambda: runs(app), 20))
    k.ok("create", "-f", "-", stdin=pod(k, "small-0", "small", 30))
    until(lambda: runs("small"), 20)
    k.ok("delete", "pod", "first-0" if card_of(k, "small-0") == card_of(k, "first-0") else "large-0")
    k.ok("apply", "-f", "-", stdin=WAITS)
    r.check("a large claim finds no room", until(lambda: b"NoFit" in k.run("get", "egpuc", "waits").stdout))
    before = card_of(k, "small-0")

    plan = defrag("--plan", "waits")
    r.check("the plan moves the small one", b"1 move would make it fit" in plan.stdout and b"default/small-0" in plan.stdout, plan)
    r.check("a plan moves nothing", card_of(k, "small-0") == before and runs("small"))
    replicas = ReplicaSet(k, "small", 30)
    replicas.start()
    done = defrag("--execute", "waits")
    r.check("carried out", done.returncode == 0 and b"is evicted" in done.stdout and (b"waits is Bound" in done.stdout or b"fits as it is" in done.stdout), done)
    r.check("it is let in", until(lambda: k.json("get", "egpuc", "waits").get("status", {}).get("phase") == "Bound"))
    r.check("where the small one was", card_of(k, "waits") == before)
    r.check("one pod was evicted", replicas.made == 1 and until(lambda: runs("small")), replicas.made)
    again = defrag("--execute", "waits")
    r.check("again: there is nothing to do", again.returncode == 1 and b"waits is Bound" in again.stderr, again)
    replicas.stopping.set()
    replicas.join()

    k.ok("delete", "egpuc", "waits")
    until(lambda: card_of(k, "waits") is None)
    none = defrag("--execute")
    r.check("no more cards can be freed", none.returncode == 0 and b"no move would free a whole card" in none.stdout, none)
    both = defrag("--execute", "--plan")
    r.check("plan or execute", both.returncode == 2, both)


def posted(s, query):
    """Returns status and body of one request for a move."""
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{s.ops}/defrag?{query}", data=b""), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def moves_over_http(r, k, s):
    """small and large share a card; a tiny claim is alone on the other, until small moves there. Then the next move is tiny's."""
    runs = lambda app: any(p.get("status", {}).get("phase") == "Running" for p in k.json("get", "pods", "-l", "app=" + app)["items"])
    k.ok("create", "-f", "-", stdin=pod(k, "tiny-0", "tiny", 30))
    r.check("tiny runs", until(lambda: runs("tiny"), 20))
    before = card_of(k, "tiny-")
    k.ok("delete", "pods", "-l", "app=small")
    r.check("small is gone", until(lambda: card_of(k, "small-") is None, 20))
    replicas = ReplicaSet(k, "tiny", 30)
    replicas.start()
    status, body = posted(s, "execute=true&moves=1")
    moved = json.loads(body) if status == 200 else {}
    r.check("one move is made", status == 200 and moved["left"] == 0 and moved["moved"]["pods"] == ["default/tiny-0"], (status, body))
    r.check("its pod is made anew elsewhere", until(lambda: replicas.made == 1 and runs("tiny") and card_of(k, "tiny-") not in (None, before), 30))
    r.check("then nothing is left", until(lambda: posted(s, "execute=true&moves=0")[0] == 200, 30), posted(s, "execute=true&moves=0"))
    status, body = posted(s, "execute=true")
    r.check("nor is more to be freed", status == 200 and json.loads(body)["left"] == 0 and "moved" not in json.loads(body), (status, body))
    r.check("one pod was evicted for it", replicas.made == 1, replicas.made)
    status, body = posted(s, "execute=perhaps")
    r.check("what is asked for is said clearly", status == 400 and "known is true" in body, (status, body))
    replicas.stopping.set()
    replicas.join()


def moves_of_a_number(r, k, s, binary):
    """small is placed on the empty card, and tiny leaves. The next move puts small in tiny's place. --moves is passed along."""
    runs = lambda app: any(p.get("status", {}).get("phase") == "Running" for p in k.json("get", "pods", "-l", "app=" + app)["items"])
    k.ok("create", "-f", "-", stdin=pod(k, "small-again", "small", 30))
    r.check("small runs again", until(lambda: runs("small"), 20))
    before = card_of(k, "small-")
    k.ok("delete", "pods", "-l", "app=tiny")
    r.check("tiny is gone", until(lambda: card_of(k, "tiny-") is None, 20))
    replicas = ReplicaSet(k, "small", 30)
    replicas.start()
    env = dict(os.environ, KUBECONFIG=s.kubeconfig)
    done = subprocess.run([binary, "defrag", "--execute", "--moves", "5", "--server", s.ops], env=env, capture_output=True, timeout=60, check=False)
    r.check("at most so many are carried out", done.returncode == 0 and b"is evicted" in done.stdout and done.stdout.endswith(b"done\n"), done)
    r.check("and it went", until(lambda: runs("small") and card_of(k, "small-") not in (None, before), 30))
    replicas.stopping.set()
    replicas.join()


class ReplicaSets(threading.Thread):
    """Recreates one pod for each of several applications."""

    def __init__(self, kubectl, apps, core):
        super().__init__(daemon=True)
        self.kubectl, self.apps, self.core, self.made, self.stopping = kubectl, apps, core, [], threading.Event()

    def run(self):
        while not self.stopping.wait(0.2):
            pods = self.kubectl.json("get", "pods")["items"]
            there = {p["metadata"]["labels"]["app"] for p in pods if "deletionTimestamp" not in p["metadata"]}
            for app in sorted(self.apps - there):
                self.made.append(app)
                self.kubectl.ok("create", "-f", "-", stdin=pod(self.kubectl, f"{app}-{len(self.made)}", app, self.core))


def member(index):
    return f"""
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata:
  name: train-{index}
  annotations: {{elasticgpu.io/gang: train, elasticgpu.io/gang-size: "{MEMBERS}"}}
spec: {{egpuClassName: share, resources: {{requests: {{elasticgpu.io/gpu: 1}}}}}}
"""


def gang(r, k, s, binary):
    """A share on each of four nodes, and a gang of three that needs three whole cards: three shares move to the fourth."""
    def defrag(*args):
        env = dict(os.environ, KUBECONFIG=s.kubeconfig)
        return subprocess.run([binary, "defrag", *args, "--server", s.ops], env=env, capture_output=True, timeout=150, check=False)

    def running():
        return {p["metadata"]["labels"]["app"] for p in k.json("get", "pods")["items"]
                if p.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]}

    members = [f"train-{i}" for i in range(MEMBERS)]
    claims = lambda: {c["metadata"]["name"]: c for c in k.json("get", "egpuc")["items"]}
    bound = lambda: all(claims()[m].get("status", {}).get("phase") == "Bound" for m in members)
    k.ok("apply", "-f", "-", stdin=CLASS)
    shares = {f"share-{i}" for i in range(MEMBERS + 1)}
    for app in sorted(shares):  # the filler of its card is deleted afterwards
        for name, core in ((app, 25), ("filler-" + app, 75)):
            k.ok("create", "-f", "-", stdin=pod(k, name + "-0", name, core))
            r.check(f"{name} runs", until(lambda name=name: name in running(), 30))
    k.ok("delete", "pods", *(f"filler-{app}-0" for app in sorted(shares)))
    cards = lambda: {card_of(k, app + "-") for app in shares}
    r.check("only the shares are left, each alone on its node", until(lambda: running() == shares and len(claims()) == len(shares), 30) and len(cards()) == len(shares), cards())
    k.ok("apply", "-f", "-", stdin=member(0))
    few = defrag("--plan", "train-0")
    r.check("an incomplete gang reports its present members", b"1 of 3 members of gang train is here; here: train-0" in few.stdout, few)
    k.ok("apply", "-f", "-", stdin="---".join(member(i) for i in range(1, MEMBERS)))
    r.check("the gang finds no room", until(lambda: b"NoFit" in k.run("get", "egpuc", *members).stdout))

    plan = defrag("--plan", "train-1")
    r.check("the plan is for all members", b"3 moves would make gang train fit: 0 of 3 open members fit without a move" in plan.stdout and all(f"default/{m}".encode() in plan.stdout for m in members), plan)
    shown = json.loads(defrag("--plan", "train-1", "-o", "json").stdout)
    r.check("on a node each", len({m["to"]["node"] for m in shown["gang"]["members"]}) == MEMBERS and shown["exact"], shown["gang"])
    r.check("a plan moves nothing", running() == shares and not bound())
    replicas = ReplicaSets(k, shares, 25)
    replicas.start()
    done = defrag("--execute", "train-1")
    r.check("carried out until the gang is bound", done.returncode == 0 and done.stdout.count(b"is evicted") == MEMBERS and done.stdout.endswith(b"gang train is Bound\n"), done)
    r.check("all members are", bound())
    nodes = {claims()[m]["status"].get("nodeName") for m in members}
    r.check("each on a node of its own", len(nodes) == MEMBERS, nodes)
    r.check("the shares run on the fourth", until(lambda: running() == shares, 30) and len(cards()) == 1 and not cards() & {card_of(k, m) for m in members}, cards())
    r.check("each moved once at most", len(replicas.made) == len(set(replicas.made)) == MEMBERS, replicas.made)
    status, body = posted(s, "claim=train-2&execute=true")
    r.check("over HTTP: nothing is left", status == 200 and json.loads(body)["text"] == "gang train is Bound" and "moved" not in json.loads(body), (status, body))
    again = defrag("--execute", "train-0")
    r.check("again: there is nothing to do", again.returncode == 1 and b"gang train is Bound" in again.stderr, again)
    replicas.stopping.set()
    replicas.join()


def run(r, bin_dir, nodes, parts):
    s = Standalone(bin_dir, nodes)
    try:
        kubectl = Kubectl("kubectl", s.kubeconfig, s.work)
        for part in parts:
            part(r, kubectl, s, os.path.join(s.bin, "elastic-gpu-controller"))
    finally:
        if r.failed:
            s.dump_log()
        s.clean()


def main(bin_dir):
    r = Report()
    run(r, bin_dir, NODES, (moves, lambda r, k, s, _: moves_over_http(r, k, s), moves_of_a_number))
    run(r, bin_dir, GANG_NODES, (gang,))
    return r.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
