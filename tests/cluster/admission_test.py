#!/usr/bin/env python3
"""Proves that the admission policies decide the same cases alike on a real API server and on the embedded one.

admission_test.py BIN_DIR
"""

import copy
import pathlib
import re
import subprocess
import sys
import tempfile

import installation
import marks
import nodes
from apiserver import API_SERVER, Cluster, guarded
from client import GPUS, Client, Refused, Report, until
from client import pods as pods_path
from processes import die_with_parent

PREFIX = "egpuc.elasticgpu.io/"
TEMPLATE = "egpuct.elasticgpu.io/"  # + name → an ElasticGPUClaimTemplate
AMOUNT = "egpu.elasticgpu.io/"  # + class, gpu, gpu-core, gpu-memory
GATE = "elasticgpu.io/claims"
AGENT = "elastic-gpu-agent"
SHARE = "gpushare.provisioner.elasticgpu.io"
DEFAULT_PODS = pods_path()
STRATEGIC = "application/strategic-merge-patch+json"
# The garbage collector is one of the users that a policy exempts, and without aggregation the stock roles are empty.
PARTS = (*API_SERVER, "kube-controller-manager")


def pod(name, annotations, containers=("main",), inits=(), **spec):
    """annotations: name → claim; a key with a slash is used unchanged."""
    made = {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {
                key if "/" in key else PREFIX + key: value for key, value in annotations.items()}},
            "spec": {"containers": [{"name": each, "image": "none"} for each in containers], **spec}}
    if inits:
        made["spec"]["initContainers"] = [{"name": each, "image": "none"} for each in inits]
    return made


def outcome(stored):
    """Returns the result of admission for a pod: name → claim, or "template" and its name; container → names in order; gates."""
    spec = stored["spec"]
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    return ({each["name"]: each.get("resourceClaimName") or f"template {each.get('resourceClaimTemplateName')}"
             for each in spec.get("resourceClaims", [])},
            {each["name"]: sorted(claim["name"] for claim in each.get("resources", {}).get("claims", [])) for each in containers},
            [each["name"] for each in spec.get("schedulingGates", [])])


def own_claims(name, claim, in_container):
    """A pod with the resourceClaims that the policy would derive from the annotation."""
    made = pod("own", {})
    made["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": claim}]
    if in_container:
        made["spec"]["containers"][0]["resources"] = {"claims": [{"name": name}]}
    return made


def spelled(**amounts):
    """Returns the name of the template for amounts on a pod: reimplements api/v1alpha/pod_amounts.h."""
    name = "egpu-amounts"
    escapes = {each: f"-{number}" for number, each in enumerate(".+- _/|()")}
    for what, begin in (("gpu", "gpu-"), ("gpu_core", "core-"), ("gpu_memory", "memory-"), ("tflops", "tflops-"), ("model", "model-"),
                        ("isolation", "isolation-"), ("priority", "priority-")):
        if what in amounts:
            name += "." + begin + "".join(escapes.get(each, f"-{each.lower()}" if each.isupper() else each) for each in amounts[what])
    return name + (f".class-{amounts['cls']}" if "cls" in amounts else "")


def asking_amounts(name, containers=("main",), inits=(), **amounts):
    return pod(name, {AMOUNT + ("class" if what == "cls" else what.replace("_", "-")): value for what, value in amounts.items()},
               containers, inits)


# Amounts that must have distinct names, even if their values are equal.
AMOUNTS = (
    {"gpu": "1"}, {"gpu": "01"}, {"gpu_core": "10"}, {"gpu_memory": "10"}, {"gpu_memory": "4Gi"}, {"gpu_memory": "4G"},
    {"gpu_memory": "4gi"}, {"gpu_memory": "1.5Gi"}, {"gpu_memory": "15Gi"}, {"gpu_memory": "1e9"}, {"gpu_memory": "1E9"},
    {"gpu_memory": "1e+9"}, {"gpu_memory": "1e-9"}, {"gpu_memory": "-4Ki"}, {"gpu_memory": "3Ti"}, {"gpu_memory": "3Mi"},
    {"gpu_memory": "3Pi"}, {"gpu_memory": 24 * "1"}, {"gpu": "2", "gpu_core": "50", "gpu_memory": "8Gi", "cls": "a.b-c.gpu-1"},
    {"gpu_core": "ten"}, {"gpu_core": "10", "cls": "core-10"}, {"tflops": "12.5", "gpu_memory": "4Gi"},
    {"gpu_core": "10", "model": "NVIDIA A100-SXM4-80GB|Tesla_T4 (x/y)", "isolation": "hami-core", "priority": "high.prio-1", "cls": "share"})
# Amounts that can't be spelled: the pod is accepted, and waits.
UNREADABLE = (
    {"gpu_core": ""}, {"gpu_core": "10 %"}, {"gpu_core": "1/2"}, {"gpu_core": "1\n"}, {"gpu_core": "\u00bd"}, {"gpu_memory": 25 * "1"},
    {"gpu_memory": "4Xi"}, {"cls": "share"}, {"gpu": "1", "cls": ""}, {"gpu": "1", "cls": "No"}, {"gpu": "1", "cores": "1"},
    {"model": "A100"}, {"gpu": "1", "model": ""}, {"gpu": "1", "model": "A100;T4"}, {"gpu": "1", "model": 101 * "m"},
    {"gpu": "1", "cls": 60 * "c234." + "c"}, {"gpu": "1", "cls": 240 * "c"})


def annotated(made, **annotations):
    made = copy.deepcopy(made)
    made["metadata"]["annotations"].update({PREFIX + key: value for key, value in annotations.items()})
    return made


def written(made):
    """On versions whose policies do not read annotations (1.34, 1.35), adds the resourceClaims that the policy would derive and that users write there."""
    if installation.PODS_WRITE_CLAIMS:
        names = {key.removeprefix(PREFIX): value for key, value in made["metadata"]["annotations"].items() if key.startswith(PREFIX)}
        made["spec"]["resourceClaims"] = [{"name": key, "resourceClaimName": value} for key, value in names.items()]
        for container in made["spec"]["containers"]:
            container.setdefault("resources", {})["claims"] = [{"name": key} for key in names]
        if "nodeName" not in made["spec"]:
            made["spec"]["schedulingGates"] = [*made["spec"].get("schedulingGates", []), {"name": GATE}]
    return made


