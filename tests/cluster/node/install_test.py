#!/usr/bin/env python3
"""Proves that `kubectl apply -k manifests` is sufficient on a node with cards. The controller's Deployment and the agents' DaemonSet run as containers of an
image like the Containerfile's, and serve the seed's claims. The DaemonSet is restarted and deleted under running pods; all is uninstalled as
manifests/guide/upgrade.md describes.

install_test.py BIN_DIR [VERSION]

VERSION: the kubelet's, 1.34, independent of the rest of the cluster. Pods have no network here (real_node.py), so both use their node's; the only other changes
to the manifests are those that the fake NVML needs.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import images
import installation
import parts
import real_node
from apiserver import Cluster, die_with_parent, guarded
from client import CLASSES, GPUS, NODES, Report, claims, pods, until
from ground import FILE, MINORS, SHARE, Ground, logs_if_it_fails, running_containers

IMAGE = "docker.io/library/elastic-gpu-controller:0.1.0"  # the manifests' image name in a container runtime's full form
DRIVER = "/usr/lib/x86_64-linux-gnu"
AGENT = f"daemonset/{real_node.AGENT}"
CONTROLLER = f"deployment/{installation.CONTROLLER}"
OURS = f"/apis/apps/v1/namespaces/{installation.NAMESPACE}"


def install_driver(node, bin_dir):
    """Installs the fake NVML where a driver's package puts its libraries. The machine's own folder does not change."""
    beside = node.folder / "driver"
    beside.mkdir()
    node.namespaces.run("sh", "-ec", f"mount -t tmpfs tmpfs {beside}; mkdir {beside}/upper {beside}/work; mount -t overlay overlay "
                        f"-o lowerdir={DRIVER},upperdir={beside}/upper,workdir={beside}/work {DRIVER}; "
                        f"cp -L {bin_dir.parent}/lib/nvml/libnvidia-ml.so.1 {DRIVER}/")
    node.put_in_cards(real_node.A100)


def patched(cluster, what, changes):
    installation.kubectl(cluster, "-n", installation.NAMESPACE, "patch", what, "-p", json.dumps({"spec": changes}))


def use_the_nodes_network(cluster):
    """Uses the host network, because there is no pod network; a node has each port only once. Also configures the agent's cards."""
    server = urllib.parse.urlsplit(cluster.url)
    env = [{"name": "KUBERNETES_SERVICE_HOST", "value": server.hostname}, {"name": "KUBERNETES_SERVICE_PORT", "value": str(server.port)}]
    of_node = {"hostNetwork": True, "dnsPolicy": "Default"}
    patched(cluster, CONTROLLER, {"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, "template": {"spec": {
        **of_node, "containers": [{"name": "controller", "env": env}]}}})
    hardware = {"name": "hardware", "mountPath": "/run/nvml.yaml", "readOnly": True}
    patched(cluster, AGENT, {"template": {"spec": {
        **of_node, "volumes": [{"name": "hardware", "hostPath": {"path": "/run/nvml.yaml", "type": "File"}}],
        "containers": [{"name": "agent", "volumeMounts": [hardware],
                        "env": [*env, {"name": "ELASTICGPU_FAKE_NVML", "value": "/run/nvml.yaml"}]}]}}})


def rolled_out(ground, what):
    """Returns true if all of its pods are Ready and have the current template."""
    found = ground.admin.get(f"{OURS}/{what.replace('/', 's/')}")
    status, wanted = found["status"], found["spec"].get("replicas", 1)
    ready, updated = (status.get(each, 0) for each in (("numberReady", "updatedNumberScheduled") if what == AGENT else ("readyReplicas", "updatedReplicas")))
    return status.get("observedGeneration") == found["metadata"]["generation"] and ready == updated == wanted


def check_installed(ground):
    ground.kubectl("label", "node", real_node.NAME, "nvidia.com/gpu.present=true")
    for what in (CONTROLLER, AGENT):
        until(f"{what} is rolled out", lambda what=what: rolled_out(ground, what))
    cards = until("its cards are published", lambda: len(ground.admin.items(GPUS)) == len(FILE) and ground.admin.items(GPUS))
    ground.report.check("they are those of the machine", {each["spec"]["card"]["uuid"] for each in cards} == set(MINORS), cards)
    for program in ("elastic-gpu-agent", "elastic-gpu-controller"):
        logs = ground.kubectl("-n", installation.NAMESPACE, "logs", "-l", f"app.kubernetes.io/name={program}", "--prefix")
        ground.report.check(f"the guide's command shows the log of {program}", f"[pod/{program}" in logs, logs[:500])
    check_forwarded(ground)
    ours = ground.admin.items(pods(installation.NAMESPACE))
    ground.report.check("no container was started twice", not any(
        status["restartCount"] for each in ours for status in each["status"]["containerStatuses"]), ours)


