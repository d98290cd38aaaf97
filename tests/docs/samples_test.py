"""Proves that manifests/samples/workloads can be used: objects of this group and of other projects have only fields of their CRDs, the annotations of pods
are valid, and pods as their controllers would create them become Ready in the standalone mode.

samples_test.py BIN_DIR
"""
import json
import os
import pathlib
import re
import shutil
import sys

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "e2e"))
from standalone import Kubectl, Report, Standalone, until  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "manifests" / "samples" / "workloads"
POD = "pod"  # the place of a pod template
ANY = "any"
JOB = {"parallelism": int, "completions": int, "completionMode": str, "backoffLimit": int, "suspend": bool, "ttlSecondsAfterFinished": int, "template": POD}
# apiVersion, kind → fields of spec down to the pod templates, from the CRDs of JobSet 0.10, LeaderWorkerSet 0.7, KubeRay 1.5 and Kubeflow's training
# operator 1.9, and from Kubernetes' own kinds. A name with "!" is required. A list has one entry for all of its elements, and "*" is any key.
KINDS = {
    ("apps/v1", "Deployment"): {"replicas": int, "selector!": ANY, "strategy": ANY, "template!": POD},
    ("apps/v1", "StatefulSet"): {"replicas": int, "selector!": ANY, "serviceName": str, "podManagementPolicy": str, "volumeClaimTemplates": ANY, "template!": POD},
    ("v1", "Service"): {"selector": ANY, "ports": ANY, "clusterIP": str},
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): {
        "coordinator": ANY, "failurePolicy": {"maxRestarts": int, "rules": ANY}, "network": ANY, "startupPolicy": ANY, "successPolicy": ANY, "suspend": bool,
        "ttlSecondsAfterFinished": int, "replicatedJobs": [{"name!": str, "replicas": int, "groupName": str, "dependsOn": ANY, "template!": {"metadata": ANY, "spec!": JOB}}]},
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): {
        "replicas": int, "networkConfig": ANY, "rolloutStrategy": ANY, "startupPolicy": str,
        "leaderWorkerTemplate!": {"leaderTemplate": POD, "workerTemplate!": POD, "size": int, "restartPolicy": str, "subGroupPolicy": ANY}},
    ("ray.io/v1", "RayCluster"): {
        "rayVersion": str, "enableInTreeAutoscaling": bool, "autoscalerOptions": ANY, "suspend": bool,
        "headGroupSpec!": {"rayStartParams": {"*": str}, "serviceType": str, "template!": POD},
        "workerGroupSpecs": [{"groupName!": str, "replicas": int, "minReplicas!": int, "maxReplicas!": int, "rayStartParams": {"*": str}, "template!": POD}]},
    ("kubeflow.org/v1", "PyTorchJob"): {
        "elasticPolicy": ANY, "nprocPerNode": str, "runPolicy": ANY,
        "pytorchReplicaSpecs!": {"*": {"replicas": int, "restartPolicy": str, "template": POD}}},
}
AMOUNTS = {"class", "gpu", "gpu-core", "gpu-memory", "tflops", "model", "isolation", "priority"}
GANG = ("elasticgpu.io/gang", "elasticgpu.io/gang-size")
QUANTITY = re.compile(r"[1-9][0-9]*(Ki|Mi|Gi|Ti)?")


def shape(value, known, at, templates, bad):
    """Compares a value with the known fields. Appends (path, pod template, enclosing fields) to templates."""
    if known == ANY:
        return
    if isinstance(known, list):
        for index, each in enumerate(value):
            shape(each, known[0], f"{at}[{index}]", templates, bad)
    elif isinstance(known, dict):
        fields = {name.rstrip("!"): inner for name, inner in known.items()}
        bad.extend(f"{at} lacks {name[:-1]}" for name in known if name.endswith("!") and name[:-1] not in value)
        for name, inner in value.items():
            if name not in fields and "*" not in fields:
                bad.append(f"{at} has an unknown field {name}")
            elif (kind := fields.get(name, fields.get("*"))) == POD:
                templates.append((f"{at}.{name}", inner, value))
            else:
                shape(inner, kind, f"{at}.{name}", templates, bad)
    elif not isinstance(value, known) or isinstance(value, bool) != (known is bool):
        bad.append(f"{at} is no {known.__name__}: {value!r}")


def crd_fields(value, schema, at, bad):
    """Compares an object of this group with the schema of its CRD."""
    if isinstance(value, list):
        for each in value:
            crd_fields(each, schema.get("items", {}), f"{at}[]", bad)
    elif isinstance(value, dict) and "properties" in schema:
        bad.extend(f"{at} lacks {name}" for name in schema.get("required", []) if name not in value)
        for name, inner in value.items():
            if name not in schema["properties"]:
                bad.append(f"{at}: the CRD has no field {name}")
            elif name != "metadata":
                crd_fields(inner, schema["properties"][name], f"{at}.{name}", bad)
    elif "enum" in schema and value not in schema["enum"]:
        bad.append(f"{at} is {value}, not one of {schema['enum']}")


def replicas_of(kind, path, fields):
    """Returns the number of pods of a template, as its controller would create them with the fields beside it."""
    if kind == "LeaderWorkerSet":
        return 1 if path.endswith("leaderTemplate") or "leaderTemplate" not in fields else fields["size"] - 1
    return fields.get("parallelism", fields.get("replicas", 1))