def asking(resources, container="main"):
    """A pod with a container that requests a GPU like CPU."""
    made = pod("bad", {}, inits=() if container == "main" else (container,))
    spec = made["spec"]
    (spec["containers"] if container == "main" else spec["initContainers"])[0]["resources"] = resources
    return made


# Admitted pods: (claims, names per container, gates).
ACCEPTED = {
    "a name that is no container's goes to all": (
        pod("all", {"test1": "c1"}, ("a", "b")), ({"test1": "c1"}, {"a": ["test1"], "b": ["test1"]}, [GATE])),
    "init containers count as containers": (
        pod("inits", {"test1": "c1"}, ("a",), ("i",)), ({"test1": "c1"}, {"i": ["test1"], "a": ["test1"]}, [GATE])),
    "a container's name goes to that one": (
        pod("one", {"b": "c1"}, ("a", "b"), ("i",)), ({"b": "c1"}, {"i": [], "a": [], "b": ["b"]}, [GATE])),
    "an init container's name goes to that one": (
        pod("init-only", {"i": "c1"}, ("a", "b"), ("i",)), ({"i": "c1"}, {"i": ["i"], "a": [], "b": []}, [GATE])),
    "several claims, each to whom it names": (
        pod("several", {"a": "c1", "b": "c2", "shared": "c3"}, ("a", "b")),
        ({"a": "c1", "b": "c2", "shared": "c3"}, {"a": ["a", "shared"], "b": ["b", "shared"]}, [GATE])),
    "two names for one claim": (
        pod("twice", {"x": "c1", "y": "c1"}), ({"x": "c1", "y": "c1"}, {"main": ["x", "y"]}, [GATE])),
    "a claim's name may have dots, and be long": (
        pod("dots", {"x": "a.b-c.d" + 60 * ".x1"}), ({"x": "a.b-c.d" + 60 * ".x1"}, {"main": ["x"]}, [GATE])),
    "a name of 63 characters": (
        pod("long", {63 * "n": "c1"}), ({63 * "n": "c1"}, {"main": [63 * "n"]}, [GATE])),
    "a template's annotation": (
        pod("templated", {TEMPLATE + "x": "tenth"}), ({"x": "template tenth"}, {"main": ["x"]}, [GATE])),
    "templates beside claims, each to whom it names": (
        pod("templates", {TEMPLATE + "a": "t1", TEMPLATE + "y": "t.2", "b": "c1"}, ("a", "b"), ("i",)),
        ({"a": "template t1", "y": "template t.2", "b": "c1"}, {"i": ["y"], "a": ["a", "y"], "b": ["b", "y"]}, [GATE])),
    "one template twice": (
        pod("twice-t", {TEMPLATE + "x": "t", TEMPLATE + "y": "t"}),
        ({"x": "template t", "y": "template t"}, {"main": ["x", "y"]}, [GATE])),
    "a template that the pod names by itself": (
        pod("own-t", {TEMPLATE + "x": "t"}, resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}]),
        ({"x": "template t"}, {"main": ["x"]}, [GATE])),
    "amounts go to all containers": (
        asking_amounts("amounts", ("a", "b"), ("i",), gpu_core="10", gpu_memory="4Gi", cls="share"),
        ({"egpu": "template egpu-amounts.core-10.memory-4-gi.class-share"}, {"i": ["egpu"], "a": ["egpu"], "b": ["egpu"]}, [GATE])),
    "or to the one that is called so": (
        asking_amounts("amounts-one", ("a", "egpu"), ("i",), gpu="1"),
        ({"egpu": "template egpu-amounts.gpu-1"}, {"i": [], "a": [], "egpu": ["egpu"]}, [GATE])),
    "amounts beside a claim and a template": (
        annotated(pod("all-three", {AMOUNT + "gpu": "1", TEMPLATE + "t": "tenth"}), c="c1"),
        ({"egpu": "template egpu-amounts.gpu-1", "t": "template tenth", "c": "c1"}, {"main": ["c", "egpu", "t"]}, [GATE])),
    "amounts that the pod names by itself": (
        annotated(pod("own-amounts", {AMOUNT + "gpu": "1"}, resourceClaims=[
            {"name": "egpu", "resourceClaimTemplateName": "egpu-amounts.gpu-1"}])),
        ({"egpu": "template egpu-amounts.gpu-1"}, {"main": ["egpu"]}, [GATE])),
    "no annotation, no change": (
        pod("none", {}), ({}, {"main": []}, [])),
    "resourceClaims of its own, without an annotation, stay as they are": (
        own_claims("x", "c1", True), ({"x": "c1"}, {"main": ["x"]}, [])),
    "the annotation of what it says by itself adds what is missing": (
        annotated(own_claims("x", "c1", False), x="c1"), ({"x": "c1"}, {"main": ["x"]}, [GATE])),
    "what it says by itself is not said twice": (
        annotated(own_claims("x", "c1", True), x="c1"), ({"x": "c1"}, {"main": ["x"]}, [GATE])),
    "another driver's claim beside it stays": (
        annotated(own_claims("nic", "network", True), x="c1"), ({"nic": "network", "x": "c1"}, {"main": ["nic", "x"]}, [GATE])),
    "other resources are anybody's": (
        {**pod("others", {}), "spec": {"containers": [{"name": "main", "image": "none", "resources": {
            "limits": {"nvidia.com/gpu": "1", "notelasticgpu.io/gpu": "1", "cpu": "1"}}}]}}, ({}, {"main": []}, [])),
    "another gate stays": (
        pod("gated", {"x": "c1"}, schedulingGates=[{"name": "example.com/wait"}]),
        ({"x": "c1"}, {"main": ["x"]}, ["example.com/wait", GATE])),
}

