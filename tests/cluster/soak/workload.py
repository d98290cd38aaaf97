"""Claims and pods that are created and deleted while faults happen: users do not wait until the cluster is healthy."""

import http.client
import itertools
import random
import threading
import time

from client import CLASSES, Refused, resource_claims, claims, pods
from pods_test import SHARE, claim, gpu_class, pod

CLASS_NOW, CLASS_LATE = "now", "late"
QUEUE_GATE = "kueue.x-k8s.io/admission"  # the gate of an admission queue, which this workload also simulates
ADMITS = 0.3  # share of the steps in which the queue admits a pod
UNREACHABLE = (OSError, http.client.HTTPException)


def on_cards(name, cards, core):
    """A claim of that share of each of several cards of one node."""
    return {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name}, "spec": {
        "egpuClassName": CLASS_NOW, "resources": {"requests": {f"{SHARE}/gpu": cards, f"{SHARE}/gpu-core": core}}}}


class Workload:
    """Keeps about `size` items alive in the namespaces, each with one or two claims and perhaps a pod. Creates and deletes them at random, up to `rate` a
    second, on a separate thread. Tolerates refusals and a dead API server. Thread-safe."""

    def __init__(self, client, seed, size=40, rate=8.0):
        self.client = client
        self.random = random.Random(seed)
        self.size, self.rate = size, rate
        self.namespaces = ["default"]
        self.alive = []  # (namespace, [claims], pod or None)
        self.queued = []  # (namespace, pod) with QUEUE_GATE
        self.numbers = itertools.count()
        self.refused = {}  # HTTP status → number of refusals
        self.running = threading.Event()
        self.resting = threading.Event()
        self.resting.set()
        threading.Thread(target=self._work, name="workload", daemon=True).start()

    def classes(self):
        self.client.create(CLASSES, gpu_class(CLASS_NOW, "Immediate"))
        self.client.create(CLASSES, gpu_class(CLASS_LATE, "WaitForFirstConsumer"))

    def go(self):
        self.resting.clear()
        self.running.set()

    def rest(self):
        """Pauses the workload. Returns when no request is in flight."""
        self.running.clear()
        self.resting.wait()

    def forget(self, namespace):
        """The namespace is being deleted with all its objects."""
        self.namespaces.remove(namespace)
        self.alive = [each for each in self.alive if each[0] != namespace]
        self.queued = [each for each in self.queued if each[0] != namespace]

    def shrink(self, count):
        """While paused: deletes all but that many items. The remaining ones fitted before, and now have more capacity."""
        while len(self.alive) > count:
            self._take()

    def _work(self):
        while True:
            if not self.running.is_set():
                self.resting.set()
                self.running.wait()
            if len(self.alive) < self.size * self.random.uniform(0.7, 1.3):
                self._make()
            else:
                self._take()
            if self.queued and self.random.random() < ADMITS:
                self._attempt(lambda: self._admit(self.random.choice(self.queued)))
            time.sleep(1 / self.rate)

    def _attempt(self, act):
        """Returns true if the action succeeded. Partial results are found by the final check for leftovers."""
        try:
            act()
            return True
        except Refused as refused:
            self.refused[refused.status] = self.refused.get(refused.status, 0) + 1
        except UNREACHABLE:
            self.refused[0] = self.refused.get(0, 0) + 1
            time.sleep(0.2)
        return False

    def _make(self):
        name, namespace = f"w-{next(self.numbers)}", self.random.choice(self.namespaces)
        kind = self.random.choice(("alone", "alone", "pod", "late", "pair", "cards", "queued"))
        made = [name] if kind != "pair" else [f"{name}-0", f"{name}-1"]
        cls = CLASS_LATE if kind in ("late", "pair", "queued") else CLASS_NOW
        objects = [(claims(namespace), on_cards(each, 2, self.random.choice((5, 10, 20))) if kind == "cards" else
                    claim(each, cls, self.random.choice((5, 10, 30, 60)), f"{self.random.randint(1, 20)}Gi")) for each in made]
        user = None
        if kind in ("pod", "late", "pair", "queued"):
            user = name
            objects.append((pods(namespace), pod(name, {f"x{number}": each for number, each in enumerate(made)})))
        if kind == "queued":
            objects[-1][1]["spec"]["schedulingGates"] = [{"name": QUEUE_GATE}]
            self.queued.append((namespace, name))
        if self.random.random() < 0.5:
            objects.reverse()
        self.alive.append((namespace, made, user))
        for path, body in objects:
            self._attempt(lambda path=path, body=body: self.client.create(path, body))

    def _admit(self, who):
        """Removes the queue's gate; other gates remain. A deleted pod counts as admitted."""
        namespace, name = who
        path = f"{pods(namespace)}/{name}"
        try:
            there = self.client.get(path)
            gates = [each for each in there["spec"].get("schedulingGates", []) if each["name"] != QUEUE_GATE]
            self.client.patch(path, {"metadata": {"resourceVersion": there["metadata"]["resourceVersion"]}, "spec": {"schedulingGates": gates}})
        except Refused as refused:
            if refused.status != 404:
                raise
        self.queued.remove(who)

    def _take(self):
        namespace, made, user = self.alive.pop(self.random.randrange(len(self.alive)))
        paths = [f"{claims(namespace)}/{each}" for each in made] + ([f"{pods(namespace)}/{user}"] if user else [])
        self.random.shuffle(paths)
        for path in paths:
            self._attempt(lambda path=path: self.client.delete(path))

    def left_over(self):
        """While paused: deletes all objects that do not belong to an item. Returns their number."""
        known = {(namespace, name) for namespace, made, user in self.alive for name in (*made, *([user] if user else []))}
        found = 0
        for namespace in self.namespaces:
            for path in (claims(namespace), pods(namespace)):
                for each in self.client.items(path):
                    if (namespace, each["metadata"]["name"]) not in known and "deletionTimestamp" not in each["metadata"]:
                        found += self._attempt(lambda path=path, each=each: self.client.delete(f"{path}/{each['metadata']['name']}"))
        return found

    def complete(self):
        """While paused: the queue admits all of its pods. Deletes items of which a part was never created or is gone."""
        for each in list(self.queued):
            self._admit(each)
        for namespace in self.namespaces:
            has = {each["metadata"]["name"] for each in self.client.items(claims(namespace)) if "deletionTimestamp" not in each["metadata"]}
            users = {each["metadata"]["name"] for each in self.client.items(pods(namespace)) if "deletionTimestamp" not in each["metadata"]}
            self.alive = [each for each in self.alive if each[0] != namespace or (
                set(each[1]) <= has and (each[2] is None or each[2] in users))]
        self.left_over()