def annotations(at, template, classes, claims, bad):
    for key, value in (template.get("metadata", {}).get("annotations") or {}).items():
        prefix, _, name = key.partition("/")
        if not isinstance(value, str):
            bad.append(f"{at}: {key} is no string")
        elif prefix == "egpu.elasticgpu.io":
            if name not in AMOUNTS:
                bad.append(f"{at}: no amount is called {name}")
            elif name == "class" and value not in classes:
                bad.append(f"{at}: classes.yaml has no class {value}")
            elif name.startswith("gpu") and not QUANTITY.fullmatch(value):
                bad.append(f"{at}: {key} is no quantity: {value}")
        elif prefix == "egpuc.elasticgpu.io":
            if value not in claims:
                bad.append(f"{at}: no claim of the file is called {value}")
        elif key not in GANG:
            bad.append(f"{at}: unknown annotation {key}")


def read(path, kinds, classes, bad):
    """Returns the objects of this group in a file, and the pods of its other objects."""
    ours, pods, sizes = [], [], {}
    objects = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    claims = {each["metadata"]["name"] for each in objects if each["kind"] == "ElasticGPUClaim"}
    for each in objects:
        at, templates = f"{path.name}: {each['kind']}", []
        if each["apiVersion"].startswith("elasticgpu.io/"):
            crd_fields(each, kinds[each["kind"]], at, bad)
            ours.append(each)
        elif (known := KINDS.get((each["apiVersion"], each["kind"]))) is None:
            bad.append(f"{at}: no known kind of {each['apiVersion']}")
        else:
            shape(each["spec"], known, at, templates, bad)
        for where, template, fields in templates:
            annotations(where, template, classes, claims, bad)
            number = replicas_of(each["kind"], where, fields)
            given = (template.get("metadata") or {}).get("annotations", {})
            if GANG[0] in given:
                sizes.setdefault((given[GANG[0]], given[GANG[1]]), []).append(number)
            for index in range(number):
                name = re.sub(r"[^a-z0-9]+", "-", f"{each['metadata']['name']}{where.split(':')[1]}-{index}".lower()).strip("-")
                pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name[-63:].strip("-"), "annotations": given}, "spec": template["spec"]})
    bad.extend(f"{path.name}: gang {name} has {sum(found)} pods, not {size}" for (name, size), found in sizes.items() if sum(found) != int(size))
    return ours, pods


def self_check():
    def wrong(value, known):
        bad = []
        shape(value, known, "x", [], bad)
        return bad

    job = KINDS["jobset.x-k8s.io/v1alpha2", "JobSet"]
    assert wrong({"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {}}}}]}, job) == []
    assert wrong({"replicatedJobs": [{"template": {"spec": {"paralelism": 1}}}]}, job) == ["x.replicatedJobs[0] lacks name", "x.replicatedJobs[0].template.spec has an unknown field paralelism"]
    assert wrong({"suspend": "no"}, job) == ["x.suspend is no bool: 'no'"]
    bad = []
    annotations("x", {"metadata": {"annotations": {"egpu.elasticgpu.io/gpu-cores": "1", "egpu.elasticgpu.io/class": "none", "egpu.elasticgpu.io/gpu": "1.5"}}}, {"whole"}, set(), bad)
    assert len(bad) == 3, bad


def run(report, programs, classes, files):
    """Creates the pods of each file, and waits until all of them are Ready."""
    server = Standalone(programs, (ROOT / "manifests/samples/nodes/mixed.yaml").read_text(encoding="utf-8"))
    try:
        kubectl = Kubectl("kubectl", server.kubeconfig, server.work)
        kubectl.ok("apply", "-f", "-", stdin=yaml.safe_dump_all(classes))
        for name, (ours, pods) in files.items():
            kubectl.ok("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": ours + pods}))

            def ready():
                found = kubectl.json("get", "pods")["items"]
                return len(found) == len(pods) and all(each["status"].get("phase") == "Running" for each in found)
            waiting = "" if until(ready, 60) else kubectl.ok("get", "pods,egpuc,events")
            report.check(f"{name}: {len(pods)} pods run", not waiting, waiting)
            claims = [each["status"].get("phase") for each in kubectl.json("get", "egpuc")["items"]]
            annotated = sum(bool(each["metadata"]["annotations"]) for each in pods)
            report.check(f"{name}: {annotated} claims are bound", claims == ["Bound"] * annotated and claims, claims)
            kubectl.ok("delete", "pods,egpuc", "--all", "--timeout=60s")
    finally:
        server.clean()


def main(programs):
    self_check()
    report, bad, kinds = Report(), [], {}
    for path in (ROOT / "manifests" / "crd").glob("elasticgpu.io_*.yaml"):
        crd = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        kinds[crd["names"]["kind"]] = next(each["schema"]["openAPIV3Schema"] for each in crd["versions"] if each["name"] == "v1alpha")
    classes = list(yaml.safe_load_all((WORKLOADS / "classes.yaml").read_text(encoding="utf-8")))
    for each in classes:
        crd_fields(each, kinds["ElasticGPUClass"], "classes.yaml", bad)
    names = {each["metadata"]["name"] for each in classes}
    files = {path.name: read(path, kinds, names, bad) for path in sorted(WORKLOADS.glob("*.yaml")) if path.name != "classes.yaml"}
    report.check("fields and annotations", not bad and len(files) >= 6, bad)
    if shutil.which("kubectl"):
        run(report, programs, classes, files)
    else:
        report.close()
        print("skipped: kubectl is missing")
        return 1 if report.failed else 77
    return report.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
