"""A client of the embedded API server with Deployments, StatefulSets and Jobs. The server does not have these kinds, so this client stores them and creates
their pods as Kubernetes' controllers would."""

import copy
import hashlib
import json
import threading

from client import Client, Refused, pods

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
LIVE = ("Pending", "Running", None)
AT_ONCE = 8  # pods of an old template that are replaced in one pass


def merged(into, patch):
    """Applies a merge patch by RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(into) if isinstance(into, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class Controllers(Client):
    """Thread-safe, except that only one thread may call tend()."""

    def __init__(self, url):
        super().__init__(url)
        self.lock = threading.Lock()
        self.namespaces = set()  # namespaces that have or had such an object
        self.stored = {}  # path → document

    def call(self, method, path, body=None, content_type="application/json"):
        bare = path.split("?", 1)[0]
        if not bare.startswith(("/apis/apps/", "/apis/batch/")):
            return super().call(method, path, body, content_type)
        with self.lock:
            if method == "POST":
                bare = f"{bare}/{body['metadata']['name']}"
                self.stored[bare] = copy.deepcopy(body)
                self.namespaces.add(body["metadata"]["namespace"])
            if bare not in self.stored:
                raise Refused(404, {"message": f"{bare} is not there"})
            if method == "PATCH":
                self.stored[bare] = merged(self.stored[bare], body)
            if method == "DELETE":
                return self.stored.pop(bare)
            return copy.deepcopy(self.stored[bare])

    def apply(self, document):
        """Creates the document like kubectl create, by its kind."""
        kind, version = document["kind"], document["apiVersion"]
        plural = {"ElasticGPUClass": "elasticgpuclasses", "PriorityClass": "priorityclasses"}.get(kind, kind.lower() + "s")
        namespace = document["metadata"].get("namespace")
        self.create(("/api/" if "/" not in version else "/apis/") + version + (f"/namespaces/{namespace}" if namespace else "") + f"/{plural}", document)

    def tend(self):
        """One pass over all of them: creates missing pods, deletes surplus pods and pods of an old template."""
        with self.lock:
            stored = copy.deepcopy(self.stored)
        for document in stored.values():
            self._tend(document)
        # The pods of deleted objects are deleted.
        for namespace in self.namespaces:
            there = {each["metadata"]["name"] for each in stored.values() if each["metadata"]["namespace"] == namespace}
            for lease in self.items(LEASES.format(namespace)):
                if lease["metadata"]["name"] not in there:
                    self.delete(f"{LEASES.format(namespace)}/{lease['metadata']['name']}")

    def _tend(self, document):
        meta, spec, job = document["metadata"], document["spec"], document["kind"] == "Job"
        template = spec["template"]
        stamp = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:8]
        path = pods(meta["namespace"])
        there = self.items(path, f"&labelSelector=app%3D{meta['name']}")
        alive = [each for each in there if each["status"].get("phase") in LIVE]
        old = [each for each in alive if each["metadata"]["labels"].get("stamp") != stamp]
        done = sum(each["status"].get("phase") == "Succeeded" for each in there) if job else 0
        surplus = len(alive) - (spec["completions"] - done if job else spec["replicas"])
        for each in [*old[:AT_ONCE], *[each for each in alive if each not in old][:max(0, surplus - len(old))]]:
            self._quietly(lambda each=each: self.delete(f"{path}/{each['metadata']['name']}"))
        if surplus < 0:
            owner = self._owner(meta)
            for _ in range(-surplus):
                made = copy.deepcopy(template)
                made["metadata"].setdefault("labels", {})["stamp"] = stamp
                made["metadata"].update(generateName=f"{meta['name']}-", ownerReferences=[owner])
                self.create(path, {"apiVersion": "v1", "kind": "Pod", **made})

    def _owner(self, meta):
        """Creates a Lease that replaces the owner kind that the server lacks: without an existing owner pods would be garbage-collected."""
        path = LEASES.format(meta["namespace"])
        if not self.exists(f"{path}/{meta['name']}"):
            self.create(path, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": meta["name"]}})
        lease = self.get(f"{path}/{meta['name']}")
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": meta["name"], "uid": lease["metadata"]["uid"], "controller": True}

    @staticmethod
    def _quietly(act):
        try:
            act()
        except Refused:
            pass  # the pod may be gone meanwhile