# Refused pods: words of the message.
REFUSED = {
    "a name in capitals": (pod("bad", {"Test1": "c1"}), (f"metadata.annotations[{PREFIX}Test1]", "must be a DNS label")),
    "a name with a dot": (pod("bad", {"a.b": "c1"}), (f"metadata.annotations[{PREFIX}a.b]", "must be a DNS label")),
    "a name with an underscore, beside a good one": (
        pod("bad", {"ok": "c1", "a_b": "c1"}), (f"[{PREFIX}a_b]", "must be a DNS label")),
    "a claim that is no name": (pod("bad", {"x": "Not A Claim"}), (f"[{PREFIX}x]", "is not the name of an ElasticGPUClaim")),
    "no claim": (pod("bad", {"x": ""}), (f"[{PREFIX}x]", "is not the name of an ElasticGPUClaim")),
    "a claim's name too long": (pod("bad", {"x": 254 * "c"}), (f"[{PREFIX}x]", "is not the name of an ElasticGPUClaim")),
    "a name that is used for another claim": (
        annotated(own_claims("x", "other", False), x="c1"), ("spec.resourceClaims", 'entry "x" does not reference the')),
    "a template's name in capitals": (
        pod("bad", {TEMPLATE + "X": "t"}), (f"metadata.annotations[{TEMPLATE}X]", "must be a DNS label")),
    "a template that is no name": (
        pod("bad", {TEMPLATE + "x": "No Template"}), (f"[{TEMPLATE}x]", "is not the name of an ElasticGPUClaimTemplate")),
    "a name with a claim and a template": (
        written(pod("bad", {TEMPLATE + "x": "t", "x": "c1"})), ("spec.resourceClaims", 'entry "x" does not reference the')),
    "amounts whose entry has a claim": (
        pod("bad", {AMOUNT + "gpu": "1"}, resourceClaims=[{"name": "egpu", "resourceClaimName": "c1"}]),
        ("spec.resourceClaims", 'entry "egpu" does not reference the template "egpu-amounts.gpu-1"')),
    "amounts whose entry has other amounts": (
        pod("bad", {AMOUNT + "gpu": "1"}, resourceClaims=[{"name": "egpu", "resourceClaimTemplateName": "egpu-amounts.gpu-8"}]),
        ("spec.resourceClaims", 'entry "egpu" does not reference the template "egpu-amounts.gpu-1"')),
    "a GPU among a container's limits": (
        asking({"limits": {"elasticgpu.io/gpu-core": "10"}}),
        ('container "main": resources.limits[elasticgpu.io/gpu-core]', "spec.resources.requests: {elasticgpu.io/gpu-core: 10}",
         "{egpuc.elasticgpu.io/main: <claim>}")),
    "a provisioner's, among limits and requests": (
        asking({"limits": {f"{SHARE}/gpu-memory": "4Gi", f"{SHARE}/gpu-core": "10"}, "requests": {f"{SHARE}/gpu-core": "10", f"{SHARE}/gpu-memory": "4Gi"}}),
        (f"resources.limits[{SHARE}/gpu-core]", f"{{{SHARE}/gpu-core: 10, {SHARE}/gpu-memory: 4Gi}}")),
    "a GPU among an init container's limits": (
        asking({"limits": {"elasticgpu.io/gpu": "1"}}, "i"), ('container "i": resources.limits[elasticgpu.io/gpu]',)),
    "a GPU beside the annotation of a claim": (
        written(annotated(asking({"limits": {"elasticgpu.io/gpu": "1"}}), x="c1")), ("GPUs can't be requested here",)),
}


PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def priorities(client, report, where):
    """A pod's priority comes from its class, as with Kubernetes' admission plugin Priority."""
    def of(name, **spec):
        return client.create(f"{DEFAULT_PODS}?dryRun=All", pod("ranked", {}, **spec))["spec"].get(name)

    def kind(name, value, **more):
        return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value, **more}

    client.create(PRIORITY_CLASSES, kind("ranked-high", 1000, preemptionPolicy="Never"))
    until("the class is known", lambda: not refusal(lambda: of("priority", priorityClassName="ranked-high")))
    report.check(f"{where}: the class's number", of("priority", priorityClassName="ranked-high") == 1000)
    report.check(f"{where}: the class's policy", of("preemptionPolicy", priorityClassName="ranked-high") == "Never")
    report.check(f"{where}: the same number, written", of("priority", priorityClassName="ranked-high", priority=1000) == 1000)
    report.check(f"{where}: without a class", (of("priority"), of("preemptionPolicy"), of("priorityClassName")) == (0, "PreemptLowerPriority", None))
    report.check(f"{where}: the system's class", of("priority", priorityClassName="system-node-critical") == 2000001000)
    for what, words, spec in (("an unknown class", "no PriorityClass with name nowhere was found", {"priorityClassName": "nowhere"}),
                              ("a number without a class", "the integer value of priority (7) must not be provided in pod spec", {"priority": 7}),
                              ("another number than the class's", "computed 1000 from the given PriorityClass name", {"priorityClassName": "ranked-high", "priority": 7}),
                              ("another policy than the class's", "the string value of PreemptionPolicy (PreemptLowerPriority)",
                               {"priorityClassName": "ranked-high", "preemptionPolicy": "PreemptLowerPriority"})):
        report.refused(f"{where}: {what}", lambda spec=spec: of("priority", **spec), 403, words)
    for what, status, words, body in (
            ("a system class of one's own", 422, "not a known system priority class", kind("system-mine", 5)),
            ("a number that is the system's", 422, "maximum allowed value of a user defined priority is 1000000000", kind("mine", 1000000001))):
        report.refused(f"{where}: {what}", lambda body=body: client.create(PRIORITY_CLASSES, body), status, words)
    path = f"{PRIORITY_CLASSES}/ranked-high"
    report.refused(f"{where}: another number for a class", lambda: client.patch(path, {"value": 7}), 422, "may not be changed in an update")
    client.patch(path, {"globalDefault": True})
    until("the default is known", lambda: of("priorityClassName") == "ranked-high")
    report.check(f"{where}: the default class", (of("priority"), of("preemptionPolicy")) == (1000, "Never"))
    report.refused(f"{where}: a second default", lambda: client.create(PRIORITY_CLASSES, kind("other", 5, globalDefault=True)), 403,
                   "PriorityClass ranked-high is already marked as default")
    client.delete(path)
    until("the class is gone", lambda: of("priority") == 0)
    report.refused(f"{where}: the system's classes stay", lambda: client.delete(f"{PRIORITY_CLASSES}/system-cluster-critical"), 403,
                   "this is a system priority class and cannot be deleted")


