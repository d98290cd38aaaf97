#!/usr/bin/env python3
"""Proves that amounts on pods work for every kind of workload: by annotations, or as NVIDIA's device plugin and HAMi spell them, in labelled namespaces.
Each pod runs with claims of its own. A pod that cannot be converted is refused with a message that names the replacement; mistakes are events on the pods. With the stock
scheduler and controller manager. Needs 1.36.

amounts_test.py BIN_DIR
"""

import sys
import tempfile

import installation
import nodes
import verify
from apiserver import Cluster, guarded
from client import CLASSES, Refused, Report, resource_claims, claims, pods, until
from parts import WHOLE
from pods_test import expect_clean, gpu_class

NODES = [f"n-{index}" for index in range(3)]
GATE = "elasticgpu.io/claims"
AMOUNT = "egpu.elasticgpu.io/"
KINDS = {"nvidia": "device-plugin", "hami": "hami"}  # flavour → namespace
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates"


def spec(containers, inits=(), **more):
    """containers: name → limits."""
    def made(each):
        return [{"name": name, "image": "none", **({"resources": {"limits": limits}} if limits else {})} for name, limits in each.items()]
    return {"containers": made(containers), **({"initContainers": made(inits)} if inits else {}), "terminationGracePeriodSeconds": 0, **more}


def pod(name, containers, inits=(), annotations=None, **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations or {}}, "spec": spec(containers, inits, **more)}


def nvidia(**amounts):
    """gpu → nvidia.com/gpu; an underscore is a hyphen."""
    return {f"nvidia.com/{key.replace('_', '-')}": str(value) for key, value in amounts.items()}


def outcome(stored):
    """Returns name → template, container → names, the remaining NVIDIA limits and requests, and the gates."""
    each = [*stored["spec"].get("initContainers", []), *stored["spec"]["containers"]]
    left = {(one["name"], kind, key) for one in each for kind in ("limits", "requests")
            for key in one.get("resources", {}).get(kind, {}) if key.startswith("nvidia.com/")}
    return ({claim["name"]: claim.get("resourceClaimTemplateName") for claim in stored["spec"].get("resourceClaims", [])},
            {one["name"]: [claim["name"] for claim in one.get("resources", {}).get("claims", [])] for one in each},
            left, [gate["name"] for gate in stored["spec"].get("schedulingGates", [])])


def one_card(amounts):
    return {"main": f"egpu-amounts.{amounts}"}, {"main": ["main"]}, set(), [GATE]


