#!/usr/bin/env python3
"""Proves moves on a real cluster. Each share of a Deployment is alone on a card that could be used whole; a disruption budget permits one eviction at a
time. defrag --execute, and single moves over HTTP, bring the shares together with the caller's rights; a caller without the right to evict moves nothing.
Both are repeated with claims created by users, which keep their identity while they move. For a gang, the moves free a card for each member.

defrag_test.py BIN_DIR [PART...]
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import installation
import nodes
import verify
from apiserver import Cluster, guarded
from client import CLASSES, GPUS, Report, resource_claims, claims, pods, until
from parts import WHOLE
from pki import write_kubeconfig
from pods_test import expect_clean, gpu_class

NODES = ["n-0", "n-1"]
CARDS_EACH = 2
CARDS = len(NODES) * CARDS_EACH
SMALL = 2  # number of its pods
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RIGHTS = {"looks": [(["elasticgpu.io"], ["elasticgpus"], ["get"])],
          "evicts": [(["elasticgpu.io"], ["elasticgpus", "elasticgpuclaims"], ["get"]), ([""], ["pods"], ["get", "list"]), ([""], ["pods/eviction"], ["create"])],
         "moves": [(["elasticgpu.io"], ["elasticgpus"], ["get"]), (["elasticgpu.io"], ["elasticgpuclaims"], ["get", "patch"]), ([""], ["pods"], ["get", "list"]), ([""], ["pods/eviction"], ["create"])]}
PATIENCE = 300


class Ground:
    def __init__(self, cluster, report, bin_dir):
        self.cluster, self.report, self.check = cluster, report, report.check
        self.binary = pathlib.Path(bin_dir) / "elastic-gpu-controller"
        self.client = installation.client_of(cluster)
        self.operations = ""
        self.tokens = {name: self.account(name, rules) for name, rules in RIGHTS.items()}

    def account(self, name, rules):
        """Creates a service account with exactly these rights. Returns its token."""
        self.client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
        self.client.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [
            {"apiGroups": groups, "resources": resources, "verbs": verbs} for groups, resources, verbs in rules]})
        self.client.create(f"{RBAC}/clusterrolebindings", {
            "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]})
        return self.client.token_for("default", name)

    def deployment(self, name, replicas, core, cls="fixed"):
        self.deploy(name, name, replicas, {"egpu.elasticgpu.io/class": cls, "egpu.elasticgpu.io/gpu-core": str(core)})
        until(f"{name} runs", lambda: len(self.running(name)) == replicas)

    def deploy(self, name, app, replicas, annotations):
        labels = {"app": app, "part": name}
        self.client.create(DEPLOYMENTS, {"metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations},
                         "spec": {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 0}}}})

    def small_by_hand(self):
        """Claims created by users, each with a Deployment of one pod that names it."""
        for index in range(SMALL):
            name = f"small-{index}"
            self.client.create(claims(), {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name}, "spec": {
                "egpuClassName": "share", "resources": {"requests": {"elasticgpu.io/gpu-core": 60}}}})
            self.deploy(name, "small", 1, {"egpuc.elasticgpu.io/gpu": name})
        until("all run", lambda: len(self.running("small")) == SMALL)

    def had(self):
        """Returns name → uids of the claim and of its device, for claims created by users."""
        devices = {each["metadata"]["name"]: each["metadata"]["uid"] for each in self.client.items(GPUS)}
        return {each["metadata"]["name"]: (each["metadata"]["uid"], devices.get(each["status"].get("elasticGPUName")))
                for each in self.client.items(claims()) if each["metadata"]["name"].startswith("small-")}

    def pods_of(self, name):
        return self.client.items(pods(), f"&labelSelector=app%3D{name}")

    def running(self, name):
        return {each["metadata"]["uid"] for each in self.pods_of(name)
                if each["status"].get("phase") == "Running" and "deletionTimestamp" not in each["metadata"]}

    def used(self):
        """Number of cards with allocations."""
        return sum(bool(each["spec"].get("allocations")) for each in self.client.items(GPUS) if "card" in each["spec"])

    def goes(self, name):
        self.client.call("DELETE", f"{DEPLOYMENTS}/{name}", {"propagationPolicy": "Foreground"})
        until(f"{name} is gone", lambda: not self.pods_of(name) and not self.client.exists(f"{DEPLOYMENTS}/{name}"))

    def scattered(self, budget, make=None):
        """Creates the small pods, each alone on a card of one node, because the other node's cards were full at that time. Returns the uids of their pods."""
        self.deployment("filler", SMALL, 60)
        self.deployment("anchor", SMALL, 40)
        if make:
            make()
        else:
            self.deployment("small", SMALL, 60, "share")
        self.client.create(BUDGETS, {"metadata": {"name": "small"}, "spec": {"selector": {"matchLabels": {"app": "small"}}, **budget}})
        until("the budget counts", lambda: self.client.get(f"{BUDGETS}/small").get("status", {}).get("currentHealthy") == SMALL)
        self.goes("filler")
        until("each is alone on its card", lambda: self.used() == CARDS and len(verify.World(self.client).devices) == CARDS)
        return self.running("small")

    def loosen(self):
        self.client.patch(f"{BUDGETS}/small", {"spec": {"maxUnavailable": 1}})
        until("the budget permits one", lambda: self.client.get(f"{BUDGETS}/small").get("status", {}).get("disruptionsAllowed") == 1)

    def gathered(self, before):
        """Each share fits beside one that did not move: two moves free two cards."""
        until("all run again", lambda: len(self.running("small")) == SMALL and self.used() == CARDS - SMALL)
        self.check("both were evicted, once", not self.running("small") & before)
        expect_clean(self.client, self.report, "with two cards freed")

    def away(self, deployments=("small", "anchor"), by_hand=()):
        for name in deployments:
            self.goes(name)
        for name in by_hand:
            self.client.delete(f"{claims()}/{name}")
        self.client.delete(f"{BUDGETS}/small")
        until("all is given back", lambda: not verify.World(self.client).devices and not self.client.items(resource_claims()))
        expect_clean(self.client, self.report, "once all is given back")