def placed(client, report, where):
    """The API server's rules for pods whose manifest sets the node."""
    mirror = {"kubernetes.io/config.mirror": "hash"}
    report.refused(f"{where}: a static pod's mirror without a node", lambda: client.create(f"{DEFAULT_PODS}?dryRun=All", pod("static", mirror)), 422,
                   "must set spec.nodeName if mirror pod annotation is set")
    report.refused(f"{where}: a static pod's mirror with a claim", lambda: client.create(
        f"{DEFAULT_PODS}?dryRun=All", pod("static", {**mirror, "x": "c1"}, nodeName="plain")), 422, "static pods do not support resource claims")
    report.refused(f"{where}: an extended resource without a limit",
                   lambda: client.create(f"{DEFAULT_PODS}?dryRun=All", asking({"requests": {"nvidia.com/gpu": "1"}})), 422, "Limit must be set for non overcommitable resources")
    limits = client.create(f"{DEFAULT_PODS}?dryRun=All", asking({"limits": {"nvidia.com/gpu": "1"}}))["spec"]["containers"][0]["resources"]
    report.check(f"{where}: a limit asks for as much", limits == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}, limits)


def refusal(act):
    try:
        act()
    except Refused as refused:
        return str(refused)
    return ""


def settled(path, client):
    """Deletes the object at once: these tests concern only admission, not the controller."""
    client.delete(path)
    until(f"{path} is gone", lambda: not client.exists(path))


def creation(client, report, where, accepted=True):
    for what, (body, expected) in ACCEPTED.items() if accepted else ():
        path = f"{DEFAULT_PODS}/{body['metadata']['name']}"
        try:
            stored = client.create(DEFAULT_PODS, body)
        except Refused as refused:
            report.check(f"{where}: {what}", False, refused)
            continue
        report.check(f"{where}: {what}", outcome(stored) == expected, outcome(stored))
        order = [each["name"] for each in stored["spec"]["containers"]]
        report.check(f"{where}: {what}: containers in order", order == [each["name"] for each in body["spec"]["containers"]], order)
        settled(path, client)
    names = set()
    for amounts in (*AMOUNTS, *UNREADABLE) if accepted else ():
        expected = "egpu-amounts.unreadable" if amounts in UNREADABLE else spelled(**amounts)
        made = outcome(client.create(f"{DEFAULT_PODS}?dryRun=All", asking_amounts("dry", **amounts)))[0]
        report.check(f"{where}: amounts {amounts}", made == {"egpu": f"template {expected}"}, made)
        names.add(expected)
    report.check(f"{where}: each of them has a name of its own", not accepted or len(names) == len(AMOUNTS) + 1, names)
    for what, (body, words) in REFUSED.items():
        report.refused(f"{where}: {what}", lambda body=body: client.create(DEFAULT_PODS, body), 422, *words)


def freezing(client, report, where):
    body = written(pod("frozen", {"x": "c1"}))
    client.create(DEFAULT_PODS, body)
    path = f"{DEFAULT_PODS}/frozen"
    for what, annotations in (("another claim", {PREFIX + "x": "c2"}), ("a further claim", {PREFIX + "y": "c2"}),
                              ("no claim", {PREFIX + "x": None})):
        for sub in ("", "/status"):
            report.refused(f"{where}: {what}, written to the pod{sub}",
                           lambda sub=sub, annotations=annotations: client.patch(path + sub, {"metadata": {"annotations": annotations}}),
                           422, "the claims of a pod are immutable")
    for what, annotation in (("a template", TEMPLATE + "y"), ("amounts", AMOUNT + "gpu"), ("an unknown amount", AMOUNT + "other")):
        report.refused(f"{where}: {what} afterwards", lambda annotation=annotation: client.patch(
            path, {"metadata": {"annotations": {annotation: "1"}}}), 422, "the claims of a pod are immutable")
    changed = client.patch(path, {"metadata": {"annotations": {"note": "new"}, "labels": {"a": "b"}}})
    report.check(f"{where}: other annotations may change", changed["metadata"]["annotations"].get("note") == "new")
    bare = client.create(DEFAULT_PODS, pod("bare", {}))
    report.check(f"{where}: a pod without claims", PREFIX + "x" not in bare["metadata"].get("annotations", {}))
    report.refused(f"{where}: gets none afterwards", lambda: client.patch(
        f"{DEFAULT_PODS}/bare", {"metadata": {"annotations": {PREFIX + "x": "c1"}}}), 422, "the claims of a pod are immutable")
    for name in ("frozen", "bare"):
        settled(f"{DEFAULT_PODS}/{name}", client)


def by_name(client, report):
    """Real API servers only: a pod on a node by name can have no gate; a binding may set annotations."""
    body = written(pod("by-name", {"x": "c1"}, nodeName="node-a"))
    report.check("a pod on a node by name gets its claims, and no gate",
                 outcome(client.create(DEFAULT_PODS, body)) == ({"x": "c1"}, {"main": ["x"]}, []))
    client.create(DEFAULT_PODS, pod("unbound", {}))
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "unbound", "annotations": {PREFIX + "x": "c1"}},
               "target": {"kind": "Node", "name": "node-a"}}
    report.refused("a binding can't bring a claim", lambda: client.create(f"{DEFAULT_PODS}/unbound/binding", binding), 422,
                   "the claims of a pod are immutable")
    report.refused("nor one that is posted to the namespace", lambda: client.create("/api/v1/namespaces/default/bindings", binding), 422,
                   "the claims of a pod are immutable")
    del binding["metadata"]["annotations"]
    client.create(f"{DEFAULT_PODS}/unbound/binding", binding)
    report.check("another binding is taken", client.get(f"{DEFAULT_PODS}/unbound")["spec"]["nodeName"] == "node-a")
    client.create(DEFAULT_PODS, pod("posted", {}))
    binding["metadata"]["name"] = "posted"
    client.create("/api/v1/namespaces/default/bindings", binding)
    report.check("posted to the namespace too", client.get(f"{DEFAULT_PODS}/posted")["spec"]["nodeName"] == "node-a")
    # Subresources that accept a whole pod.
    for sub, spec in (("ephemeralcontainers", {"ephemeralContainers": [{"name": "debug", "image": "none"}]}),
                      ("resize", {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]})):
        try:
            client.patch(f"{DEFAULT_PODS}/posted/{sub}", {"metadata": {"annotations": {PREFIX + "x": "c1"}}, "spec": spec}, STRATEGIC)
        except Refused:
            pass
        report.check(f"{sub} brings no claim", PREFIX + "x" not in client.get(f"{DEFAULT_PODS}/posted")["metadata"].get("annotations", {}))


