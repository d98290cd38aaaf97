"""A queue in front of the scheduler, like Kueue: its pods are created with a scheduling gate of the queue. An admitted pod loses that gate and gets a node
selector; a pod that is not admitted waits, and must not hold capacity."""

import itertools

from client import NODES, Refused, pods

GATE = "kueue.x-k8s.io/admission"
POOL, POOLS = "example.com/pool", ("left", "right")
RESOURCE_TEMPLATE = "queued"
LONGEST = 12  # maximum number of the queue's pods at once


def resource_templates(namespace):
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"


def resource_template(namespace):
    """A ResourceClaimTemplate that requests a part of a card by capacity, as users of DRA write it."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": RESOURCE_TEMPLATE, "namespace": namespace}, "spec": {
        "spec": {"devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "elasticgpu.io"}}],
            "config": [{"opaque": {"driver": "elasticgpu.io", "parameters": {
                "egpuClassName": "shared", "resources": {"requests": {"elasticgpu.io/gpu-core": 20, "elasticgpu.io/gpu-memory": "8Gi"}}}}}]}}}}


def by_template(name):
    return lambda pod: pod["metadata"]["annotations"].update({"egpuct.elasticgpu.io/gpu": name})


def by_amounts(pod):
    pod["metadata"]["annotations"].update({"egpu.elasticgpu.io/class": "shared", "egpu.elasticgpu.io/gpu-core": "30", "egpu.elasticgpu.io/gpu-memory": "10Gi"})


def by_resource_template(pod):
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": RESOURCE_TEMPLATE}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]


# namespace → (priority class, ways in which its pods request a GPU)
SOURCES = {"vision": ("serving", (by_template("detector"), by_resource_template)), "language": ("sweeps", (by_template("sweep"), by_amounts))}


def waits(pod):
    return any(each["name"] == GATE for each in pod["spec"].get("schedulingGates", []))


class AdmissionQueue:
    """Not thread-safe. source: a Random."""

    def __init__(self, client, source):
        self.client, self.random = client, source
        self.numbers = itertools.count()
        self.ready = False

    def prepare(self):
        """Labels the nodes' pools and creates the ResourceClaimTemplates."""
        if self.ready:
            return
        for index, each in enumerate(self.client.items(NODES)):
            self.client.patch(f"{NODES}/{each['metadata']['name']}", {"metadata": {"labels": {POOL: POOLS[index % 2]}}})
        for namespace in SOURCES:
            try:
                self.client.create(resource_templates(namespace), resource_template(namespace))
            except Refused as refused:
                if refused.status != 409:
                    raise
        self.ready = True

    def pods(self):
        return [each for namespace in SOURCES for each in self.client.items(pods(namespace), "&labelSelector=app%3Dqueued")
                if "deletionTimestamp" not in each["metadata"]]

    def submit(self):
        """Creates a pod and returns its name, or False if the queue is full."""
        self.prepare()
        if len(self.pods()) >= LONGEST:
            return False
        namespace = self.random.choice(list(SOURCES))
        priority, sources = SOURCES[namespace]
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"queued-{next(self.numbers)}", "namespace": namespace, "labels": {"app": "queued"},
                                                                "annotations": {}},
                "spec": {"priorityClassName": priority, "schedulingGates": [{"name": GATE}],
                         "containers": [{"name": "main", "image": "nvidia/cuda:12.4.1-base-ubuntu22.04", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}
        self.random.choice(sources)(made)
        self.client.create(pods(namespace), made)
        return made["metadata"]["name"]

    def admit(self, pod=None, pool=True):
        """Removes the gate of a pod and, if `pool`, selects half of the nodes, in one write as Kueue does. Returns False if no pod waits."""
        waiting = [each for each in self.pods() if waits(each)]
        if pod is None and not waiting:
            return False
        pod = pod or self.random.choice(waiting)
        meta, spec = pod["metadata"], {"schedulingGates": [each for each in pod["spec"]["schedulingGates"] if each["name"] != GATE]}
        if pool:
            spec["nodeSelector"] = {POOL: self.random.choice(POOLS)}
        self.client.patch(f"{pods(meta['namespace'])}/{meta['name']}", {"metadata": {"resourceVersion": meta["resourceVersion"]}, "spec": spec})
        return True

    def withdraw(self):
        """Deletes a pod of the queue, admitted or not. Returns False if there is none."""
        there = self.pods()
        if not there:
            return False
        meta = self.random.choice(there)["metadata"]
        self.client.delete(f"{pods(meta['namespace'])}/{meta['name']}?gracePeriodSeconds=0")
        return True

    def away(self):
        """Deletes all of its pods."""
        for each in self.pods():
            try:
                self.client.delete(f"{pods(each['metadata']['namespace'])}/{each['metadata']['name']}?gracePeriodSeconds=0")
            except Refused as refused:
                if refused.status != 404:
                    raise


def held(picture):
    """Yields pods with a foreign gate for which capacity is held. Gates are never added later: a pod that has one now had it when the devices were listed."""
    for pod in picture.pods:
        if "deletionTimestamp" in pod["metadata"] or not waits(pod):
            continue
        for claim in picture.claims_of(pod):
            name, uid = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}", claim["metadata"]["uid"]
            if not any(each["uid"] == pod["metadata"]["uid"] for each in stampers(claim, picture)):
                continue  # created by hand: an Immediate claim binds without its pod
            for device in picture.devices.values():
                if device["spec"].get("claimRef", {}).get("uid") == uid:
                    yield f"pod {pod['metadata']['name']} waits behind {GATE}, and its claim {name} has device {device['metadata']['name']}"
            for card in picture.cards.values():
                for entry in (card["spec"].get("allocations") or {}).values():
                    if entry["claim"] == name:
                        yield f"pod {pod['metadata']['name']} waits behind {GATE}, and card {card['metadata']['name']} is charged for its claim {name}"
            if claim.get("status", {}).get("nominated"):
                yield f"pod {pod['metadata']['name']} waits behind {GATE}, and its claim {name} has a nomination: {claim['status']['nominated']}"


def stampers(claim, picture):
    """Returns the pods for which the claim was stamped: they own its ResourceClaim."""
    owners = {each["uid"] for each in claim["metadata"].get("ownerReferences", []) if each["kind"] == "ResourceClaim"}
    names = {claim["metadata"]["name"]} if owners else set()
    return [pod["metadata"] for pod in picture.pods if pod["metadata"]["namespace"] == claim["metadata"]["namespace"]
            and names & {each.get("resourceClaimName") for each in pod["status"].get("resourceClaimStatuses", [])}]
