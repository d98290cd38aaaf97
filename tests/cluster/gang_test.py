#!/usr/bin/env python3
"""Proves gangs on a real cluster: Deployments whose pods form a gang, with amounts on the pods and with a claim template, in both binding modes. With one
pod too few nothing is held; of two gangs for the same cards one runs, then the other; the controller is killed meanwhile. With the stock scheduler and
controller manager. Needs 1.36. PodGroups are tested in a second cluster of the newest Kubernetes, where they are enabled.

gang_test.py BIN_DIR [PART...]
"""

import sys
import tempfile

import installation
import nodes
import verify
from apiserver import Cluster, guarded
from client import CLASSES, GPUS, Report, resource_claims, claims, pods, until
from parts import WHOLE
from pods_test import expect_clean, gpu_class

NODES = [f"n-{index}" for index in range(3)]
CARDS_EACH = 2
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"  # not Jobs, because kwok ends a Job's pods as soon as they run
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
GROUPS_ON = {"features": "GenericWorkload=true", "client_features": "GenericWorkload=true", "flags": ("--runtime-config=scheduling.k8s.io/v1beta1=true",)}
EVENTS = "/api/v1/namespaces/default/events"
TEMPLATES = "/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaimtemplates"


class Ground:
    def __init__(self, cluster, report, bin_dir):
        self.cluster, self.bin_dir = cluster, bin_dir
        self.client = installation.client_of(cluster)
        self.check = report.check
        self.report = report

    def gang(self, name, size, by, cls="late", cpu="1", replicas=None, topology=None):
        """Creates a Deployment whose pods request one whole card each. by a group: its pods name only their PodGroup."""
        of_gang = {"elasticgpu.io/gang": name, "elasticgpu.io/gang-size": str(size), **({"elasticgpu.io/gang-topology": topology} if topology else {})}
        if by in ("amounts", "group", "both"):
            annotations = {"egpu.elasticgpu.io/class": cls, "egpu.elasticgpu.io/gpu": "1", **({} if by == "group" else of_gang)}
        else:
            annotations = {"egpuct.elasticgpu.io/main": name}
            self.client.create(TEMPLATES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaimTemplate", "metadata": {"name": name},
                                           "spec": {"metadata": {"annotations": of_gang}, "spec": {
                                               "egpuClassName": cls, "resources": {"requests": {"elasticgpu.io/gpu": 1}}}}})
        spec = {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}], "terminationGracePeriodSeconds": 0}
        if by in ("group", "both"):
            spec["schedulingGroup"] = {"podGroupName": name}
        count = replicas or size
        self.client.create(DEPLOYMENTS, {"metadata": {"name": name}, "spec": {
            "replicas": count, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec}}})

    def group(self, name, count):
        self.client.create(GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}})

    def scale(self, name, replicas):
        self.client.patch(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}})

    def pods_of(self, name):
        return self.client.items(pods(), f"&labelSelector=app%3D{name}")

    def nodes_of(self, name):
        """Returns the nodes of its running pods."""
        return sorted(each["spec"]["nodeName"] for each in self.pods_of(name) if each["status"].get("phase") == "Running")

    def runs(self, name, size):
        until(f"gang {name} runs", lambda: len(self.nodes_of(name)) == size)
        return self.nodes_of(name)

    def messages(self):
        """Returns the messages of the claims' Bound conditions."""
        return [condition.get("message", "") for each in self.client.items(claims())
                for condition in each.get("status", {}).get("conditions", []) if condition["type"] == "Bound"]

    def awaits(self, *words):
        until(f"a claim says {', '.join(words)}", lambda: any(all(word in text for word in words) for text in self.messages()))

    def held(self):
        return sum(len(each["spec"].get("allocations") or {}) for each in self.client.items(GPUS) if "card" in each["spec"])

    def goes(self, name):
        self.client.call("DELETE", f"{DEPLOYMENTS}/{name}", {"propagationPolicy": "Foreground"})
        until(f"gang {name} is gone", lambda: not self.pods_of(name) and not self.client.exists(f"{DEPLOYMENTS}/{name}"))
        for path in (f"{TEMPLATES}/{name}", f"{GROUPS}/{name}"):
            if self.client.exists(path):
                self.client.delete(path)

    def away(self):
        until("all is given back", lambda: not verify.World(self.client).devices and not self.client.items(resource_claims()))
        expect_clean(self.client, self.report, "once all is given back")