def the_controllers_patches(cluster, client, report):
    """The controller may change only the gate and the required node affinity of a pod."""
    controller = client.as_token(cluster.pki, client.token_for(installation.NAMESPACE, installation.ACCOUNT))
    on_node = [{"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]
    preferred = [{"weight": 1, "preference": on_node[0]}]
    body = pod("patched", {"x": "c1"}, schedulingGates=[{"name": "example.com/wait"}], affinity={
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": on_node},
                         "preferredDuringSchedulingIgnoredDuringExecution": preferred},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}})
    body["metadata"].update(labels={"a": "b"}, finalizers=["example.com/f"])
    client.create(DEFAULT_PODS, written(body))
    path = f"{DEFAULT_PODS}/patched"
    only = "the controller may change only"
    for what, change, words in (
            ("a label", {"metadata": {"labels": {"a": "c"}}}, ("metadata.labels", only)),
            ("a further label", {"metadata": {"labels": {"new": "c"}}}, ("metadata.labels", only)),
            ("no labels", {"metadata": {"labels": None}}, ("metadata.labels", only)),
            ("an annotation", {"metadata": {"annotations": {"new": "c"}}}, ("metadata.annotations", only)),
            ("finalizers", {"metadata": {"finalizers": None}}, ("metadata.finalizers", only)),
            ("an image", {"spec": {"containers": [{"name": "main", "image": "other"}]}}, ("spec.containers", only)),
            ("a toleration", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}, ("spec.tolerations", only)),
            ("a deadline", {"spec": {"activeDeadlineSeconds": 1}}, ("spec.activeDeadlineSeconds", only)),
            ("a node selector", {"spec": {"nodeSelector": {"a": "b"}}}, ("spec.nodeSelector", only)),
            ("what is preferred", {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": None}}}},
             ("spec.affinity.nodeAffinity", only)),
            ("another's gate", {"spec": {"schedulingGates": [{"name": "example.com/wait", "$patch": "delete"}]}},
             ("spec.schedulingGates", "may remove only elasticgpu.io/claims")),
            ("all gates", {"spec": {"schedulingGates": [{"$patch": "replace"}]}}, ("spec.schedulingGates", "may remove only")),
            ("the gate, and a label", {"metadata": {"labels": {"a": "c"}}, "spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}},
             ("metadata.labels", only))):
        report.refused(f"the controller does not change {what}", lambda change=change: controller.patch(path, change, STRATEGIC), 422, *words)
    pinned = [{**on_node[0], "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]
    now = controller.patch(path, {"spec": {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": pinned}}},
        "schedulingGates": [{"name": GATE, "$patch": "delete"}]}}, STRATEGIC)
    report.check("it lifts its gate and pins the pod", outcome(now)[2] == ["example.com/wait"] and now["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == pinned, now["spec"])
    changed = client.patch(path, {"metadata": {"labels": {"a": "c"}, "finalizers": None}, "spec": {"schedulingGates": None}})
    report.check("others change what RBAC lets them", changed["metadata"]["labels"]["a"] == "c")
    settled(path, client)


def crowded(cluster, client, report):
    """Lists and maps of any length: what can't be checked within a request's time limit is refused, or is harmless."""
    def notes(count):
        return {key: "" for key in marks.many(count)}

    def taken(what, act):
        try:
            act()
            report.check(what, True)
        except Refused as refused:
            report.check(what, False, refused)

    harmless = pod("crowded", {})
    harmless["metadata"]["annotations"] = notes(75000)
    path = f"{DEFAULT_PODS}/crowded"
    taken("a pod of 75000 annotations, none of them a claim's, is taken", lambda: client.create(DEFAULT_PODS, harmless))
    taken("its status is written", lambda: client.patch(f"{path}/status", {"status": {"phase": "Running"}}))
    taken("and its annotations", lambda: client.patch(path, {"metadata": {"annotations": {"note": "new"}}}))
    report.refused("it gets no claim", lambda: client.patch(path, {"metadata": {"annotations": {PREFIX + "x": "c1"}}}), 422,
                   "metadata.annotations: at most 1000", "the claims of a pod are immutable")
    settled(path, client)
    body = written(pod("crowded", {"x": "c1"}))
    body["metadata"]["annotations"].update(notes(75000))
    report.refused("with a claim it is refused", lambda: client.create(DEFAULT_PODS, body), 422, "metadata.annotations: at most 1000")
    body["metadata"]["annotations"] = {PREFIX + "x": "c1", **notes(999)}
    taken("a pod of 1000 annotations, one of them a claim's, is taken", lambda: client.create(DEFAULT_PODS, body))
    report.check("and gets the claim", outcome(client.get(path)) == ({"x": "c1"}, {"main": ["x"]}, [GATE]))
    report.refused("it gets no more annotations", lambda: client.patch(path, {"metadata": {"annotations": {"note": "new"}}}), 422,
                   "metadata.annotations: at most 1000")
    taken("its status is written, too", lambda: client.patch(f"{path}/status", {"status": {"phase": "Running"}}))
    report.refused("its claim does not change", lambda: client.patch(path, {"metadata": {"annotations": {PREFIX + "x": "c2"}}}), 422,
                   "the claims of a pod are immutable")
    settled(path, client)

    def named(count, containers=1, **spec):
        return written(pod("crowded", {f"n{each}": "c1" for each in range(count)}, [f"c{each}" for each in range(containers)], **spec))

    dry = f"{DEFAULT_PODS}?dryRun=All"
    if not installation.PODS_WRITE_CLAIMS:
        names = [f"c{each}" for each in range(1001)]
        taken("amounts of 1000 containers", lambda: client.create(dry, asking_amounts("crowded", names[:1000], gpu="1")))
        report.refused("amounts of 1001 containers", lambda: client.create(dry, asking_amounts("crowded", names, gpu="1")), 422, "at most 1000")
        body = asking_amounts("crowded", gpu="1")
        body["metadata"]["annotations"].update(notes(75000))
        report.refused("amounts among too many annotations", lambda: client.create(dry, body), 422, "metadata.annotations: at most 1000")
    taken("64 claims, of 64 containers", lambda: client.create(dry, named(64, 64)))
    taken("a claim of 1000 containers", lambda: client.create(dry, named(1, 1000)))
    report.refused("65 claims", lambda: client.create(dry, named(65)), 422, "at most 64")
    report.refused("64 claims, of 65 containers", lambda: client.create(dry, named(64, 65)), 422, "at most 4096")
    gates = [{"name": f"example.com/{each}"} for each in range(64)]
    report.refused("65 gates, one of them the controller's", lambda: client.create(dry, named(1, schedulingGates=gates)), 422,
                   "spec.schedulingGates: at most 64")
    others = [{"name": f"o{each}", "resourceClaimName": "x"} for each in range(257)]
    crowd = named(1)
    crowd["spec"]["resourceClaims"] = [*crowd["spec"].get("resourceClaims", []), *others]
    report.refused("257 other claims beside its own", lambda: client.create(dry, crowd), 422, "spec.resourceClaims: at most 256")
    limits = {f"example.com/{key}": "1" for key in marks.many(20000)}
    taken("20000 limits that are no GPU's", lambda: client.create(dry, asking({"limits": limits})))
    report.refused("a GPU among them", lambda: client.create(dry, asking({"limits": {**limits, "elasticgpu.io/gpu": "1"}})), 422,
                   "spec.containers: at most 1000")
    report.refused("40 kinds of GPUs", lambda: client.create(dry, asking({"limits": {f"elasticgpu.io/{key}": "1" for key in marks.many(40)}})), 422,
                   "GPUs can't be requested here")
    controller = client.as_token(cluster.pki, client.token_for(installation.NAMESPACE, installation.ACCOUNT))
    for count, lifted in ((63, True), (64, False)):
        client.create(DEFAULT_PODS, pod("crowded", {}, schedulingGates=[*gates[:count], {"name": GATE}]))

        def lift(count=count):
            controller.patch(path, [{"op": "remove", "path": f"/spec/schedulingGates/{count}"}], "application/json-patch+json")

        if lifted:
            taken("the controller lifts its gate among 64", lift)
        else:
            report.refused("not among more", lift, 422, "from at most 64 gates")
        settled(path, client)


def agent_token(client, node):
    """Returns a token like the kubelet's: bound to a pod of the agent on that node."""
    namespace = installation.NAMESPACE
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"agent-{node}", "namespace": namespace},
            "spec": {"serviceAccountName": AGENT, "nodeName": node, "automountServiceAccountToken": False,
                     "securityContext": {"runAsNonRoot": True, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}},
                     "containers": [{"name": "agent", "image": "none", "securityContext": {
                         "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]}}
    uid = client.create(pods_path(namespace), made)["metadata"]["uid"]
    return client.token_for(namespace, AGENT, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": f"agent-{node}", "uid": uid})


def agents(cluster, client, report):
    for name in ("node-a", "node-b"):
        client.create("/api/v1/nodes", nodes.node(name))
    agent = client.as_token(cluster.pki, agent_token(client, "node-a"))
    own, foreign = nodes.card("node-a", 0), nodes.card("node-b", 0)
    mine, theirs = (f"{GPUS}/{each['metadata']['name']}" for each in (own, foreign))

    report.check("an agent publishes a card of its node", agent.create(GPUS, own)["spec"]["card"]["nodeName"] == "node-a")
    report.refused("not one of another node", lambda: agent.create(GPUS, foreign), 422, 'its own node, "node-a"')
    client.create(GPUS, foreign)
    entry = {"device": "egpu-1", "claim": "default/c", "core": 100, "memory": 1}
    with_entry = copy.deepcopy(nodes.card("node-a", 1))
    with_entry["spec"]["allocations"] = {"u-1": entry}
    report.refused("not one with a ledger", lambda: agent.create(GPUS, with_entry), 422, "spec.allocations")
    device = {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPU", "metadata": {"name": "egpu-own"},
              "spec": {"nodeName": "node-a", "cards": [{"name": own["metadata"]["name"], "uuid": "u"}], "gpuShare": {"gpuName": "x"}}}
    report.refused("no device", lambda: agent.create(GPUS, device), 422, "only the cards")

    named = nodes.card("node-a", 2)
    named["metadata"]["name"], named["spec"]["card"]["uuid"] = 2 * ("egpu-6c1f8a52-0000-4000-8000-000000000000",)
    for what, act in (("made", lambda: agent.create(GPUS, named)), ("applied", lambda: agent.patch(
            f"{GPUS}/{named['metadata']['name']}?fieldManager=agent", named, "application/apply-patch+yaml"))):
        report.refused(f"no card with the name of a claim's device, {what}", act, 422, "metadata.name", "egpu-")

    stolen = nodes.card("node-a", 3)
    stolen["spec"]["card"]["uuid"] = foreign["spec"]["card"]["uuid"]
    report.refused("no card with the uuid of another node's", lambda: agent.create(GPUS, stolen), 422, "its uuid in lower case")
    report.refused("its card keeps its uuid", lambda: agent.patch(mine, {"spec": {"card": {"uuid": foreign["spec"]["card"]["uuid"]}}}), 422)
    retained = nodes.card("node-a", 4)
    retained["metadata"]["finalizers"] = ["example.com/keeps"]
    report.refused("no card that the controller can't delete", lambda: agent.create(GPUS, retained), 422, "metadata.finalizers", "elasticgpu.io/ledger")
    report.refused("nor a finalizer later", lambda: agent.patch(mine, {"metadata": {"finalizers": ["elasticgpu.io/ledger", "example.com/keeps"]}}),
                   422, "metadata.finalizers")
    report.check("it updates its card", agent.patch(mine, {"spec": {"card": {"smCount": 120}}})["spec"]["card"]["smCount"] == 120)
    reply = agent.patch(f"{mine}/status", {"status": {"conditions": [{"type": "Healthy", "status": "True"}]}})
    report.check("it reports that its card is healthy", reply["status"]["conditions"][0]["type"] == "Healthy")
    for what, path in (("a card", theirs), ("a card's status", f"{theirs}/status")):
        report.refused(f"not {what} of another node", lambda path=path: agent.patch(path, {"metadata": {"labels": {"a": "b"}},
                       "status": {"phase": "Failed"}}), 422, "its own node")
    report.refused("it can't take another node's card", lambda: agent.patch(theirs, {"spec": {"card": {"nodeName": "node-a"}}}), 422)
    report.refused("it can't give its card to another node", lambda: agent.patch(mine, {"spec": {"card": {"nodeName": "node-b"}}}), 422)
    report.refused("it can't delete another node's card", lambda: agent.delete(theirs), 422, "its own node")
    report.refused("it can't write the ledger", lambda: agent.patch(mine, {"spec": {"allocations": {"u-1": entry}}}), 422,
                   "spec.allocations")
    client.patch(mine, {"spec": {"allocations": {"u-1": entry}}})
    report.refused("it can't clear the ledger", lambda: agent.patch(mine, {"spec": {"allocations": None}}), 422, "spec.allocations")
    report.refused("it cannot remove the finalizer of a card with entries", lambda: agent.patch(mine, {"metadata": {"finalizers": None}}), 422,
                   "elasticgpu.io/ledger")
    report.check("it updates its card, entries and all",
                 agent.patch(mine, {"metadata": {"labels": {"a": "b"}}})["metadata"]["labels"]["a"] == "b")
    client.patch(mine, {"spec": {"allocations": None}})
    agent.delete(mine)
    agent.patch(mine, {"metadata": {"finalizers": None}})
    report.check("it deletes its card", not client.exists(mine))

    agents_of_remote_devices(client, agent, report)
    nobody = client.as_token(cluster.pki, client.token_for(installation.NAMESPACE, AGENT))
    report.refused("a token without a node publishes nothing", lambda: nobody.create(GPUS, own), 422, "contains no node")
    report.refused("the policy binds agents only; RBAC all others", lambda: client.as_token(
        cluster.pki, client.token_for("default", "somebody")).create(GPUS, own), 403)


def agents_of_remote_devices(client, agent, report):
    remote = f"{GPUS}/lab-gpu"
    client.create(GPUS, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPU", "metadata": {"name": "lab-gpu"},
                         "spec": {"remote": {"endpoint": "10.0.0.9:7000"}, "egpuClassName": "lab", "reclaimPolicy": "Retain"}})
    loss = {"reason": "LeaseLost", "message": "the lease has ended", "since": "2026-01-02T03:04:05Z"}
    client.patch(f"{remote}/status", {"status": {"accessLost": {"node-b": loss}}})

    def write(status):
        return agent.patch(f"{remote}/status", {"status": status})
    report.check("it reports on its node that a remote device is lost",
                 set(write({"accessLost": {"node-a": loss}})["status"]["accessLost"]) == {"node-a", "node-b"})
    report.check("it withdraws its report", set(write({"accessLost": {"node-a": None}})["status"]["accessLost"]) == {"node-b"})
    for what, status in (("withdraw", {"accessLost": {"node-b": None}}), ("withdraw all of", {"accessLost": None}),
                         ("change", {"accessLost": {"node-b": {"message": "all is well"}}}), ("forge", {"accessLost": {"node-c": loss}})):
        report.refused(f"it can't {what} another node's report", lambda status=status: write(status), 422, "the entry of its own node")
    for field, value in (("phase", "Failed"), ("message", "x"), ("conditions", [{"type": "Healthy", "status": "False"}]),
                         ("isolation", {"mode": "x", "memory": "Enforced", "compute": "Enforced", "faults": "Enforced"}),
                         ("bypassed", {"u": {"message": "x"}})):
        report.refused(f"it can't write status.{field} of a remote device", lambda field=field, value=value: write({field: value}), 422,
                       "only accessLost")
    report.refused("it can't write its labels", lambda: agent.patch(remote, {"metadata": {"labels": {"any": "label"}}}), 422, "its own node")
    report.refused("it can't delete it", lambda: agent.delete(remote), 422, "its own node")
    client.delete(remote)


def visible_devices(cluster, client, report):
    """The optional policy: a container may name cards by NVIDIA's variable only if it also has a claim."""
    def wanting(value, claims=(), of="containers", **entry):
        made = pod("visible", {})
        made["spec"]["resourceClaims"] = [{"name": each, "resourceClaimName": each} for each in claims]
        container = {"name": "other", "image": "none", "env": [{"name": "A", "value": "b"}, {
            "name": "NVIDIA_VISIBLE_DEVICES", **(entry or {"value": value})}]}
        if claims:
            container["resources"] = {"claims": [{"name": each} for each in claims]}
        made["spec"].setdefault(of, []).append(container)
        return made

    def create(body, namespace="default"):
        return client.create(f"{pods_path(namespace)}?dryRun=All", body)

    def refused():
        try:
            create(wanting("all"))
        except Refused as no:
            return "NVIDIA_VISIBLE_DEVICES" in no.body["message"]
        return False

    create(wanting("all"))  # the policy is not among the applied manifests
    installation.kubectl(cluster, "apply", "-f", installation.MANIFESTS / "admission/optional/visible-devices.yaml")
    until("the policy for visible devices is in force", refused)
    for what, body in (("a uuid", wanting("GPU-1")), ("an init container", wanting("all", of="initContainers")),
                       ("a value from elsewhere", wanting("", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}))):
        report.refused(f"visible devices: {what}", lambda body=body: create(body), 422, 'container "other"', "ElasticGPUClaim")
    for what, body in (("none", wanting("none")), ("void", wanting("void")), ("with a claim", wanting("all", ["c"])),
                       ("no such variable", pod("visible", {}))):
        report.check(f"visible devices: {what} is taken", create(body)["metadata"]["name"] == "visible")
    report.check("visible devices: not in kube-system", create(wanting("all"), "kube-system")["metadata"]["name"] == "visible")


def real(report):
    with tempfile.TemporaryDirectory(prefix="egpu-admission-") as folder, Cluster(folder, wanted=PARTS) as cluster:
        old = installation.PODS_WRITE_CLAIMS
        first = installation.apply_manifests(cluster, ("-k", installation.INSTALLED) if old else ("-f", installation.MANIFESTS))
        report.check("apply makes everything at once", "created" in first and "unchanged" not in first, first)
        again = installation.kubectl(cluster, "apply", "-k", installation.INSTALLED)
        objects = [sorted(line.split(" ")[0] for line in output.splitlines()) for output in (first, again)]
        report.check("apply -f of the folder and apply -k have the same objects", objects[0] == objects[1], objects)
        # The Deployment was scaled. kubectl always reports a PodDisruptionBudget as "configured", because it replaces the selector.
        differs = [line for line in again.splitlines() if not line.endswith("unchanged")
                   and not line.startswith(("deployment", "poddisruptionbudget"))]
        report.check("applied again nothing else changes", not differs, differs)
        client = installation.client_of(cluster)
        client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "somebody"}})
        well_typed(client, report)
        connections(client, report)
        creation(client, report, "real", accepted=not old)
        freezing(client, report, "real")
        priorities(client, report, "real")
        if not old:
            placed(client, report, "real")
        agents(cluster, client, report)
        by_name(client, report)
        the_controllers_patches(cluster, client, report)
        crowded(cluster, client, report)
        marks.try_all(cluster, client, report)
        visible_devices(cluster, client, report)
        (on_an_old_one if old else before_136)(cluster, client, report)


def connections(client, report):
    """Each NetworkPolicy selects its pods and ports: probes from everywhere, operations from namespaces with the label."""
    for name, kind in ((installation.CONTROLLER, "deployments"), (AGENT, "daemonsets")):
        policy, workload = (client.get(f"{group}/namespaces/{installation.NAMESPACE}/{resource}/{name}")["spec"] for group, resource in (
            ("/apis/networking.k8s.io/v1", "networkpolicies"), ("/apis/apps/v1", kind)))
        template = workload["template"]
        report.check(f"{name}: it selects its pods", policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items())
        container = template["spec"]["containers"][0]
        listens = {each["name"] for each in container["ports"]}
        to = {port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]}
        report.check(f"{name}: it has a rule for each port, and no other", set(to) == listens, (to, listens))
        probed = {container[each]["httpGet"]["port"] for each in ("livenessProbe", "readinessProbe", "startupProbe")}
        report.check(f"{name}: probes are for all, operations for namespaces with the label",
                     {port for port, who in to.items() if not who} == probed and all(
                         who == [{"namespaceSelector": {"matchLabels": {"elasticgpu.io/operations": "allowed"}}}] for who in to.values() if who), to)


def well_typed(client, report):
    """The controller manager type-checks every expression; the API server accepts them unchecked."""
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

    def checked():
        found = [each for each in client.items(path) if each["metadata"]["name"].startswith("elastic-gpu-")]
        return all(each.get("status", {}).get("observedGeneration") == each["metadata"]["generation"] for each in found) and found

    for policy in until("the types of the policies are checked", checked):
        warnings = policy["status"].get("typeChecking", {}).get("expressionWarnings", [])
        report.check(f"{policy['metadata']['name']}: no warnings", not warnings, warnings)


def on_an_old_one(cluster, _client, report):
    """1.34 and 1.35: applying the whole folder reports the kinds that this server lacks; the overlay replaces them."""
    output = installation.kubectl(cluster, "apply", "-f", installation.MANIFESTS, check=False)
    report.check("apply -f of the folder reports the missing kind", "MutatingAdmissionPolicy" in output and "no matches for kind" in output, output)


def before_136(cluster, client, report):
    """Removes what the overlay for 1.34 and 1.35 lacks (tests/tree/manifests_test.py): one policy is missing, and another one reports that."""
    for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
        installation.kubectl(cluster, "delete", kind, "elastic-gpu-pod-claims", "elastic-gpu-pod-amounts")

    def no_longer_mutated(body):
        try:
            client.create(f"{DEFAULT_PODS}?dryRun=All", body)
        except Refused as refused:
            return refused.body["message"]
        return None

    for what, body, words in (("amounts", asking_amounts("old", gpu="1"), "{name: egpu, resourceClaimTemplateName: egpu-amounts.gpu-1}"),
                              ("a template", pod("old", {TEMPLATE + "x": "t"}), "{name: x, resourceClaimTemplateName: t}")):
        message = until("the mutating policies are out of force", lambda body=body: no_longer_mutated(body))
        report.check(f"without it, {what} by annotation alone: what to write is said", words in message, message)
    message = until("the mutating policy is out of force", lambda: no_longer_mutated(pod("old", {"x": "c1"})))
    report.check("without it, an annotation alone is refused, and what to write is said",
                 "spec.resourceClaims" in message and "{name: x, resourceClaimName: c1}" in message, message)
    stored = client.create(f"{DEFAULT_PODS}?dryRun=All", annotated(own_claims("x", "c1", True), x="c1"))
    report.check("with resourceClaims of its own a pod is taken, annotated or not", outcome(stored) == ({"x": "c1"}, {"main": ["x"]}, []))


def embedded(bin_dir, report):
    with tempfile.TemporaryDirectory(prefix="egpu-admission-") as folder:
        kubeconfig, file = pathlib.Path(folder) / "kubeconfig", pathlib.Path(folder) / "nodes.yaml"
        file.write_text("nodes: [{name: plain, cpu: 1, memory: 1Gi}]\n")
        with subprocess.Popen([pathlib.Path(bin_dir) / "elastic-gpu-controller", "standalone", "--nodes", file, "--listen",
                               "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--write-kubeconfig", kubeconfig],
                              stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              preexec_fn=die_with_parent) as child:
            try:
                until("the embedded API server is up",
                      lambda: child.poll() is not None or (kubeconfig.exists() and "server:" in kubeconfig.read_text()))
                url = re.search(r"http://[0-9.:]+", kubeconfig.read_text()).group()
                client = Client(url)
                creation(client, report, "embedded")
                freezing(client, report, "embedded")
                priorities(client, report, "embedded")
                placed(client, report, "embedded")
            finally:
                child.terminate()


def main():
    report = Report()
    embedded(sys.argv[1], report)
    real(report)
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
