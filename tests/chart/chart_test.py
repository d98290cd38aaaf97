#!/usr/bin/env python3
"""Proves that the chart renders the same objects as the kustomizations, for each preset and Kubernetes version, with Helm 3 and Helm 4; that each value has its
effect; and that wrong values are refused with the name of the field and the valid values.

Exit status 77: skipped, because Go is missing and helm is not built.
"""

import json
import sys
import tempfile

import yaml

import tools
from apiserver import guarded
from client import Report
from tools import CHART, HELMS, RETAIN, MANIFESTS, kustomized, objects, run, tool, without_empty_lines, without_retain

DEPLOYMENT = ("apps/v1", "Deployment", "elastic-gpu-system", "elastic-gpu-controller")
DAEMONSET = ("apps/v1", "DaemonSet", "elastic-gpu-system", "elastic-gpu-agent")
OLD = ("--kube-version", "1.35.4")
SERVED = ("--kube-version", "1.36.1", "--api-versions", "apiregistration.k8s.io/v1")
MUTATING = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
DIGEST = "sha256:" + 64 * "0"

# (what, arguments of helm template, folders whose kustomizations contain the same objects, further files, omitted files)
EQUAL = [
    ("default values", (), (".",), ()),
    ("1.34", ("--kube-version", "1.34.0"), ("overlays/1.34",), ()),
    ("1.35", OLD, ("overlays/1.34",), ()),
    ("a version with a suffix", ("--kube-version", "v1.36.1-gke.100"), (".",), ()),
    ("driver of the GPU operator", ("--set", "driver.preset=gpu-operator"), ("overlays/gpu-operator",), ()),
    ("driver of GKE", ("--set", "driver.preset=gke"), ("overlays/gke",), ()),
    ("driver of Bottlerocket", ("--set", "driver.preset=bottlerocket"), ("overlays/bottlerocket",), ()),
    ("migration from NVIDIA's device plugin", ("--set", "migration.nvidia=true"), (".", "migrate/nvidia"), ()),
    ("both migrations", ("--set", "migration.nvidia=true,migration.hami=true"), (".", "migrate/nvidia", "migrate/hami"), ()),
    ("migration on 1.35", ("--set", "migration.hami=true", *OLD), ("overlays/1.34", "migrate/constraints"), ("migrate/hami/refuse.yaml",)),
    ("monitoring", ("--set", "podMonitor.enabled=true,alerts.enabled=true,dashboards.enabled=true"), (".", "monitoring"), ()),
    ("visible devices", ("--set", "admission.visibleDevices=true"), (".",), ("admission/optional/visible-devices.yaml",)),
    ("into the namespace itself", ("--namespace", "elastic-gpu-system"), (".",), ()),
    ("a parent chart's values", ("--set", "global.region=x"), (".",), ()),
]

# (arguments, words of the message)
REFUSED = [
    ("image.digest=abc", ("/image/digest", "sha256")),
    ("image.repositry=x", ("/image", "repositry")),
    ("controler.replicas=1", ("controler",)),
    ("controller.replicas=many", ("/controller/replicas", "integer")),
    ("controller.replicas=-1", ("/controller/replicas", "minimum")),
    ("controller.journal.size=1TB", ("/controller/journal/size", "Mi|Gi")),
    ("controller.journal.existingClaim=Journals_", ("/controller/journal/existingClaim",)),
    ("controller.resources.request.cpu=1", ("/controller/resources", "request")),
    ("controller.resources.requests.cpu=fast", ("/controller/resources/requests/cpu",)),
    ("controller.extraArgs[0]=log-level", ("/controller/extraArgs/0", "^--")),
    ("agent.extraEnv[0].value=x", ("/agent/extraEnv/0", "name")),
    ("controller.nodeSelector.pool=1", ("/controller/nodeSelector/pool", "string")),
    ("agent.kubeletDir=var/lib", ("/agent/kubeletDir", "^(/")),
    ("agent.maxUnavailable=200%", ("/agent/maxUnavailable",)),
    ("agent.enabled=sometimes", ("/agent/enabled", "boolean")),
    ("driver.preset=aks", ("/driver/preset", "host", "gpu-operator", "gke", "bottlerocket", "custom")),
    ("driver.preset=custom", ("driver.root", "custom")),
    ("driver.root=/opt/nvidia", ("driver.root", "custom", "host")),
    ("driver.preset=custom,driver.root=/opt/nvidia,driver.mount=/srv", ("driver.mount", "/srv", "/opt/nvidia")),
    ("admission.mutating=maybe", ("/admission/mutating", "auto")),
    ("migration.kai=true", ("/migration", "kai")),
    ("priorityClass.value=2000000000", ("/priorityClass/value", "maximum")),
    ("podMonitor.interval=often", ("/podMonitor/interval",)),
    ("commonLabels.a=1", ("/commonLabels/a", "string")),
]