def whole(ground):
    """Each way to define a gang, in each binding mode: all pods run, on as many cards."""
    for by in ("amounts", "template"):
        for cls in ("late", "now"):
            name = f"{by}-{cls}"
            ground.gang(name, 4, by, cls)
            ground.runs(name, 4)
            ground.check(f"{name}: four cards are held", ground.held() == 4, ground.held())
            expect_clean(ground.client, ground.report, f"with {name}")
            ground.goes(name)
    ground.away()


def one_too_few(ground):
    """Nothing is held while a member is missing; with the last pod all run."""
    ground.gang("few", 4, "amounts", replicas=3)
    ground.awaits("3 of 4 members of gang few are here")
    ground.check("nothing is held", ground.held() == 0, ground.held())
    ground.check("all wait behind the gate", all(each["spec"].get("schedulingGates") for each in ground.pods_of("few")))
    last = ground.pods_of("few")[0]
    made = {"metadata": {"name": "last", "labels": {"gang": "few"}, "annotations": last["metadata"]["annotations"]},
            "spec": {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 0}}
    ground.client.create(pods(), made)
    ground.runs("few", 3)
    until("the last one runs", lambda: ground.client.get(f"{pods()}/last")["status"].get("phase") == "Running")
    ground.client.delete(f"{pods()}/last")
    ground.goes("few")
    ground.away()


def beside_each_other(ground):
    """Node resources count: each pod needs 40 of a node's 64 CPUs, so each runs on a node of its own, though a node has two cards."""
    ground.gang("wide", 3, "amounts", cpu="40")
    on = ground.runs("wide", 3)
    ground.check("each is on a node of its own", on == NODES, on)
    ground.goes("wide")
    ground.gang("pair", 2, "template", topology="kubernetes.io/hostname")
    on = ground.runs("pair", 2)
    ground.check("both are on one node", on[0] == on[1], on)
    ground.goes("pair")
    ground.away()


def two_for_the_same(ground):
    """Six cards, two gangs of four, and the controller dies meanwhile: one gang is complete, nothing is held for the other, which follows."""
    ground.gang("a", 4, "amounts")
    ground.gang("b", 4, "template", "now")
    ground.cluster.processes.kill("controller")
    installation.start_controller(ground.cluster, ground.bin_dir)
    until("one of them runs", lambda: sorted((len(ground.nodes_of("a")), len(ground.nodes_of("b")))) == [0, 4])
    first, other = ("a", "b") if ground.nodes_of("a") else ("b", "a")
    ground.awaits("2 of 4 members of gang " + other + " fit")
    ground.check("nothing is held for the other", ground.held() == 4, ground.held())
    ground.goes(first)
    ground.runs(other, 4)
    expect_clean(ground.client, ground.report, "with the other")
    ground.goes(other)
    ground.away()


def one_comes_again(ground):
    """A pod of a running gang is deleted: its Deployment creates another one, which joins the gang."""
    ground.gang("again", 4, "amounts")
    ground.runs("again", 4)
    before = {each["metadata"]["name"] for each in ground.pods_of("again")}
    ground.client.delete(f"{pods()}/{sorted(before)[0]}")
    until("another pod is made", lambda: {each["metadata"]["name"] for each in ground.pods_of("again")} - before)
    ground.runs("again", 4)
    ground.goes("again")
    ground.away()