# flavour → case → (pod, result)
CONVERTED = {
    "nvidia": {
        "a card": (pod("p", {"main": nvidia(gpu=1)}), one_card("gpu-1")),
        "several, beside CPU": (pod("p", {"main": {**nvidia(gpu=8), "cpu": "1"}}), one_card("gpu-8")),
        "a thousand, which Kubernetes writes as 1k": (pod("p", {"main": nvidia(gpu=1000)}), one_card("gpu-1000")),
        "containers each their own": (
            pod("p", {"a": nvidia(gpu=1), "b": nvidia(gpu=2), "c": {"cpu": "1"}}),
            ({"a": "egpu-amounts.gpu-1", "b": "egpu-amounts.gpu-2"}, {"a": ["a"], "b": ["b"], "c": []}, set(), [GATE])),
        "an init container with as many shares its container's": (
            pod("p", {"a": nvidia(gpu=2), "b": nvidia(gpu=1)}, {"i": nvidia(gpu=1), "j": nvidia(gpu=4), "k": {}}),
            ({"a": "egpu-amounts.gpu-2", "b": "egpu-amounts.gpu-1", "j": "egpu-amounts.gpu-4"},
             {"i": ["b"], "j": ["j"], "k": [], "a": ["a"], "b": ["b"]}, set(), [GATE])),
        "none": (pod("p", {"main": nvidia(gpu=0)}), ({}, {"main": []}, set(), [])),
        "nothing asked for": (pod("p", {"main": {"cpu": "1"}}), ({}, {"main": []}, set(), [])),
        "other gates and claims stay": (
            pod("p", {"main": nvidia(gpu=1)}, schedulingGates=[{"name": "example.com/wait"}],
                resourceClaims=[{"name": "nic", "resourceClaimTemplateName": "nics"}]),
            ({"nic": "nics", "main": "egpu-amounts.gpu-1"}, {"main": ["main"]}, set(), ["example.com/wait", GATE])),
        "a pod on a node by name has no gate": (
            pod("p", {"main": nvidia(gpu=1)}, nodeName="n-0"), ({"main": "egpu-amounts.gpu-1"}, {"main": ["main"]}, set(), [])),
    },
    "hami": {
        "a whole card": (pod("p", {"main": nvidia(gpu=1)}), one_card("gpu-1")),
        "memory and cores": (pod("p", {"main": nvidia(gpu=1, gpumem=3000, gpucores=30)}), one_card("gpu-1.core-30.memory-3000-mi")),
        "of each of two": (pod("p", {"main": nvidia(gpu=2, gpumem=8192, gpucores=50)}), one_card("gpu-2.core-50.memory-8192-mi")),
        "memory alone": (pod("p", {"main": nvidia(gpu=1, gpumem=10000)}), one_card("gpu-1.memory-10000-mi")),
        "memory, and no count": (pod("p", {"main": nvidia(gpumem=3000)}), one_card("gpu-1.memory-3000-mi")),
        "all cores and some memory": (pod("p", {"main": nvidia(gpu=1, gpumem=3000, gpucores=100)}), one_card("gpu-1.core-100.memory-3000-mi")),
        "the same percentage of both": (pod("p", {"main": nvidia(gpu=1, gpucores=30, gpumem_percentage=30)}), one_card("gpu-1.core-30")),
        "all of both": (pod("p", {"main": nvidia(gpu=1, gpucores=100, gpumem_percentage=100)}), one_card("gpu-1")),
        "containers each their own": (
            pod("p", {"a": nvidia(gpu=1, gpumem=1000), "b": nvidia(gpu=1, gpumem=2000)}, {"i": nvidia(gpu=1, gpumem=2000)}),
            ({"a": "egpu-amounts.gpu-1.memory-1000-mi", "b": "egpu-amounts.gpu-1.memory-2000-mi"},
             {"i": ["b"], "a": ["a"], "b": ["b"]}, set(), [GATE])),
    },
}
ONE = {"main": nvidia(gpu=1)}
REFUSED = {
    "nvidia": {
        "a compute instance": (pod("p", {"main": nvidia(**{"mig-1c.3g.20gb": 1})}), ('container "main": resources.limits[nvidia.com/mig-1c.3g.20gb]', "such as nvidia.com/mig-1g.10gb")),
        "one beside a card": (pod("p", {"main": nvidia(gpu=1), "b": nvidia(**{"gpu.shared": 1})}), ('container "b": resources.limits[nvidia.com/gpu.shared]',)),
        "HAMi's memory": (pod("p", {"main": nvidia(gpu=1, gpumem=3000)}), ("resources.limits[nvidia.com/gpumem]", "elasticgpu.io/migrate=hami")),
        "amounts by annotation too": (pod("p", ONE, annotations={AMOUNT + "gpu": "1"}), ("metadata.annotations[egpu.elasticgpu.io/gpu]", "remove the annotation")),
        "a claim for the same container": (pod("p", ONE, annotations={"egpuc.elasticgpu.io/main": "c"}), ("metadata.annotations[egpuc.elasticgpu.io/main]", "remove the annotation")),
        "a name that is taken": (pod("p", ONE, resourceClaims=[{"name": "main", "resourceClaimName": "x"}]), ('spec.resourceClaims: "main" is reserved for the claim',)),
        "65 containers": (pod("p", {"main": nvidia(gpu=1), **{f"c{each}": {} for each in range(64)}}), ("spec.containers:", "at most 64 containers")),
    },
    "hami": {
        "a part of the memory and all cores": (pod("p", {"main": nvidia(gpu=1, gpumem_percentage=50)}), ('container "main"', 'set nvidia.com/gpumem: "<MiB>"')),
        "a part of the cores and all memory": (pod("p", {"main": nvidia(gpu=1, gpucores=30)}), ('container "main"', 'set nvidia.com/gpumem: "<MiB>"')),
        "different parts": (pod("p", {"main": nvidia(gpu=1, gpucores=30, gpumem_percentage=50)}), ('set nvidia.com/gpumem: "<MiB>"',)),
        "memory twice": (pod("p", {"main": nvidia(gpu=1, gpumem=100, gpumem_percentage=50)}), ("both set the memory",)),
        "more than all cores": (pod("p", {"main": nvidia(gpu=1, gpucores=200, gpumem=100)}), ("at most 100",)),
        "a priority": (pod("p", {"main": nvidia(gpu=1, priority=1)}), ("resources.limits[nvidia.com/priority]",)),
        "a type of card": (pod("p", ONE, annotations={"nvidia.com/use-gputype": "A100"}), ("metadata.annotations[nvidia.com/use-gputype]", "migrate-class")),
    },
}