def defrag(ground, who, *args):
    kubeconfig = ground.cluster.folder / f"{who}.kubeconfig"
    write_kubeconfig(kubeconfig, ground.cluster.url, ground.cluster.pki, who, ground.tokens[who])
    return subprocess.run([ground.binary, "defrag", *args, f"--kubeconfig={kubeconfig}", f"--server={ground.operations}"],
                          capture_output=True, text=True, timeout=1300, check=False)


def execute(ground, who="moves", *claim):
    return defrag(ground, who, "--execute", *claim)


def executed(ground, *claim):
    """Executes until all moves are done: the previous pod's replacement may not be ready yet, and the budget then blocks the next eviction. Returns how
    often it stopped."""
    stopped = []

    def done():
        once = execute(ground, "moves", *claim)
        if once.returncode == 1 and "may not be evicted now" in once.stderr:
            stopped.append(once.stderr.strip())
            return False
        assert once.returncode == 0, once
        return once

    last = until("the moves are made", done, PATIENCE)
    print(f"stopped {len(stopped)} times at the budget; at last: {last.stdout.strip()}", flush=True)


def by_command(ground):
    """defrag --execute stops at a budget, and continues when it is called again."""
    before = ground.scattered({"maxUnavailable": 0})
    held = execute(ground)
    ground.check("a budget that permits none: nothing is moved, in its words",
                 held.returncode == 1 and "nothing is moved" in held.stderr and "disruption budget" in held.stderr, held)
    ground.check("no pod is evicted", ground.running("small") == before)
    ground.loosen()
    executed(ground)
    ground.gathered(before)
    ground.away()


