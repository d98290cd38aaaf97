#!/usr/bin/env python3
"""Proves on a real cluster that the Application of manifests/chart/argocd/application.yaml can be installed, compared and upgraded as Argo CD does it: the chart
is rendered with the example's values and the cluster's versions by `helm template`, its objects get Argo CD's tracking annotation, and are applied with
ServerSideApply under its field manager. A comparison finds no difference after that, and a second application changes nothing, before and while the controller
works: a lasting difference would make Argo CD apply the objects again and again (selfHeal). Pods with claims are not touched by an upgrade.

argocd_test.py BIN_DIR

Argo CD itself does not run here.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

import helm_test
import tools
import installation  # noqa: E402  (tools adds the folder of the cluster's modules)
import nodes  # noqa: E402
import parts  # noqa: E402
from apiserver import Cluster, guarded  # noqa: E402
from client import CLASSES, NODES, Report, until  # noqa: E402
from pods_test import gpu_class  # noqa: E402

EXAMPLE = tools.CHART / "argocd" / "application.yaml"
MANAGER = "argocd-controller"
TRACKING = "argocd.argoproj.io/tracking-id"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NO_DIFFERENCE, DIFFERENCE = 0, 1  # exit statuses of kubectl diff


class ArgoCd:
    """Does the steps of Argo CD with helm and kubectl."""

    def __init__(self, cluster, folder, report):
        self.cluster, self.folder, self.report = cluster, folder, report
        self.application = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
        self.objects = folder / "objects.yaml"

    def kubectl(self, *arguments):
        """Runs a kubectl that knows server-side comparisons. Returns (status, output)."""
        done = subprocess.run([parts.binaries("kubectl", version="") / "kubectl", "--kubeconfig", str(self.cluster.kubeconfig), *map(str, arguments)],
                              env={**os.environ, "KUBECTL_EXTERNAL_DIFF": "diff -u"}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def versions(self):
        """Returns the versions of the cluster, as arguments for helm."""
        _, version = self.kubectl("version", "-o", "json")
        _, groups = self.kubectl("api-versions")
        _, kinds = self.kubectl("get", "--raw", "/apis/admissionregistration.k8s.io/v1")
        served = [f"admissionregistration.k8s.io/v1/{each['kind']}" for each in json.loads(kinds)["resources"]]
        return ["--kube-version", json.loads(version)["serverVersion"]["gitVersion"], *(f"--api-versions={each}" for each in [*groups.split(), *served])]

    def render(self, chart):
        source = self.application["spec"]["source"]["helm"]
        values = self.folder / "values.yaml"
        values.write_text(yaml.safe_dump(source["valuesObject"]), encoding="utf-8")
        namespace = self.application["spec"]["destination"]["namespace"]
        status, output, error = tools.run(tools.tool("helm-3"), "template", chart, "--name-template", source["releaseName"], "--namespace", namespace,
                                          "--values", values, "--include-crds", *self.versions(), cwd=tools.ROOT)
        self.report.check("helm renders the chart with the example's values", status == 0, error)
        objects = tools.objects(output)
        for (version, kind, space, name), each in objects.items():
            group = version.rpartition("/")[0]
            each["metadata"].setdefault("annotations", {})[TRACKING] = f"{source['releaseName']}:{group}/{kind}:{space or namespace}/{name}"
        # Argo CD applies namespaces and kinds first.
        first = ("Namespace", "CustomResourceDefinition")
        ordered = sorted(objects.values(), key=lambda each: first.index(each["kind"]) if each["kind"] in first else len(first))
        self.objects.write_text(yaml.safe_dump_all(ordered), encoding="utf-8")
        return objects

    def apply(self):
        status, output = self.kubectl("apply", "--server-side", f"--field-manager={MANAGER}", "--force-conflicts", "-f", self.objects)
        self.report.check("the objects can be applied", status == 0, output)

    def generations(self):
        """Returns what a change of an object changes, but its status does not: (kind, name) → generation, or version if the kind has none."""
        _, output = self.kubectl("get", "-f", self.objects, "-o", "json")
        return {(each["kind"], each["metadata"]["name"]): each["metadata"].get("generation") or each["metadata"]["resourceVersion"]
                for each in json.loads(output)["items"]}

    def is_synced(self, what):
        status, output = self.kubectl("diff", "--server-side", f"--field-manager={MANAGER}", "--force-conflicts", "-f", self.objects)
        self.report.check(f"{what}: no difference", status == NO_DIFFERENCE and not output, output[:3000])
        before = self.generations()
        self.apply()
        after = self.generations()
        self.report.check(f"{what}: a second application changes nothing", before and before == after,
                          {key: (each, after.get(key)) for key, each in before.items() if after.get(key) != each})

    def is_out_of_sync(self, what):
        """The comparison would find a difference."""
        status, output = self.kubectl("diff", "--server-side", f"--field-manager={MANAGER}", "--force-conflicts", "-f", self.objects)
        self.report.check(f"{what}: differences", status == DIFFERENCE and "elasticgpuclaims" in output, output[:1000])


def prometheus_kinds(client):
    """The example enables objects for the Prometheus operator."""
    for kind in ("PodMonitor", "PrometheusRule"):
        plural = f"{kind.lower()}s"
        version = {"name": "v1", "served": True, "storage": True,
                   "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
        client.create(CRDS, {"metadata": {"name": f"{plural}.monitoring.coreos.com"}, "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural, "listKind": f"{kind}List"}, "versions": [version]}})


def run(cluster, folder, bin_dir, report):
    site = helm_test.Site(cluster, folder, bin_dir, report)
    site.helm = "Argo CD"
    prometheus_kinds(site.client)
    argo = ArgoCd(cluster, folder, report)
    options = argo.application["spec"]["syncPolicy"]["syncOptions"]
    report.check("the example applies on the server", "ServerSideApply=true" in options, options)
    rendered = argo.render(site.earlier)
    kinds = {kind for _, kind, _, _ in rendered}
    report.check("all objects of an installation are rendered", {"Namespace", "CustomResourceDefinition", "MutatingAdmissionPolicy", "PodMonitor",
                                                                "PrometheusRule", "Deployment", "DaemonSet"} <= kinds, kinds)
    argo.apply()
    site.has_version("installed", earlier=True)
    argo.is_synced("installed")
    site.start_controller()
    nodes.publish(site.client, helm_test.WORKERS, 2)
    site.client.create(CLASSES, gpu_class("now", "Immediate"))
    for each in ("first", "second"):
        site.use(each)
    site.before = site.state()
    argo.is_synced("in use")
    argo.render(tools.CHART)
    argo.is_out_of_sync("a newer chart")
    argo.apply()
    site.has_version("upgraded", earlier=False)
    argo.is_synced("upgraded")
    site.is_untouched("upgraded")
    site.use("third")
    argo.is_synced("in use after the upgrade")
    site.stop_controller()


def main():
    report = Report()
    tools.tool("helm-3")  # skips the test at once
    with tempfile.TemporaryDirectory(prefix="egpu-argocd-") as name, Cluster(pathlib.Path(name) / "cluster", wanted=parts.WHOLE) as cluster:
        client = installation.client_of(cluster)
        for each in helm_test.WORKERS:
            nodes.create_unless_there(client, NODES, nodes.node(each, {"elasticgpu.io/agent": "true", "kubernetes.io/os": "linux"}))
        until("the nodes are ready", lambda: nodes.all_ready(client, helm_test.WORKERS))
        folder = pathlib.Path(name) / "charts"
        folder.mkdir()
        run(cluster, folder, pathlib.Path(sys.argv[1]), report)
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