def without_pod_groups(ground):
    """Where PodGroups are disabled, the API server drops the pods' group references: each pod is bound individually."""
    ground.check("the API server has no PodGroups", not ground.client.exists(GROUPS))
    ground.gang("off", 4, "group", replicas=2)
    ground.runs("off", 2)
    ground.goes("off")
    ground.away()


def by_pod_group(ground):
    """Nothing is held before minCount pods exist, in both binding modes; with the last one all run."""
    for cls in ("late", "now"):
        name = f"group-{cls}"
        ground.group(name, 4)
        ground.gang(name, 4, "group", cls, replicas=3)
        ground.awaits(f"3 of 4 pods of PodGroup {name} are here")
        ground.check(f"{name}: nothing is held", ground.held() == 0, ground.held())
        ground.scale(name, 4)
        ground.runs(name, 4)
        expect_clean(ground.client, ground.report, f"with {name}")
        ground.goes(name)
    ground.away()


def group_comes_last(ground):
    """The pods are created first, more than minCount: Kubernetes stamps no ResourceClaim before the PodGroup exists. Then the first pods are bound together,
    and the rest follows. The controller is killed meanwhile."""
    ground.gang("tardy", 6, "group")
    until("its pods are there", lambda: len(ground.pods_of("tardy")) == 6)
    ground.check("nothing is held without it", ground.held() == 0, ground.held())
    ground.group("tardy", 4)
    ground.cluster.processes.kill("controller")
    installation.start_controller(ground.cluster, ground.bin_dir)
    ground.runs("tardy", 6)
    ground.scale("tardy", 7)
    ground.awaits("members of PodGroup tardy fit")
    ground.check("six cards are held", ground.held() == 6, ground.held())
    ground.goes("tardy")
    ground.away()


def min_count_changes(ground):
    """minCount is reduced while the group waits: the existing pods then suffice."""
    ground.group("less", 8)
    ground.gang("less", 3, "group")
    ground.awaits("3 of 8 pods of PodGroup less are here")
    ground.client.patch(f"{GROUPS}/less", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
    ground.runs("less", 3)
    ground.goes("less")
    ground.away()


def annotations_count(ground):
    """Annotations of a pod override its PodGroup, and an event reports that."""
    ground.group("both", 2)
    ground.gang("both", 2, "both")
    ground.runs("both", 2)
    until("its pods hear of it", lambda: any(each["reason"] == "AnnotationCounts" for each in ground.client.items(EVENTS)))
    ground.goes("both")
    ground.away()


PARTS = (whole, one_too_few, beside_each_other, two_for_the_same, one_comes_again, without_pod_groups)
WITH_GROUPS = (by_pod_group, group_comes_last, min_count_changes, annotations_count)


def on_cluster(report, bin_dir, parts, options):
    with tempfile.TemporaryDirectory(prefix="egpu-gang-") as folder, Cluster(folder, wanted=WHOLE, **options) as cluster:
        installation.apply_manifests(cluster)
        ground = Ground(cluster, report, bin_dir)
        for name, mode in (("late", "WaitForFirstConsumer"), ("now", "Immediate")):
            ground.client.create(CLASSES, gpu_class(name, mode))
        nodes.publish(ground.client, NODES, CARDS_EACH)
        installation.start_controller(cluster, bin_dir)
        try:
            for part in parts:
                print(f"{part.__name__}: {part.__doc__}", flush=True)
                part(ground)
        except BaseException:
            print(f"controller:\n{cluster.processes.tail('controller', 40)}", file=sys.stderr)
            for each in [*ground.client.items(claims()), *ground.client.items(pods())]:
                print(each["metadata"]["name"], each.get("status"), file=sys.stderr)
            raise


def main():
    report = Report()
    for parts, options in ((PARTS, {}), (WITH_GROUPS if not installation.VERSION else (), GROUPS_ON)):
        wanted = [part for part in parts if not sys.argv[2:] or part.__name__ in sys.argv[2:]]
        if wanted:
            on_cluster(report, sys.argv[1], wanted, options)
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
