"""Everyday operations of teams and administrators, and failures of their cluster: random, reproducible by a seed."""

import collections
import http.client
import random
import threading
import time

import yaml
from admission_queue import AdmissionQueue
from client import GROUP, NODES, Refused, pods, quotas

UNREACHABLE = (OSError, http.client.HTTPException)
DETECTOR = "/apis/apps/v1/namespaces/vision/deployments/detector"
SWEEP = "/apis/apps/v1/namespaces/language/deployments/sweep"
NOTEBOOK = "/apis/apps/v1/namespaces/language/statefulsets/notebook"
SCALES = {DETECTOR: (10, 90), SWEEP: (40, 200), NOTEBOOK: (2, 25)}
JOBS = "/apis/batch/v1/namespaces/vision/jobs"
TEMPLATES = f"{GROUP}/namespaces/vision/elasticgpuclaimtemplates"
TRAININGS, CORDONED = 4, 4  # maximum at once
# (namespace, quota, key) → range of its limit
LIMITS = {("vision", "team", "gpu"): (60, 280), ("vision", "team", "claims"): (40, 180), ("language", "team", "gpu"): (100, 400),
          ("language", "spare", "gpu"): (60, 360)}
OFTEN = {"scale": 5, "roll": 2, "delete_pods": 3, "drain": 3, "uncordon": 3, "kill": 3, "limit": 3, "train": 4, "finish": 4, "fail": 1,
         "cancel": 1, "delete_claims": 1, "submit": 4, "admit": 3, "withdraw": 1}


