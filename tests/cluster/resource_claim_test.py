#!/usr/bin/env python3
"""Proves that ResourceClaims do no harm on a real cluster: pods that don't fit beside pods that do, evictions, ResourceClaims of other clients, pods that
end in other ways than by deletion.

resource_claim_test.py BIN_DIR
"""

import sys
import tempfile

import installation
import nodes
import verify
from apiserver import Cluster, guarded
from client import CLASSES, Report, resource_claims, claims, pods, until
from parts import WHOLE
from pods_test import claim, expect_clean, gpu_class, pod, running

NODE_NAMES = ["n-0", "n-1"]
CPU = 64  # per node, see nodes.py
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RESOURCE_CLAIM_TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


def asking(made, cpu, priority=""):
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cpu)
    if priority:
        made["spec"]["priorityClassName"] = priority
    return made


def own_claim(name, wanted):
    """A pod with resourceClaims in its spec: no annotation and no gate, so the scheduler can clear the allocation."""
    made = pod(name, {})
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": wanted}]
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return made


def bound_on(client, name):
    def probe():
        status = client.get(f"{claims()}/{name}").get("status", {})
        return status.get("phase") == "Bound" and status.get("nodeName")

    return until(f"{name} is bound", probe)


def events(client, reason):
    """Number of events with this reason, repetitions included."""
    return sum(each.get("count") or (each.get("series") or {}).get("count") or 1
               for each in client.items("/api/v1/namespaces/default/events") if each["reason"] == reason)


def unschedulable(client, name):
    conditions = client.get(f"{pods()}/{name}")["status"].get("conditions", [])
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)


def no_starving(client, report):
    """Two kinds of pods that fit nowhere, one pod that fits, one claim: the pod that fits runs, regardless of the order."""
    for kind, make in (("pinned", lambda name, of: pod(name, {"main": of})), ("own", own_claim)):
        name = f"shared-{kind}"
        client.create(claims(), claim(name, "now", 10, "1Gi"))
        home = bound_on(client, name)
        client.create(pods(), asking(make(f"huge-{kind}", name), 10 * CPU))
        until("the huge one was tried", lambda kind=kind: unschedulable(client, f"huge-{kind}"))
        client.create(pods(), make(f"good-{kind}", name))
        until("the good one runs", lambda kind=kind: f"good-{kind}" in running(client))
        report.check(f"{kind}: it is where its claim is", client.get(f"{pods()}/good-{kind}")["spec"]["nodeName"] == home)
        report.check(f"{kind}: the huge one still waits", f"huge-{kind}" not in running(client))
        client.delete(f"{pods()}/huge-{kind}")
        client.delete(f"{pods()}/good-{kind}")