def message_of(client, path, body):
    try:
        client.create(path, body)
    except Refused as refused:
        return str(refused.body.get("message", ""))
    return ""


def install_migration(cluster, client, report):
    for flavour, namespace in KINDS.items():
        client.create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": {
            "elasticgpu.io/migrate": flavour, "elasticgpu.io/migrate-class": "share"}}})
        path = f"{pods(namespace)}?dryRun=All"
        installation.kubectl(cluster, "apply", "-f", installation.MANIFESTS / "migrate" / flavour / "refuse.yaml")
        message = until("pods are refused where no policy converts them", lambda path=path: message_of(client, path, pod("p", ONE)))
        report.check(f"{flavour}: the message names the entries to add",
                     "add {name: main, resourceClaimTemplateName: egpu-amounts.gpu-1.class-share}" in message, message)
        installation.kubectl(cluster, "apply", "-k", installation.MANIFESTS / "migrate" / flavour)
        until("pods are converted", lambda path=path: not message_of(client, path, pod("p", ONE)))


def tables(client, report):
    for flavour, cases in CONVERTED.items():
        path = f"{pods(KINDS[flavour])}?dryRun=All"
        for what, (body, (entries, *rest)) in cases.items():
            expected = ({name: f"{template}.class-share" if template.startswith("egpu-") else template for name, template in entries.items()}, *rest)
            try:
                made = outcome(client.create(path, body))
            except Refused as refused:
                made = refused
            report.check(f"{flavour}: {what}", made == expected, made)
    for flavour, cases in REFUSED.items():
        for what, (body, words) in cases.items():
            report.refused(f"{flavour}: {what}", lambda flavour=flavour, body=body: client.create(f"{pods(KINDS[flavour])}?dryRun=All", body), 422, *words)
    stored = client.create(f"{pods()}?dryRun=All", pod("p", ONE))
    report.check("in other namespaces nothing is converted", outcome(stored)[0] == {} and outcome(stored)[3] == [])
    client.patch(f"/api/v1/namespaces/{KINDS['hami']}", {"metadata": {"labels": {"elasticgpu.io/migrate-class": "No_Class"}}})
    until("a class that is no name is refused", lambda: "migrate-class" in message_of(client, f"{pods(KINDS['hami'])}?dryRun=All", pod("p", ONE)))
    client.patch(f"/api/v1/namespaces/{KINDS['hami']}", {"metadata": {"labels": {"elasticgpu.io/migrate-class": "share"}}})
    until("and a name is taken", lambda: not message_of(client, f"{pods(KINDS['hami'])}?dryRun=All", pod("p", ONE)))


TENTH = {AMOUNT + "class": "share", AMOUNT + "gpu-core": "10", AMOUNT + "gpu-memory": "4Gi"}