def posted(ground, query, token):
    """Returns status, body and Retry-After of one request for a move."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{ground.operations}/defrag?{query}", data=b"", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode(), None
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode(), refused.headers.get("Retry-After")


def moved_over_http(ground):
    answers = []

    def nothing_left():
        # The last move reports that none is left; it is complete when a further request confirms that.
        code, body, again = posted(ground, "execute=true", ground.tokens["moves"])
        answers.append((code, body))
        assert code == 200 or (code in (409, 429, 503) and again), (code, body)
        return code == 200 and "moved" not in json.loads(body)

    until("nothing is left", nothing_left, PATIENCE)
    moves = [json.loads(body) for code, body in answers if code == 200 and "moved" in body]
    ground.check("two moves were made", [each["left"] for each in moves] == [1, 0], answers)


def over_http(ground):
    """One move per request, with the caller's token."""
    before = ground.scattered({"maxUnavailable": 0})
    for who, token, status, words in (("nobody", "", 401, "bearer token"), ("a stranger", "none", 401, "does not know"),
                                      ("who may only look", ground.tokens["looks"], 403, "pods/eviction"),
                                      ("a budget that permits none", ground.tokens["moves"], 429, "disruption budget")):
        code, body, again = posted(ground, "execute=true", token)
        ground.check(f"{who}: {status}, in words", (code, words in body, again is not None) == (status, True, status == 429), (code, body, again))
    ground.check("no pod is evicted", ground.running("small") == before)
    ground.loosen()
    moved_over_http(ground)
    ground.gathered(before)
    ground.away()


def made_by_hand(ground, over=executed):
    """Claims that outlive their pods are moved on request, and keep their identity."""
    before = ground.scattered({"maxUnavailable": 1}, ground.small_by_hand)
    had = ground.had()
    held = execute(ground, "evicts")
    ground.check("who may evict and not change claims moves nothing",
                 held.returncode == 1 and "may not be changed now" in held.stderr and ground.running("small") == before, held)
    over(ground)
    ground.gathered(before)
    now = ground.had()
    ground.check("the claims are those that they were, on other devices",
                 all(now[name][0] == claim and now[name][1] not in (None, device) for name, (claim, device) in had.items()), (had, now))
    ground.away(("small-0", "small-1", "anchor"), ("small-0", "small-1"))


def made_by_hand_over_http(ground):
    """Repeats made_by_hand() over HTTP, move by move."""
    made_by_hand(ground, moved_over_http)


def for_a_gang(ground):
    """The pods of a gang need whole cards on which shares are alone: defrag names the moves, makes them within the budget, and the gang runs."""
    before = ground.scattered({"maxUnavailable": 1})
    ground.deploy("train", "train", SMALL, {"egpu.elasticgpu.io/class": "fixed", "egpu.elasticgpu.io/gpu": "1",
                                            "elasticgpu.io/gang": "train", "elasticgpu.io/gang-size": str(SMALL)})
    pending = lambda: [each["metadata"]["name"] for each in ground.client.items(claims()) if each.get("status", {}).get("phase") == "Pending" and any(
        condition["type"] == "Bound" and condition["reason"] == "NoFit" for condition in each["status"].get("conditions", []))]
    until("a member reports that the gang does not fit", pending)
    member = pending()[0]
    plan = defrag(ground, "moves", "--plan", member)
    ground.check("the plan is for all members", plan.returncode == 0 and f"2 moves would make gang train fit: 0 of {SMALL} open members fit" in plan.stdout, plan)
    ground.check("a plan moves nothing", ground.running("small") == before)
    executed(ground, member)
    until("the gang runs", lambda: len(ground.running("train")) == SMALL)
    until("the shares run again", lambda: len(ground.running("small")) == SMALL)
    ground.check("both shares were evicted, once", not ground.running("small") & before)
    expect_clean(ground.client, ground.report, "with the gang on the freed cards")
    ground.away(("small", "anchor", "train"))


PARTS = (by_command, over_http, made_by_hand, made_by_hand_over_http, for_a_gang)


def main():
    report = Report()
    wanted = sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="egpu-defrag-") as folder, Cluster(folder, wanted=WHOLE) as cluster:
        installation.apply_manifests(cluster)
        ground = Ground(cluster, report, sys.argv[1])
        for name, movable in (("share", "true"), ("fixed", "false")):
            ground.client.create(CLASSES, gpu_class(name, "WaitForFirstConsumer", reclaimPolicy="Delete", parameters={"movable": movable}))
        nodes.publish(ground.client, NODES, CARDS_EACH)
        address = installation.start_controller(cluster, sys.argv[1])
        ground.operations = address if address.startswith("http") else f"http://{address}"
        try:
            for part in PARTS:
                if not wanted or part.__name__ in wanted:
                    print(f"{part.__name__}: {part.__doc__}", flush=True)
                    part(ground)
        except BaseException:
            print(f"controller:\n{cluster.processes.tail('controller', 40)}", file=sys.stderr)
            raise
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
