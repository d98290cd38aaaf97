"""Runs the commands of the documents that need more than the standalone mode, on a real Kubernetes with simulated nodes and the controller.

cluster_commands_test.py BIN_DIR

The pages are CLUSTER_PAGES of commands_test.py, which also has the lines that other tests run. Exit status 77: skipped, because Go is missing.
"""

import pathlib
import sys
import tempfile

# flake8: noqa: E402  (the cluster's modules are in another folder)
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "docs")]

import commands_test
import installation
import nodes
import parts
from apiserver import Cluster, guarded
from client import until
from pki import write_kubeconfig

# The reader's account is an administrator with a token. A node joins after the pods, so that it can be drained.
START = """export KUBECONFIG={kubeconfig} PATH={kubectl}:$PATH CARD={card}
echo {operations} >$HOME/ops
kubectl create clusterrolebinding ann-asks --clusterrole=elastic-gpu-cluster-reader --user=ann || exit 1
kubectl create namespace monitoring
kubectl create namespace team
for kind in PodMonitor PrometheusRule; do
kubectl create -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: ${{kind,,}}s.monitoring.coreos.com}}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {{kind: $kind, plural: ${{kind,,}}s, singular: ${{kind,,}}}}
  versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}]
END
done
kubectl wait --for=condition=Established crd/podmonitors.monitoring.coreos.com crd/prometheusrules.monitoring.coreos.com
mkdir my-overlay
awk '/my-overlay.kustomization.yaml/ {{near = 1}} near && $0 == "```yaml" {{on = 1; next}} on && /^```/ {{exit}} on' \
  manifests/guide/install.md | sed 's/sha256:…/sha256:{digest}/' >my-overlay/kustomization.yaml
"""
# Claims are released only after the pods that use them.
END = "kubectl delete pods --all --wait=true\n"
NODE = "spare"


def places(folder):
    return {**commands_test.PLACES, "NODE": NODE, "NAME": "ann", "FOLDER": str(folder / "journal"), "CLASS": "gpushare-egpuclass"}


def prepare(cluster, programs):
    """Returns the lines of shell before the pages."""
    installation.apply_manifests(cluster, ("-f", installation.MANIFESTS))
    admin = installation.client_of(cluster)
    first = ["n-0", "n-1"]
    nodes.publish(admin, first, 4)
    until("the nodes are ready", lambda: nodes.all_ready(admin, first))
    operations = installation.start_controller(cluster, programs, arguments=[
        f"--journal={cluster.folder}/journal", "--leader-elect", f"--leader-elect-resource-namespace={installation.NAMESPACE}"])
    for name in ("seed.yaml", installation.SAMPLE_PODS):
        installation.kubectl(cluster, "apply", "-f", installation.MANIFESTS / "samples" / name)
    installation.kubectl(cluster, "wait", "--for=condition=Ready", "--timeout=120s", "pods", "--all")
    nodes.publish(admin, [NODE], 2)
    until("the further node is ready", lambda: nodes.all_ready(admin, [NODE]))
    admin.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "ann"}})
    admin.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
        "metadata": {"name": "ann"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "ann", "namespace": "default"}]})
    kubeconfig = cluster.folder / "ann.kubeconfig"
    write_kubeconfig(kubeconfig, cluster.url, cluster.pki, "ann", admin.token_for("default", "ann", expirationSeconds=7200))
    kubectl = parts.kubectl_for_folders()
    return START.format(kubeconfig=kubeconfig, kubectl=pathlib.Path(kubectl).parent if kubectl != "kubectl" else "/usr/bin", card="gpu-n-0-0",
                        operations=operations, digest="0" * 64)


def main():
    programs, bad, total = pathlib.Path(sys.argv[1]).resolve(), [], 0
    with tempfile.TemporaryDirectory(prefix="egpu-docs-") as folder, Cluster(folder, wanted=parts.WHOLE) as cluster:
        script = [prepare(cluster, programs)]
        for page in commands_test.CLUSTER_PAGES:
            text, count = commands_test.script_of(page, bad, places(cluster.folder))
            total += count
            script += [END if page == "upgrade.md" else "", text]
        commands_test.run("the documents", "\n".join(script), programs, bad, 500)
        if bad:
            bad.append(cluster.processes.tail("controller", 20))
    for each in bad:
        print(each)
    print(f"{len(commands_test.CLUSTER_PAGES)} pages, {total} lines, {len(bad)} wrong")
    return 1 if bad or total < 40 else 0


if __name__ == "__main__":
    sys.exit(guarded(main))