def unsettled(client, namespaces):
    """Returns what has not reached its final state: claims to be bound, pods to run, deleted objects to disappear."""
    late = set()
    for namespace in namespaces:
        users = client.items(pods(namespace))
        late |= {f"pod {namespace}/{each['metadata']['name']} is {each['status'].get('phase')}" for each in users
                 if each["status"].get("phase") != "Running" or "deletionTimestamp" in each["metadata"]}
        named = {claim["resourceClaimName"] for each in users for claim in each["spec"].get("resourceClaims", [])}
        there = client.items(claims(namespace))
        for each in there:
            name, phase = each["metadata"]["name"], each.get("status", {}).get("phase")
            waits = any(condition["reason"] == "WaitingForConsumer" for condition in each.get("status", {}).get("conditions", []))
            if "deletionTimestamp" in each["metadata"] or not (phase == "Bound" or (waits and name not in named)):
                late.add(f"claim {namespace}/{name} is {'deleted and' if 'deletionTimestamp' in each['metadata'] else ''} {phase}: "
                         f"{[(c['type'], c['reason'], c.get('message', '')[:90]) for c in each.get('status', {}).get('conditions', [])]}")
        owned = {each["metadata"]["name"] for each in there}
        late |= {f"ResourceClaim {namespace}/{each['metadata']['name']} has no claim" for each in client.items(resource_claims(namespace))
                 if each["metadata"]["name"] not in owned}
    return late


def waiting_pods(client, namespaces):
    """Describes for each pod that does not run the reports of its scheduler, its claims and its kubelet."""
    for namespace in namespaces:
        held = {each["metadata"]["name"]: each.get("status", {}) for each in client.items(resource_claims(namespace))}
        for each in client.items(pods(namespace)):
            if each["status"].get("phase") == "Running":
                continue
            spec = each["spec"]
            conditions = [(c["type"], c["status"], c.get("reason"), c.get("message")) for c in each["status"].get("conditions", [])]
            named = {c.get("resourceClaimName"): held.get(c.get("resourceClaimName")) for c in spec.get("resourceClaims", [])}
            yield (f"pod {namespace}/{each['metadata']['name']} made {each['metadata']['creationTimestamp']}: on {spec.get('nodeName')}, "
                   f"gates {spec.get('schedulingGates')}, conditions {conditions}, ResourceClaims {named}")