def check_forwarded(ground):
    """The page of the operations port, through the guide's command. The local port is any free one, because the node has the same address as this machine."""
    command = ["kubectl", "--kubeconfig", str(ground.cluster.kubeconfig), "-n", installation.NAMESPACE, "port-forward", f"deploy/{installation.CONTROLLER}", ":9440"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent) as forward:
        try:
            line = forward.stdout.readline()
            port = re.search(r"127.0.0.1:(\d+)", line)
            if ground.report.check("the operations port is forwarded", port, line):
                with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/", timeout=60) as page:
                    ground.report.check("the forwarded port has the page", b"<title>" in page.read())
        finally:
            forward.terminate()


def check_samples(ground):
    """Applies the seed as users do, and hami-core for a container that is not root."""
    samples = installation.MANIFESTS / "samples"
    installation.kubectl(ground.cluster, "apply", "-f", samples / "seed.yaml")
    installation.kubectl(ground.cluster, "apply", "-f", installation.SAMPLE_PODS)
    ground.admin.create(CLASSES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": "limited"},
                                  "provisioner": SHARE, "egpuBindingMode": "Immediate", "reclaimPolicy": "Delete",
                                  "parameters": {"isolation": "hami-core"}})
    ground.put_limiter()
    ground.claim("limited", cls="limited")
    ground.pod("limited", {"main": ["limited"]}, securityContext={"runAsUser": 1000, "runAsGroup": 1000})
    ground.runs("test-cuda-1", "test-cuda-2", "limited")
    for index in (1, 2):
        ground.check_promise(f"sample {index}", f"test-cuda-{index}", "test-cuda", f"gpushare-egpuc-{index}")
    ground.check_promise("a limited container", "limited", "main", "limited", isolation="hami-core")


def agents(ground):
    return {each["metadata"]["uid"] for each in ground.admin.items(pods(installation.NAMESPACE))
            if each["metadata"]["labels"].get("app.kubernetes.io/name") == real_node.AGENT}


def check_restarted(ground):
    """The DaemonSet is rolled, deleted and applied again: running containers continue, and requests meanwhile are answered later."""
    before, ran, first = ground.node.prepared(), running_containers(ground), agents(ground)
    ground.kubectl("-n", installation.NAMESPACE, "rollout", "restart", AGENT)
    until("the agent's pod is another one", lambda: rolled_out(ground, AGENT) and not first & agents(ground))
    ground.report.check("the agent restarted: what was prepared is as it was", ground.node.prepared() == before)
    saved = json.loads(ground.kubectl("-n", installation.NAMESPACE, "get", AGENT, "-o", "json"))
    ground.kubectl("-n", installation.NAMESPACE, "delete", AGENT)
    until("no agent runs", lambda: not agents(ground))
    ground.claim("late", cls="limited")
    ground.pod("late", {"main": ["late"]})
    until("its claim is bound", lambda: ground.admin.get(f"{claims()}/late").get("status", {}).get("phase") == "Bound")
    ground.report.check("the agent deleted: what was prepared is as it was", ground.node.prepared() == before)
    saved["metadata"] = {each: saved["metadata"][each] for each in ("name", "namespace", "labels")}
    ground.admin.create(f"{OURS}/daemonsets", {each: saved[each] for each in ("apiVersion", "kind", "metadata", "spec")})
    ground.runs("late")
    ground.check_promise("a pod that came while no agent was there", "late", "main", "late", isolation="hami-core")
    ground.report.check("through both, running containers continue", ran.items() <= running_containers(ground).items(), ran)


def check_uninstalled(ground):
    """Uninstalls in the order of the guide, pods first."""
    ground.admin.delete_all(pods())
    ground.kubectl("delete", "elasticgpuclaims", "-A", "--all")
    until("nothing is prepared any more", lambda: not ground.node.prepared())
    ground.kubectl("-n", installation.NAMESPACE, "delete", AGENT)
    until("no agent runs", lambda: not agents(ground))
    ground.kubectl("delete", "elasticgpus", "--all")
    output = ground.kubectl("delete", "-k", installation.INSTALLED, "--ignore-not-found")
    until("its namespace is gone", lambda: not ground.admin.exists(f"/api/v1/namespaces/{installation.NAMESPACE}"))
    ground.report.check("all is uninstalled", "Error" not in output, output)
    left = [str(each) for each in (ground.node.folder / "run" / "cdi").iterdir() if not each.name.endswith(".lock")]
    ground.report.check("no CDI file is left", not left, left)
    ground.report.check("and the node is as Ready as before", ground.admin.get(f"{NODES}/{real_node.NAME}") and ground.node.ready())


def main():
    bin_dir = pathlib.Path(sys.argv[1]).resolve()
    version = sys.argv[2] if len(sys.argv) > 2 else None
    real_node.permitted(version)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-install-") as folder, Cluster(folder, wanted=parts.WHOLE) as cluster:
        installation.apply_manifests(cluster)
        node = real_node.RealNode(cluster, version=version).start(installation.client_of(cluster))
        install_driver(node, bin_dir)
        tar = node.folder / "product.tar"
        images.product(tar, bin_dir.parent, [IMAGE])
        node.take_image(tar)
        use_the_nodes_network(cluster)
        ground = Ground(cluster, node, report)
        with logs_if_it_fails(cluster):
            for part in (check_installed, check_samples, check_restarted, check_uninstalled):
                part(ground)
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