def evicted_once(client, report):
    """The claim's node is full of pods of lower priority, which a ReplicaSet recreates only there; the other node is free. The pods are evicted once,
    however often the scheduler clears an allocation that it can't use yet."""
    for name, value in (("low", 0), ("high", 1000)):
        client.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
    victims = 4
    for kind, make in (("pinned", lambda name, of: pod(name, {"main": of})), ("own", own_claim)):
        name = f"wanted-{kind}"
        client.create(claims(), claim(name, "now", 10, "1Gi"))
        home = bound_on(client, name)
        template = asking(pod("any", {}), CPU // victims - 1, "low")
        template["metadata"] = {"labels": {"set": kind}}
        template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": home}
        # (one pod more than fits, so that it uses any freed capacity)
        client.create(REPLICA_SETS, {"metadata": {"name": kind}, "spec": {
            "replicas": victims + 1, "selector": {"matchLabels": {"set": kind}}, "template": template}})

        def filled(kind=kind):
            there = client.items(pods(), f"&labelSelector=set%3D{kind}")
            return sum(each["status"].get("phase") == "Running" for each in there) == victims

        until("the node is full", filled)
        before = events(client, "Preempted")
        client.create(pods(), asking(make(f"urgent-{kind}", name), 2 * (CPU // victims - 1), "high"))
        until("the urgent one runs", lambda kind=kind: f"urgent-{kind}" in running(client))
        report.check(f"{kind}: on its claim's node", client.get(f"{pods()}/urgent-{kind}")["spec"]["nodeName"] == home)
        evicted = events(client, "Preempted") - before
        print(f"{kind}: {evicted} evicted for it", flush=True)
        report.check(f"{kind}: no more went than had to, {evicted}", evicted == 2)
        expect_clean(client, report, f"after {kind}")
        client.delete(f"{REPLICA_SETS}/{kind}?propagationPolicy=Background")
        client.delete(f"{pods()}/urgent-{kind}")
        until("they are gone", lambda kind=kind: not client.items(pods(), f"&labelSelector=set%3D{kind}"))


def foreign(client, report):
    """A foreign ResourceClaim with the claim's name is not touched, and the claim reports it. After its deletion the controller creates its own."""
    theirs = {"metadata": {"name": "taken", "labels": {"whose": "theirs"}}, "spec": {"devices": {"requests": [
        {"name": "x", "exactly": {"deviceClassName": "of-another-driver"}}]}}}
    client.create(resource_claims(), theirs)
    client.create(claims(), claim("taken", "now", 10, "1Gi"))
    client.create(pods(), pod("waits-for-it", {"main": "taken"}))

    def reported():
        return any(each["reason"] == "ResourceClaimConflict" for each in client.get(f"{claims()}/taken").get("status", {}).get("conditions", []))

    until("the claim reports that the name of its ResourceClaim is in use", reported)
    seen = client.get(f"{resource_claims()}/taken")
    report.check("theirs is as it was", not seen.get("status", {}).get("allocation") and not seen["metadata"].get("finalizers"), seen)
    client.delete(f"{resource_claims()}/taken")
    until("the pod runs once theirs is gone", lambda: "waits-for-it" in running(client))


def ends_of_pods(client, report):
    """A pod that finishes and a pod that is deleted by force both release the claim."""
    for name in ("finished", "forced"):
        client.create(claims(), claim(name, "now", 10, "1Gi"))
        client.create(pods(), pod(name, {"main": name}))
    until("both run", lambda: {"finished", "forced"} <= running(client))
    client.patch(f"{pods()}/finished/status", {"status": {"phase": "Succeeded"}})
    client.call("DELETE", f"{pods()}/forced", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    for name in ("finished", "forced"):
        client.delete(f"{claims()}/{name}")
        until(f"the claim of the {name} pod goes", lambda name=name: not client.exists(f"{claims()}/{name}"))
    report.check("the finished pod is still there", client.exists(f"{pods()}/finished"))


def written_with_blanks(client, report):
    """ResourceClaims and templates whose parameters have blanks between the JSON tokens, as Python writes them: Kubernetes refuses changes of their
    metadata. They are served nevertheless, and deleted with their pods."""
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "elasticgpu.io"}}], "config": [{"opaque": {
        "driver": "elasticgpu.io", "parameters": {"egpuClassName": "now", "resources": {"requests": {"elasticgpu.io/gpu-core": 10}}}}}]}}
    client.create(resource_claims(), {"metadata": {"name": "blanks"}, "spec": spec})
    client.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "blanks"}, "spec": {"spec": spec}})
    for name, of in (("by-hand", "resourceClaimName"), ("by-template", "resourceClaimTemplateName")):
        made = own_claim(name, "blanks")
        made["spec"]["resourceClaims"] = [{"name": "gpu", of: "blanks"}]
        client.create(pods(), made)
    report.refused("Kubernetes rejects changes", lambda: client.patch(f"{resource_claims()}/blanks", {"metadata": {"labels": {"a": "b"}}}), 422, "immutable")
    until("both run", lambda: {"by-hand", "by-template"} <= running(client))
    until("its claim is bound", lambda: client.get(f"{claims()}/blanks").get("status", {}).get("phase") == "Bound")
    for name in ("by-hand", "by-template"):
        client.delete(f"{pods()}/{name}")
    client.delete(f"{resource_claims()}/blanks")
    client.delete(f"{RESOURCE_CLAIM_TEMPLATES}/blanks")
    until("their claims go", lambda: not [each for each in client.items(claims()) if each["metadata"]["name"].startswith(("blanks", "by-template"))])


def amounts_by_capacity(client, report):
    """A ResourceClaim that states its amounts as Kubernetes does for shared devices (capacity, from 1.36 on)."""
    request = {"deviceClassName": "elasticgpu.io", "capacity": {"requests": {"gpu_core": "10", "elasticgpu.io/gpu_memory": "2Gi"}}}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": request}],
                        "config": [{"opaque": {"driver": "elasticgpu.io", "parameters": {"egpuClassName": "now"}}}]}}
    stored = client.create(resource_claims(), {"metadata": {"name": "shared"}, "spec": spec})
    if "capacity" not in stored["spec"]["devices"]["requests"][0]["exactly"]:
        report.check("this Kubernetes drops capacity requests: nothing to show", True)
        client.delete(f"{resource_claims()}/shared")
        return
    client.create(pods(), own_claim("by-capacity", "shared"))
    until("its pod runs", lambda: "by-capacity" in running(client))
    until("its claim is bound", lambda: client.get(f"{claims()}/shared").get("status", {}).get("phase") == "Bound")
    has = client.get(f"{claims()}/shared")["status"]["capacity"]
    report.check("it has the amounts of its capacity requests", has == {"core": "10%", "memory": "2Gi"}, has)
    client.delete(f"{pods()}/by-capacity")
    client.delete(f"{resource_claims()}/shared")
    until("its claim is deleted with it", lambda: not client.exists(f"{claims()}/shared"))


def main():
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-resource-claim-") as folder, Cluster(folder, wanted=WHOLE) as cluster:
        installation.apply_manifests(cluster)
        client = installation.client_of(cluster)
        nodes.publish(client, NODE_NAMES, 2)
        until("the nodes are ready", lambda: nodes.all_ready(client, NODE_NAMES))
        installation.start_controller(cluster, sys.argv[1])
        client.create(CLASSES, gpu_class("now", "Immediate"))
        try:
            for part in (no_starving, evicted_once, foreign, ends_of_pods, written_with_blanks, amounts_by_capacity):
                part(client, report)
        except BaseException:
            for name in ("kube-scheduler", "controller"):
                print(f"{name}:\n{cluster.processes.tail(name, 30)}", file=sys.stderr)
            raise
        client.delete_all(pods())
        client.delete_all(claims())
        until("all is given back", lambda: not verify.World(client).devices and not client.items(resource_claims()))
        expect_clean(client, report, "at the end")
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