def rendered(helm, *arguments):
    status, text, error = run(tool(helm), "template", "elastic-gpu", CHART, *arguments)
    if status:
        raise tools.Failure(f"{helm} template {arguments}: {error}")
    return objects(text)


def spec_of(found, key):
    return found[key]["spec"]["template"]["spec"]


def container(found, key):
    return spec_of(found, key)["containers"][0]


def check_equal(report, helm, cases):
    expected = {}
    for what, arguments, folders, files in cases:
        want = {}
        for each in folders:
            if each not in expected:
                expected[each] = kustomized(each)
            want |= expected[each]
        for each in files:
            want |= objects((MANIFESTS / each).read_text(encoding="utf-8"))
        got = rendered(helm, *arguments)
        crds = [each for key, each in got.items() if key[1] == "CustomResourceDefinition"]
        report.check(f"{helm}, {what}: CRDs are kept", len(crds) == 5 and all(each["metadata"]["annotations"] == RETAIN for each in crds))
        got = without_retain(got)
        different = sorted(str(key) for key in got.keys() | want.keys() if without_empty_lines(got.get(key)) != without_empty_lines(want.get(key)))
        report.check(f"{helm}, {what}: the objects are those of {', '.join(folders)}", not different, different)


def check_refused(report, helm):
    for value, words in REFUSED:
        status, _, error = run(tool(helm), "template", CHART, "--set", value)
        report.check(f"{helm} refuses {value} with {words}", status != 0 and all(word in error for word in words), error)
    status, _, error = run(tool(helm), "template", CHART, "--kube-version", "1.33.0")
    report.check(f"{helm} refuses Kubernetes 1.33", status != 0 and "1.34" in error, error)
    status, _, error = run(tool(helm), "template", CHART, "--set", "podMonitor.enabled=true", *SERVED)
    report.check(f"{helm} names the missing operator", status != 0 and "podMonitor.enabled" in error and "Prometheus operator" in error, error)


def check_versions(report, helm):
    """The mutating policies are rendered if the API server serves them, or if a value enables them."""
    for what, arguments, expected in (
            ("not served", SERVED, 0), ("served", (*SERVED, "--api-versions", MUTATING), 2), ("turned off", ("--set", "admission.mutating=false"), 0),
            ("turned on", ("--set", "admission.mutating=true", *OLD), 2)):
        found = sum(key[1] == "MutatingAdmissionPolicy" for key in rendered(helm, *arguments))
        report.check(f"{helm}: mutating policies, {what}", found == expected, found)


