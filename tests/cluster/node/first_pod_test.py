#!/usr/bin/env python3
"""Runs the three commands of manifests/guide/first-node.md on a cluster with one real node, on which nothing is installed but the driver (a fake NVML) and the
product's image: afterwards the pods of the sample run with their cards. Prints the duration of each command, and of all until the pods run.

first_pod_test.py BIN_DIR

The values besides those of the page are for this node: it has no pod network (real_node.py), and its cards are those of the fake NVML. Needs helm (`make tools`).
"""

import os
import pathlib
import re
import shlex
import signal
import sys
import tempfile
import time
import urllib.parse

import yaml

# flake8: noqa: E402  (the cluster's modules are in the parent folder, helm's in another one)
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[2] / "chart")]

import images
import install_test
import installation
import parts
import real_node
import tools
from apiserver import Cluster, guarded
from client import Report, pods, until
from ground import Ground, logs_if_it_fails

PAGE = installation.MANIFESTS / "guide" / "first-node.md"
SECTION = "In three commands"
REPOSITORY = "registry.example.com/elastic-gpu-controller"
COMMANDS = 3
PODS = {"test-cuda-1", "test-cuda-2"}


def commands():
    """Returns the commands of the section, as lists of words."""
    section = re.search(rf"^## {SECTION}\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.M | re.S).group(1)
    block = re.search(r"^```sh\n(.*?)^```", section, re.M | re.S).group(1)
    return [shlex.split(line.replace("NODE", real_node.NAME), comments=True) for line in block.replace("\\\n", " ").splitlines() if line]


def values_of_node(cluster):
    """Returns values of the chart: the network of the node, and its cards."""
    server = urllib.parse.urlsplit(cluster.url)
    env = [{"name": "KUBERNETES_SERVICE_HOST", "value": server.hostname}, {"name": "KUBERNETES_SERVICE_PORT", "value": str(server.port)}]
    return {"controller": {"replicas": 1, "hostNetwork": True, "extraEnv": env},
            "agent": {"hostNetwork": True, "extraEnv": [*env, {"name": "ELASTICGPU_FAKE_NVML", "value": "/run/nvml.yaml"}],
                      "extraVolumes": [{"name": "hardware", "hostPath": {"path": "/run/nvml.yaml", "type": "File"}}],
                      "extraVolumeMounts": [{"name": "hardware", "mountPath": "/run/nvml.yaml", "readOnly": True}]}}


def execute(cluster, folder, words):
    """Runs a command of the page."""
    programs = {"helm": tools.tool(tools.HELMS[0]), "kubectl": "kubectl"}
    more = ["--values", folder / "values.yaml"] if words[0] == "helm" else []
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), **{f"HELM_{each}_HOME": str(folder / "helm") for each in ("CACHE", "CONFIG", "DATA")}}
    status, output, error = tools.run(programs[words[0]], *words[1:], *more, cwd=tools.ROOT, env=environment)
    return status == 0, output + error


def check_first_pod(ground, folder):
    listed, started = commands(), time.monotonic()
    ground.report.check(f"the page has {COMMANDS} commands", len(listed) == COMMANDS, listed)
    for words in listed:
        began = time.monotonic()
        done, text = execute(ground.cluster, folder, words)
        ground.report.check(" ".join(words), done, text)
        print(f"{time.monotonic() - began:5.1f} s  {' '.join(words)}", flush=True)
    until("the pods run", lambda: PODS <= {each["metadata"]["name"] for each in ground.admin.items(pods()) if each["status"].get("phase") == "Running"})
    print(f"{time.monotonic() - started:5.1f} s  from the first command until the pods run", flush=True)
    for index in (1, 2):
        ground.check_promise(f"sample {index}", f"test-cuda-{index}", "test-cuda", f"gpushare-egpuc-{index}")


def main():
    bin_dir = pathlib.Path(sys.argv[1]).resolve()
    tools.tool(tools.HELMS[0])  # skips the test at once
    real_node.permitted()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-first-") as name, Cluster(pathlib.Path(name) / "cluster", wanted=parts.WHOLE) as cluster:
        folder = pathlib.Path(name)
        node = real_node.RealNode(cluster).start(installation.client_of(cluster))
        install_test.install_driver(node, bin_dir)
        images.product(node.folder / "product.tar", bin_dir.parent, [f"{REPOSITORY}:0.1.0"])
        node.take_image(node.folder / "product.tar")
        (folder / "values.yaml").write_text(yaml.safe_dump(values_of_node(cluster)), encoding="utf-8")
        with logs_if_it_fails(cluster):
            check_first_pod(Ground(cluster, node, report), folder)
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