def workload(kind, name, containers, annotations=None, **more):
    """Creates a workload of any kind that creates pods."""
    template = {"metadata": {"labels": {"app": name}, "annotations": annotations or {}}, "spec": spec(containers)}
    selector = {"matchLabels": {"app": name}}
    group = "batch" if kind in ("Job", "CronJob") else "apps"
    if kind in ("Job", "CronJob"):
        template["spec"]["restartPolicy"] = "Never"
        made = {"template": template, "parallelism": 2, "completions": 2}
        made = {"jobTemplate": {"spec": made}, "schedule": "* * * * *"} if kind == "CronJob" else made
    else:
        made = {"template": template, "selector": selector, **({} if kind == "DaemonSet" else {"replicas": 3})}
    return f"/apis/{group}/v1/namespaces/{{}}/{kind.lower()}s", {
        "apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}, "spec": {**made, **more}}


def of(client, app, namespace):
    return [each for each in client.items(pods(namespace)) if each["metadata"].get("labels", {}).get("app") == app
            and "deletionTimestamp" not in each["metadata"]]


def run(client, report, kind, namespace, containers, annotations=None, expected=3):
    name = f"{kind.lower()}-{namespace}"
    path, body = workload(kind, name, containers, annotations)
    client.create(path.format(namespace), body)

    def ran():
        return [each for each in of(client, name, namespace) if each["status"].get("phase") in ("Running", "Succeeded")]

    until(f"the {kind} in {namespace} runs", lambda: len(ran()) >= expected, patience=300)
    stamped = [status["resourceClaimName"] for one in ran() for status in one["status"].get("resourceClaimStatuses", [])]
    report.check(f"{kind} in {namespace}: each pod has claims of its own", len(set(stamped)) == len(stamped) >= expected, stamped)
    if "Job" not in kind:  # pods of Jobs end, and their claims with them
        def phases():  # kwok runs a pod as soon as it is placed; its claim may be Bound a moment later
            there = {one["metadata"]["name"]: one.get("status", {}).get("phase") for one in client.items(claims(namespace))}
            return all(there.get(one) == "Bound" for one in stamped)

        until(f"{kind} in {namespace}: which are bound", phases)
    return path.format(namespace) + "/" + name, name


def workloads(client, report):
    paths = [run(client, report, kind, "default", {"main": {}}, TENTH, expected)[0]
             for kind, expected in (("Deployment", 3), ("StatefulSet", 3), ("DaemonSet", len(NODES)), ("Job", 2), ("CronJob", 2))]
    found = [each["metadata"]["name"] for each in client.items(TEMPLATES.format("default"))]
    report.check("one template serves them all", found == ["egpu-amounts.core-10.memory-4-gi.class-share"], found)
    paths.append(run(client, report, "Deployment", KINDS["nvidia"], {"main": nvidia(gpu=1)})[0])
    paths.append(run(client, report, "StatefulSet", KINDS["hami"], {"a": nvidia(gpu=1, gpumem=4000, gpucores=10), "b": nvidia(gpumem=2000)}, expected=3)[0])
    devices = verify.World(client).devices.values()
    whole = [each for each in devices if [card["core"] for card in each["spec"]["cards"]] == [1000]]
    report.check("the device plugin's pods have whole cards", len(whole) == 3, len(whole))
    small = sorted((card["core"], card["memory"]) for each in devices for card in each["spec"]["cards"] if "hami" in each["spec"]["claimRef"]["namespace"])
    report.check("HAMi's have what they asked for", small == [(0, 2000 << 20)] * 3 + [(100, 4000 << 20)] * 3, small)
    expect_clean(client, report, "workloads")
    scaled(client, report, paths[0])
    daemons(client, report, paths[2])
    for path in paths:
        client.call("DELETE", path, {"propagationPolicy": "Foreground"})
    spaces = ("default", *KINDS.values())
    until("everything is given back", lambda: not any(client.items(claims(space)) or client.items(resource_claims(space)) for space in spaces)
          and not verify.World(client).devices, patience=300)


def scaled(client, report, path):
    """Scales up and down, then changes the amounts by a rolling update."""
    client.patch(path, {"spec": {"replicas": 8}})
    until("eight run", lambda: client.get(path)["status"].get("readyReplicas") == 8, patience=300)
    client.patch(path, {"spec": {"replicas": 2, "template": {"metadata": {"annotations": {AMOUNT + "gpu-core": "20"}}}}})
    until("two with other amounts run, and no other is left", lambda: len(of(client, "deployment-default", "default")) == 2 and all(
        each["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == "egpu-amounts.core-20.memory-4-gi.class-share"
        and each["status"].get("phase") == "Running" for each in of(client, "deployment-default", "default")), patience=300)
    until("the others' claims are gone", lambda: len([each for each in client.items(claims()) if each["metadata"]["name"].startswith("deployment")]) == 2)
    report.check("both templates stand, as the first may be wanted again", len(client.items(TEMPLATES.format("default"))) == 2)


def daemons(client, report, path):
    """A DaemonSet's pods return to their nodes: after a rolling update with other amounts, and after an eviction."""
    name = path.rsplit("/", 1)[1]
    client.patch(path, {"spec": {"template": {"metadata": {"annotations": {AMOUNT + "gpu-core": "20"}}}}})
    wanted = "egpu-amounts.core-20.memory-4-gi.class-share"

    def all_run():
        mine = of(client, name, "default")
        return len(mine) == len(NODES) and all(each["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == wanted
                                               and each["status"].get("phase") == "Running" for each in mine) and mine

    first = until("all of its pods run with other amounts", all_run, patience=300)[0]
    here = first["spec"]["nodeName"]
    client.create(f"{pods()}/{first['metadata']['name']}/eviction",
                  {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": first["metadata"]["name"], "namespace": "default"}})
    after = until("another one runs in its place", lambda: [
        each for each in all_run() or () if each["spec"]["nodeName"] == here and each["metadata"]["uid"] != first["metadata"]["uid"]], patience=300)[0]
    old, new = (each["status"]["resourceClaimStatuses"][0]["resourceClaimName"] for each in (first, after))
    report.check("it has a claim of its own", old != new, (old, new))
    until("the evicted one's claim is gone", lambda: not client.exists(f"{claims()}/{old}"))


def mistakes(client, report):
    """Each mistake is an event on the pod that describes it."""
    cases = {
        "not-a-quantity": ({AMOUNT + "class": "share", AMOUNT + "gpu-core": "ten"}, "metadata.annotations[egpu.elasticgpu.io/gpu-core]: must be a quantity"),
        "cant-be-spelled": ({AMOUNT + "class": "share", AMOUNT + "gpu-core": "10 %"}, "metadata.annotations[egpu.elasticgpu.io/gpu-core]: must be a quantity"),
        "unknown-amount": ({AMOUNT + "gpu": "1", AMOUNT + "memory": "4Gi"}, "metadata.annotations[egpu.elasticgpu.io/memory]: unknown"),
        "no-amount": ({AMOUNT + "class": "share"}, "metadata.annotations[egpu.elasticgpu.io/gpu-core]: missing"),
        "no-class": ({AMOUNT + "class": "none", AMOUNT + "gpu": "1"}, "ClassNotFound"),
        "no-such-card": ({AMOUNT + "class": "share", AMOUNT + "gpu": "64"}, "NoFit"),
        "more-than-a-card": ({AMOUNT + "class": "share", AMOUNT + "gpu-core": "150"}, "NotRepresentable"),
    }
    for name, (annotations, _) in cases.items():
        client.create(pods(), pod(name, {"main": {}}, annotations=annotations))
    for name, (_, words) in cases.items():
        def reported(name=name, words=words):
            return [each for each in client.items("/api/v1/namespaces/default/events")
                    if each["involvedObject"]["name"] == name and words in each["message"]]

        until(f"{name}: the pod has an event", reported, patience=60)
        report.check(f"{name}: the pod has an event", True)
        client.delete(f"{pods()}/{name}")


def main():
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-amounts-") as folder, Cluster(folder, wanted=WHOLE) as cluster:
        installation.apply_manifests(cluster)
        client = installation.client_of(cluster)
        install_migration(cluster, client, report)
        tables(client, report)
        nodes.publish(client, NODES, 8)
        until("the nodes are ready", lambda: nodes.all_ready(client, NODES))
        client.create(CLASSES, gpu_class("share", "WaitForFirstConsumer"))
        installation.start_controller(cluster, sys.argv[1])
        workloads(client, report)
        mistakes(client, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