def check_values(report, helm):
    """Each value has its effect, and only that."""
    got = rendered(helm, "--set", ",".join((
        "image.repository=registry.example.com/egpu", f"image.digest={DIGEST}", "image.pullPolicy=Always", "image.pullSecrets={credentials}",
        "commonLabels.team=gpu", "controller.replicas=3", "controller.resources.limits.memory=8Gi", "controller.podDisruptionBudget=false",
        "controller.journal.enabled=true", "controller.journal.size=2Gi", "controller.extraArgs={--card-metrics}", "controller.hostNetwork=true",
        "controller.podLabels.a=b", "agent.kubeletDir=/data/kubelet", "agent.hostPaths={/opt/vendor}", "agent.maxUnavailable=2",
        "agent.tolerations=null", "agent.podAnnotations.c=d", "priorityClass.create=true", "priorityClass.quota=true", "networkPolicy.enabled=false",
        "namespace.create=false", "crds.keep=false")))
    controller, agent = container(got, DEPLOYMENT), container(got, DAEMONSET)
    image = f"registry.example.com/egpu@{DIGEST}"
    report.check("image", {controller["image"], agent["image"]} == {image} and {controller["imagePullPolicy"], agent["imagePullPolicy"]} == {"Always"})
    report.check("pull secrets", spec_of(got, DAEMONSET)["imagePullSecrets"] == [{"name": "credentials"}])
    report.check("common labels", all(each["metadata"]["labels"]["team"] == "gpu" for each in got.values()))
    report.check("other labels stay", got[DEPLOYMENT]["metadata"]["labels"]["app.kubernetes.io/name"] == "elastic-gpu-controller")
    report.check("replicas", got[DEPLOYMENT]["spec"]["replicas"] == 3)
    report.check("resources", controller["resources"]["limits"] == {"memory": "8Gi"} and controller["resources"]["requests"]["cpu"] == "100m")
    report.check("journal", {"--journal=/journal", "--journal-size=2048MiB", "--card-metrics"} <= set(controller["args"]) and
                 controller["volumeMounts"] == [{"name": "journal", "mountPath": "/journal"}] and
                 spec_of(got, DEPLOYMENT)["volumes"] == [{"name": "journal", "emptyDir": {"sizeLimit": "2576Mi"}}], controller)
    kept = rendered(helm, "--set", "controller.journal.enabled=true,controller.journal.existingClaim=journals,controller.extraEnv[0].name=A,controller.extraEnv[0].value=b")
    controller_of_kept, spec = container(kept, DEPLOYMENT), spec_of(kept, DEPLOYMENT)
    report.check("journals on a volume, each pod's in a folder of its own", {"--journal=/journal/$(POD_NAME)", "--bill-journals=/journal"} <= set(controller_of_kept["args"]) and
                 [each["name"] for each in controller_of_kept["env"]] == ["POD_NAME", "A"] and spec["securityContext"]["fsGroup"] == 65532 and
                 spec["volumes"] == [{"name": "journal", "persistentVolumeClaim": {"claimName": "journals"}}], controller_of_kept)
    report.check("host network", spec_of(got, DEPLOYMENT)["hostNetwork"] is True)
    report.check("pod labels", got[DEPLOYMENT]["spec"]["template"]["metadata"]["labels"] == {"app.kubernetes.io/name": "elastic-gpu-controller", "a": "b"})
    mounts = {each["mountPath"]: each for each in agent["volumeMounts"]}
    volumes = {each["name"]: each["hostPath"]["path"] for each in spec_of(got, DAEMONSET)["volumes"]}
    report.check("kubelet folder", "--kubelet-dir=/data/kubelet" in agent["args"] and "/data/kubelet/plugins_registry" in mounts and
                 volumes["registry"] == "/data/kubelet/plugins_registry" and "/var/lib/kubelet" not in json.dumps(got[DAEMONSET]))
    report.check("host paths", mounts["/host/opt/vendor"]["readOnly"] and volumes[mounts["/host/opt/vendor"]["name"]] == "/opt/vendor")
    report.check("update", got[DAEMONSET]["spec"]["updateStrategy"] == {"rollingUpdate": {"maxUnavailable": 2}})
    report.check("tolerations", "tolerations" not in spec_of(got, DAEMONSET))
    report.check("pod annotations", got[DAEMONSET]["spec"]["template"]["metadata"]["annotations"] == {"c": "d"})
    report.check("priority class", got["scheduling.k8s.io/v1", "PriorityClass", None, "elastic-gpu"]["value"] == 1000000000 and
                 {spec_of(got, each)["priorityClassName"] for each in (DEPLOYMENT, DAEMONSET)} == {"elastic-gpu"})
    report.check("quota", ("v1", "ResourceQuota", "elastic-gpu-system", "elastic-gpu-critical-pods") in got)
    report.check("no network policies, namespace and budget", not {"NetworkPolicy", "Namespace", "PodDisruptionBudget"} & {key[1] for key in got})
    report.check("CRDs that go with the release", not any("annotations" in each["metadata"] for key, each in got.items() if "Definition" in key[1]))

    got = rendered(helm, "--set", "driver.preset=custom,driver.root=/opt/nvidia/driver,driver.mount=/opt/nvidia,agent.enabled=true,crds.install=false")
    agent = container(got, DAEMONSET)
    report.check("driver root", "--driver-root=/opt/nvidia/driver" in agent["args"] and agent["volumeMounts"][-1]["mountPath"] == "/host/opt/nvidia" and
                 spec_of(got, DAEMONSET)["volumes"][-1]["hostPath"]["path"] == "/opt/nvidia")
    report.check("no CRDs", not any(key[1] == "CustomResourceDefinition" for key in got))
    got = rendered(helm, "--set", "agent.enabled=false,alerts.enabled=true,alerts.runbooks=https://docs.example.com/egpu/")
    report.check("no agents", DAEMONSET not in got)
    rules = got["monitoring.coreos.com/v1", "PrometheusRule", "elastic-gpu-system", "elastic-gpu"]["spec"]["groups"]
    urls = [rule["annotations"]["runbook_url"] for group in rules for rule in group["rules"]]
    report.check("runbooks", urls and all(each.startswith("https://docs.example.com/egpu/runbooks") for each in urls), urls)


