#!/usr/bin/env python3
"""Proves on a real cluster, with Helm 4 and Helm 3, that the chart can be installed, upgraded from an earlier chart, rolled back, uninstalled and installed
again under bound claims, by the commands of manifests/guide/helm.md, and that no pod with a claim is touched. Also an installation by kubectl becomes a release.

helm_test.py BIN_DIR

The earlier chart is that of the previous commit, or a copy of this one if there is none. In both cases it is changed, so that an upgrade has to change a
CustomResourceDefinition, a role and the pods of controller and agents.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "monitoring"))

import tools
import installation  # noqa: E402  (tools adds the folder of the cluster's modules)
import monitoring_test  # noqa: E402
import nodes  # noqa: E402
import parts  # noqa: E402
from apiserver import Cluster, guarded  # noqa: E402
from client import CLASSES, GPUS, NODES, Report, claims, pods, until  # noqa: E402
from pods_test import claim, gpu_class, pod, running  # noqa: E402

NAMESPACE = installation.NAMESPACE
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/elasticgpuclaims.elasticgpu.io"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/elastic-gpu-view"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/elastic-gpu-controller"
DAEMONSET = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/elastic-gpu-agent"
WORKERS = ["gpu-0", "gpu-1"]
EARLIER_ARGUMENT = "--log-level=debug"


def guide():
    """Returns the commands of each section of the guide: heading → [[word, ...], ...]."""
    found = {}
    for section in re.split(r"^## ", (tools.MANIFESTS / "guide" / "helm.md").read_text(encoding="utf-8"), flags=re.M)[1:]:
        blocks = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
        found[section.splitlines()[0]] = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line]
    return found


def earlier_chart(folder):
    """Returns the folder of the earlier chart."""
    chart = folder / "manifests" / "chart"
    archive = subprocess.run(["git", "-C", str(tools.ROOT), "archive", "HEAD~1", "manifests/chart"], capture_output=True, check=False)
    if archive.returncode == 0:
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    else:
        shutil.copytree(tools.CHART, chart)

    def change(path, function):
        documents = list(yaml.safe_load_all((chart / path).read_text(encoding="utf-8")))
        for each in documents:
            function(each)
        (chart / path).write_text(yaml.safe_dump_all(documents, width=1000), encoding="utf-8")

    def without_a_column(crd):
        for columns in {id(each["additionalPrinterColumns"]): each["additionalPrinterColumns"] for each in crd["spec"]["versions"]}.values():
            columns.pop()  # once: the versions share one list

    def with_an_argument(workload):
        if "template" in workload["spec"]:
            workload["spec"]["template"]["spec"]["containers"][0]["args"].append(EARLIER_ARGUMENT)

    def with_an_older_rule(role):
        if role["metadata"]["name"] == "elastic-gpu-view" and role["kind"] == "ClusterRole":
            role["rules"][0]["verbs"] = ["get", "list"]

    change("Chart.yaml", lambda each: each.update(version="0.0.9"))
    change("files/crd/elasticgpu.io_elasticgpuclaims.yaml", without_a_column)
    change("files/rbac/users.yaml", with_an_older_rule)
    for each in ("controller", "agent"):
        change(f"files/deploy/{each}.yaml", with_an_argument)
    return chart


class Site:
    """The cluster with the release, the controller's process, and pods with claims."""

    def __init__(self, cluster, folder, bin_dir, report):
        self.cluster, self.folder, self.bin_dir, self.report = cluster, folder, bin_dir, report
        self.client = installation.client_of(cluster)
        self.earlier = earlier_chart(folder)
        self.commands = guide()
        self.helm = ""
        self.before = None
        self.columns = len(yaml.safe_load((tools.MANIFESTS / "crd/elasticgpu.io_elasticgpuclaims.yaml").read_text(encoding="utf-8"))
                           ["spec"]["versions"][0]["additionalPrinterColumns"])

    def run(self, heading, chart=None, extra=()):
        """Runs the section's first command of helm. chart: in place of manifests/chart."""
        words = next(each for each in self.commands[heading] if each[0] == "helm")
        return self.helm_run(*(chart if chart and each == "manifests/chart" else each for each in words[1:]), *extra)

    def run_kubectl(self, heading):
        """Runs the section's commands of kubectl."""
        for words in self.commands[heading]:
            if words[0] == "kubectl":
                installation.kubectl(self.cluster, *(tools.ROOT / each if each.startswith("manifests/") else each for each in words[1:]))

    def helm_run(self, *words):
        """Runs helm with these arguments and returns its output."""
        environment = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig),
                       **{f"HELM_{each}_HOME": str(self.folder / f"helm-{each.lower()}") for each in ("CACHE", "CONFIG", "DATA")}}
        status, output, error = tools.run(tools.tool(self.helm), *words, cwd=tools.ROOT, env=environment)
        self.report.check(f"{self.helm} {' '.join(map(str, words))}", status == 0, output + error)
        return output

    def check_namespace(self):
        """The release has the Namespace as an object, unless it is stored in it."""
        for namespace, expected in (("elastic-gpu-system", False), ("default", True)):
            self.helm = tools.HELMS[0]
            output = self.helm_run("install", "dry", tools.CHART, "--namespace", namespace, "--create-namespace", "--dry-run=server")
            self.report.check(f"a release in {namespace} has the Namespace: {expected}", ("\nkind: Namespace\n" in output) == expected, output[-2000:])
            self.report.check(f"a release in {namespace}: policies as the API server serves them", "\nkind: MutatingAdmissionPolicy\n" in output)

    def start_controller(self):
        until("the policies are in force", lambda: installation.are_policies_in_force(self.client))
        return installation.start_controller(self.cluster, self.bin_dir)

    def stop_controller(self):
        """As the deletion of the Deployment stops its pods."""
        self.report.check("the controller stops when it is asked to", self.cluster.processes.stop("controller") == 0)

    def use(self, name):
        """Creates a claim and a pod, and waits until the pod runs."""
        self.client.create(claims(), claim(name, "now", 10, "1Gi"))
        self.client.create(pods(), pod(name, {"x": name}))
        until(f"pod {name} runs", lambda: name in running(self.client))
        until(f"claim {name} is bound", lambda: self.client.get(f"{claims()}/{name}").get("status", {}).get("phase") == "Bound")

    def state(self):
        """Returns the objects that an installation must not change."""
        found = {}
        for each in self.client.items(pods()):
            status = each["status"]
            found["pod", each["metadata"]["name"]] = (each["metadata"]["uid"], status["phase"], status.get("startTime"), each["spec"],
                                                      [(one["restartCount"], one.get("containerID")) for one in status.get("containerStatuses", [])])
        for each in self.client.items(claims()):
            found["claim", each["metadata"]["name"]] = (each["metadata"]["uid"], each["status"]["phase"], each["status"].get("elasticGPUName"))
        for each in self.client.items(GPUS):
            found["card or device", each["metadata"]["name"]] = (each["metadata"]["uid"], each["spec"].get("allocations"))
        return found

    def is_untouched(self, what):
        now = self.state()
        different = {key: (each, now.get(key)) for key, each in self.before.items() if now.get(key) != each}
        self.report.check(f"{self.helm}, {what}: pods, claims and cards are untouched", self.before and not different, different)

    def has_version(self, what, earlier):
        """The CRD, the role and the pods are those of the earlier or of the current chart."""
        columns = len(self.client.get(CRD)["spec"]["versions"][0]["additionalPrinterColumns"])
        self.report.check(f"{self.helm}, {what}: the CRD has its columns", columns == self.columns - (1 if earlier else 0), columns)
        verbs = self.client.get(ROLE)["rules"][0]["verbs"]
        self.report.check(f"{self.helm}, {what}: the role has its verbs", verbs == ["get", "list"] + ([] if earlier else ["watch"]), verbs)
        for path in (DEPLOYMENT, DAEMONSET):
            found = self.client.get(path)
            arguments = found["spec"]["template"]["spec"]["containers"][0]["args"]
            self.report.check(f"{self.helm}, {what}: {found['kind']} has its arguments", (EARLIER_ARGUMENT in arguments) == earlier, arguments)
            until(f"{found['kind']} is rolled out", lambda path=path: self.is_rolled_out(path))

    def is_rolled_out(self, path):
        status = self.client.get(path)["status"]
        counts = ("readyReplicas", "updatedReplicas", "replicas") if path == DEPLOYMENT else ("numberReady", "updatedNumberScheduled", "desiredNumberScheduled")
        return [status.get(each) for each in counts] == [2, 2, 2]

    def cycle(self, helm, extra=()):
        """The earlier chart is installed, upgraded to the current one, rolled back and uninstalled."""
        self.helm = helm
        self.run("Install", self.earlier, extra)
        self.has_version("installed", earlier=True)
        operations = self.start_controller()
        if self.before is None:
            nodes.publish(self.client, WORKERS, 2)
            self.client.create(CLASSES, gpu_class("now", "Immediate"))
            for each in ("first", "second", "third"):
                self.use(each)
            self.run_kubectl("Install")
            until("the samples are bound", lambda: all(each.get("status", {}).get("phase") == "Bound" for each in self.client.items(claims())))
            self.before = self.state()
        self.is_untouched("installed")
        self.run("Upgrade")
        self.has_version("upgraded", earlier=False)
        self.is_untouched("upgraded")
        self.use(f"{helm}-upgraded")
        self.before = self.state()
        self.run("Roll back")
        self.has_version("rolled back", earlier=True)
        self.is_untouched("rolled back")
        self.use(f"{helm}-rolled-back")
        self.before = self.state()
        monitoring_test.check_served(self.report, operations)
        self.stop_controller()
        self.run("Uninstall")
        self.is_untouched("uninstalled")
        self.is_uninstalled()

    def reinstall(self, helm):
        """A current chart adopts the kinds that an earlier release has kept, and updates them."""
        self.helm = helm
        self.run("Install")
        self.has_version("installed over kept kinds", earlier=False)
        self.is_untouched("installed over kept kinds")
        self.run("Uninstall")
        self.is_uninstalled()

    def is_uninstalled(self):
        self.report.check(f"{self.helm}: the kinds are kept", self.client.exists(CRD))
        left = [path for path in (DEPLOYMENT, DAEMONSET, ROLE) if self.client.exists(path)]
        self.report.check(f"{self.helm}: everything else is gone", not left, left)

    def are_released(self):
        """True if no device is left, except those that the class of the samples retains."""
        return all("card" in each["spec"] or each["status"]["phase"] == "Released" for each in self.client.items(GPUS))

    def take_over(self, helm, extra):
        """An installation by kubectl becomes a release, and then everything is deleted."""
        self.helm = helm
        installation.kubectl(self.cluster, "apply", "-k", tools.MANIFESTS)
        self.start_controller()
        self.is_untouched("applied by kubectl")
        self.run("From the kustomization", extra=extra)
        self.has_version("taken over", earlier=False)
        self.is_untouched("taken over")
        self.use("taken-over")
        self.client.delete_all(pods())
        self.client.delete_all(claims())
        until("devices are released", self.are_released)
        installation.kubectl(self.cluster, "delete", "elasticgpus", "--all")
        self.stop_controller()
        self.run("Uninstall")
        self.run_kubectl("Uninstall")
        self.report.check("the kinds are gone", not self.client.exists(CRD))


def main():
    report = Report()
    for each in tools.HELMS:
        tools.tool(each)
    with tempfile.TemporaryDirectory(prefix="egpu-helm-") as name, Cluster(pathlib.Path(name) / "cluster", wanted=parts.WHOLE) as cluster:
        client = installation.client_of(cluster)
        for each in WORKERS:
            nodes.create_unless_there(client, NODES, nodes.node(each, {"elasticgpu.io/agent": "true", "kubernetes.io/os": "linux"}))
        until("the nodes are ready", lambda: nodes.all_ready(client, WORKERS))
        folder = pathlib.Path(name) / "charts"
        folder.mkdir()
        site = Site(cluster, folder, pathlib.Path(sys.argv[1]), report)
        try:
            site.check_namespace()
            site.cycle("helm-4")
            site.reinstall("helm-3")
            site.cycle("helm-3")
            site.take_over("helm-4", ("--force-conflicts",))
        except BaseException:
            if "controller" in cluster.processes.children:
                print(cluster.processes.tail("controller", 20), file=sys.stderr)
            raise
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