class Operations(threading.Thread):
    """Runs on a separate thread until `over`. sample: the documents of workload.yaml. replicas: kills and starts controllers, at most every `between`
    seconds, because a lease outlasts its holder for 15 s. pause: range of seconds between operations."""

    def __init__(self, client, seed, sample, replicas, pause, between):
        super().__init__(name="operations", daemon=True)
        self.client, self.random, self.sample, self.replicas, self.pause = client, random.Random(seed), sample, replicas, pause
        self.over = threading.Event()
        self.queue = AdmissionQueue(client, self.random)
        self.done = collections.Counter()
        self.refused = collections.Counter()
        self.cordoned = []
        self.jobs = ["training"]
        self.made = 0
        self.original = {}  # original values of changed limits
        self.failure = None
        self.begun = self.killed = time.monotonic()
        self.between = between

    def run(self):
        names = list(OFTEN)
        while not self.over.wait(self.random.uniform(*self.pause)):
            name = self.random.choices(names, [OFTEN[each] for each in names])[0]
            try:
                if getattr(self, name)() is not False:
                    self.done[name] += 1
            except Refused as refused:
                self.refused[name, refused.status] += 1  # the object is gone, or a budget blocks
            except UNREACHABLE:
                self.refused[name, 0] += 1
            except Exception as error:  # pylint: disable=broad-except  (a thread's failure must be visible)
                self.failure = error
                raise

    def log(self, what):
        print(f"{time.monotonic() - self.begun:6.0f} s  {what}", flush=True)

    # Operations of teams.

    def scale(self):
        path = self.random.choice(list(SCALES))
        count = self.random.randint(*SCALES[path])
        self.log(f"scale {path.rsplit('/', 1)[1]} to {count}")
        self.client.patch(path, {"spec": {"replicas": count}})

    def roll(self):
        path = self.random.choice(list(SCALES))
        annotations = {"restarted": str(time.monotonic())}
        if path == NOTEBOOK:
            annotations["egpu.elasticgpu.io/gpu-core"] = str(self.random.choice((20, 30, 40)))
        self.log(f"roll {path.rsplit('/', 1)[1]}")
        self.client.patch(path, {"spec": {"template": {"metadata": {"annotations": annotations}}}})

    def delete_pods(self):
        namespace = self.random.choice(("vision", "language"))
        there = self.client.items(pods(namespace))
        for each in self.random.sample(there, min(len(there), self.random.randint(1, 6))):
            grace = self.random.choice(("", "?gracePeriodSeconds=0"))
            self.client.delete(f"{pods(namespace)}/{each['metadata']['name']}{grace}")

    def delete_claims(self):
        """Deletes claims of pods that run or wait: they are recreated while their ResourceClaim exists."""
        path = f"{GROUP}/namespaces/{self.random.choice(('vision', 'language'))}/elasticgpuclaims"
        there = self.client.items(path)
        for each in self.random.sample(there, min(len(there), 2)):
            self.client.delete(f"{path}/{each['metadata']['name']}")

    def train(self):
        if len(self.jobs) >= TRAININGS:
            return False
        self.made += 1
        name = f"training-{self.made}"
        self.log(f"train {name}")
        self.jobs.append(name)
        made = [self._named(each, name) for each in self.sample if each["metadata"]["name"] == "training"]
        self.random.shuffle(made)  # template and Job, in any order
        for each in made:
            self.client.create(JOBS if each["kind"] == "Job" else TEMPLATES, each)
        return True

    def _named(self, document, name):
        made = yaml.safe_load(yaml.safe_dump(document).replace("app: training", f"app: {name}").replace("gang: training", f"gang: {name}")
                              .replace("/gpu: training", f"/gpu: {name}"))
        made["metadata"]["name"] = name
        return made

    def _pods_of(self, job):
        return [each for each in self.client.items(pods("vision"), f"&labelSelector=app%3D{job}") if "deletionTimestamp" not in each["metadata"]]

    def _ends(self, pod, phase):
        self.client.patch(f"{pods('vision')}/{pod['metadata']['name']}/status", {"status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": "False", "reason": "PodCompleted"}]}}, "application/strategic-merge-patch+json")

    def finish(self):
        """Ends all pods of a running training one by one, then deletes it."""
        for job in self.random.sample(self.jobs, len(self.jobs)):
            running = [each for each in self._pods_of(job) if each["status"].get("phase") == "Running"]
            if len(running) == 8:
                self.log(f"finish {job}")
                for each in self.random.sample(running, 8):
                    self._ends(each, "Succeeded")
                    time.sleep(self.random.choice((0, 0.2)))
                self._away(job)
                return True
        return False

    def fail(self):
        """One pod of a training fails: its Job creates another one."""
        for job in self.random.sample(self.jobs, len(self.jobs)):
            running = [each for each in self._pods_of(job) if each["status"].get("phase") == "Running"]
            if running:
                self.log(f"fail one of {job}")
                self._ends(self.random.choice(running), "Failed")
                return True
        return False

    def cancel(self):
        if not self.jobs:
            return False
        self._away(self.random.choice(self.jobs))
        return True

    def _away(self, job):
        self.log(f"take {job} away")
        self.jobs.remove(job)
        for path in (f"{JOBS}/{job}?propagationPolicy=Background", f"{TEMPLATES}/{job}"):
            try:
                self.client.delete(path)
            except Refused as refused:
                if refused.status != 404:  # the API server was killed before its creation
                    raise

    def submit(self):
        name = self.queue.submit()
        if name:
            self.log(f"submit {name}")
        return bool(name)

    # Operations of administrators.

    def admit(self):
        return self.queue.admit()

    def withdraw(self):
        return self.queue.withdraw()

    def drain(self):
        nodes = [each["metadata"]["name"] for each in self.client.items(NODES) if not each.get("spec", {}).get("unschedulable")]
        used = sorted({each["spec"]["nodeName"] for each in self.client.items("/api/v1/pods") if each["spec"].get("nodeName") in nodes})
        if len(self.cordoned) >= CORDONED or not used:
            return False
        node = self.random.choice(used)
        self.log(f"drain {node}")
        self.cordoned.append(node)
        self.client.patch(f"{NODES}/{node}", {"spec": {"unschedulable": True}})
        for _ in range(5):
            left = self.client.items("/api/v1/pods", f"&fieldSelector=spec.nodeName%3D{node}")
            for each in left:
                self._evict(each)
            if not left:
                break
            time.sleep(1)
        return True

    def _evict(self, pod):
        meta = pod["metadata"]
        try:
            self.client.create(f"{pods(meta['namespace'])}/{meta['name']}/eviction", {
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta["name"], "namespace": meta["namespace"]}})
        except Refused as refused:
            self.refused["evict", refused.status] += 1

    def uncordon(self):
        if not self.cordoned:
            return False
        node = self.cordoned.pop(self.random.randrange(len(self.cordoned)))
        self.client.patch(f"{NODES}/{node}", {"spec": {"unschedulable": None}})
        return True

    def limit(self):
        namespace, name, key = who = self.random.choice(list(LIMITS))
        value = self.random.randint(*LIMITS[who])
        self.original.setdefault(who, self.client.get(f"{quotas(namespace)}/{name}")["spec"]["hard"][key])
        self.log(f"quota {namespace}/{name}: {key} {value}")
        self.client.patch(f"{quotas(namespace)}/{name}", {"spec": {"hard": {key: value}}})

    def kill(self):
        if time.monotonic() < self.killed + self.between:
            return False
        self.killed = time.monotonic()
        self.log(self.replicas.kill(self.random))
        return True

    # Restores the files' values.

    def restore(self):
        """Stops all operations: every node is schedulable, every limit and size has its original value, and no training is left."""
        self.queue.away()
        for job in list(self.jobs):  # several at once may exceed the quota
            self._away(job)
        while self.cordoned:
            self.uncordon()
        for (namespace, name, key), value in self.original.items():
            self.client.patch(f"{quotas(namespace)}/{name}", {"spec": {"hard": {key: value}}})
        for path in SCALES:
            kind, name = path.split("/")[-2:]
            written = next(each for each in self.sample if each["metadata"]["name"] == name and each["kind"].lower() + "s" == kind)
            self.client.patch(path, {"spec": {"replicas": written["spec"]["replicas"]}})