def check_pod_values(report, helm):
    """Values of the pods of controller and agent: they are added to the containers' own ones, or replace the placement."""
    env, mount = {"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}, {"name": "ca", "mountPath": "/etc/ssl/extra", "readOnly": True}
    volume, selector = {"name": "ca", "configMap": {"name": "extra-ca"}}, {"pool": "gpu"}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}}}
    values = {"extraEnv": [env], "extraVolumes": [volume], "extraVolumeMounts": [mount], "nodeSelector": selector, "affinity": affinity}
    default = rendered(helm)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump({"controller": values, "agent": values}, file)
        file.flush()
        got = rendered(helm, "--values", file.name)
    for what, key in (("controller", DEPLOYMENT), ("agent", DAEMONSET)):
        before, after = container(default, key), container(got, key)
        for field, added in (("env", env), ("volumeMounts", mount)):
            report.check(f"{helm}: {what}, {field}", after[field] == [*before.get(field, []), added], after[field])
        spec = spec_of(got, key)
        report.check(f"{helm}: {what}, volumes", spec["volumes"] == [*spec_of(default, key).get("volumes", []), volume], spec["volumes"])
        report.check(f"{helm}: {what}, node selector", spec["nodeSelector"].get("pool") == "gpu", spec["nodeSelector"])
        report.check(f"{helm}: {what}, affinity", spec["affinity"] == affinity, spec["affinity"])
    same = {name: each for name, each in got.items() if name not in (DEPLOYMENT, DAEMONSET)}
    report.check(f"{helm}: no other object changes", same == {name: default[name] for name in same} and len(got) == len(default))


def undescribed(values, schema, path=""):
    """Yields the fields that are in only one of values.yaml and values.schema.json, except those of a parent chart."""
    fields = schema.get("properties")
    if fields is None:
        return
    for name in values.keys() ^ (fields.keys() - {"global"}):
        yield f"{path}/{name}"
    for name in values.keys() & fields.keys():
        if isinstance(values[name], dict) and "properties" in fields[name]:
            if fields[name].get("additionalProperties") is not False:
                yield f"{path}/{name}: the schema permits unknown fields"
            yield from undescribed(values[name], fields[name], f"{path}/{name}")


def check_documents(report):
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    found = list(undescribed(values, schema))
    report.check("values and schema have the same fields", not found, found)
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    missing = [each for each in values if f"`{each}`" not in readme and f"`{each}." not in readme]
    report.check("the README names each group of values", not missing, missing)
    commands = [line for text in (readme, (MANIFESTS / "guide" / "helm.md").read_text(encoding="utf-8")) for line in text.splitlines()
                if line.startswith("helm install") and "take-ownership" not in line]
    report.check("the README's command is that of the guide", len(commands) == 2 and commands[1].startswith(commands[0]), commands)


def check_lint(report, helm):
    for preset in ("host", "gpu-operator", "gke", "bottlerocket"):
        status, text, error = run(tool(helm), "lint", "--strict", CHART, "--set", f"driver.preset={preset}")
        report.check(f"{helm} lint, {preset}", status == 0 and "0 chart(s) failed" in text, text + error)


def check_argocd(report, helm):
    """The Application of the example names this chart, and values that it accepts."""
    (application,) = yaml.safe_load_all((CHART / "argocd" / "application.yaml").read_text(encoding="utf-8"))
    spec = application["spec"]
    report.check("its path is the chart", (tools.ROOT / spec["source"]["path"]).resolve() == CHART)
    report.check("its namespace is the product's", spec["destination"]["namespace"] == "elastic-gpu-system")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
        json.dump(spec["source"]["helm"]["valuesObject"], values)
        values.flush()
        got = rendered(helm, "--namespace", spec["destination"]["namespace"], "--values", values.name)
    report.check("it renders the namespace", ("v1", "Namespace", None, "elastic-gpu-system") in got)
    report.check("it applies large CRDs on the server", "ServerSideApply=true" in spec["syncPolicy"]["syncOptions"])


def check_package(report, helm):
    """The package has neither scripts nor examples."""
    with tempfile.TemporaryDirectory(prefix="egpu-chart-") as folder:
        status, text, error = run(tool(helm), "package", CHART, "--destination", folder)
        listed = run("tar", "-tzf", f"{folder}/elastic-gpu-0.1.0.tgz")[1].split()
        report.check(f"{helm} package", status == 0 and "elastic-gpu/files/crd/elasticgpu.io_elasticgpus.yaml" in listed, text + error)
        report.check("it contains what is used", not [each for each in listed if each.endswith(".py") or "argocd" in each], listed)


def main():
    report = Report()
    newest, older = HELMS
    check_equal(report, newest, EQUAL)
    check_equal(report, older, EQUAL[:3])
    check_refused(report, newest)
    for helm in HELMS:
        check_versions(report, helm)
        check_lint(report, helm)
        check_pod_values(report, helm)
        check_package(report, helm)
    check_values(report, newest)
    check_documents(report)
    check_argocd(report, newest)
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
