#!/usr/bin/env python3
"""A whole Kubernetes on loopback with Elastic GPU installed, for experiments: `make cluster`, `make cluster-down`.

cluster.py up DIR BIN_DIR [NODES [CARDS]] [--real-node]   start it in DIR; default 5 nodes of 8 cards
cluster.py down DIR                                       stop the processes that up started

Exit status 77: Go is missing, so there is nothing to start (1 where EGPU_REQUIRE_CLUSTER is 1), or the machine permits no real node.
"""

import pathlib
import shutil
import signal
import sys

# flake8: noqa: E402  (the real node's modules are in a separate folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "node"))

import installation
import nodes
import processes
import real_node
from apiserver import Cluster, guarded
from client import until
from parts import WHOLE
from pki import Failure


def log(text):
    print(f"cluster: {text}", flush=True)


REAL_POD = pathlib.Path(__file__).resolve().parent / "node" / "real_node_pod.yaml"
REAL = f"""
The node {real_node.NAME} is real: containers run on it that print what they got, and then wait. Its agent published its cards, four A100
that a fake NVML tells of, and prepares claims for its kubelet.

  kubectl get egpu -l elasticgpu.io/node={real_node.NAME}
  kubectl apply -f {REAL_POD}   # a class, a claim of half a card, and a pod for that node
  kubectl get pod real -o wide                    # once it is Running:
  kubectl logs real                               # what its container got
  kubectl exec -it real -- sh
"""


def up(folder, bin_dir, node_count, cards_each, real=False):
    if names := processes.running(folder):
        raise Failure(f"{', '.join(names)} of {folder} still run; make cluster-down ends them")
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "pki" / "ca.crt").exists():
            raise Failure(f"{folder} holds other things than a cluster; they would be deleted")
        shutil.rmtree(folder)
    if real:
        real_node.permitted()
    cluster = Cluster(folder, stays=True, wanted=WHOLE).start()
    try:
        log(f"Kubernetes is ready on {cluster.url}; installing")
        installation.apply_manifests(cluster)
        admin = installation.client_of(cluster)
        names = [f"gpu-{index}" for index in range(node_count)]
        nodes.publish(admin, names, cards_each)
        until("the nodes are ready", lambda: nodes.all_ready(admin, names))
        if real:
            log("starting the real node")
            real_node.RealNode(cluster).start(admin).start_agent(bin_dir)
        installation.start_controller(cluster, bin_dir, arguments=["--ops-auth=off"])  # on loopback
    except BaseException:
        cluster.stop()
        raise
    print(f"""
Kubernetes with {node_count} simulated nodes of {cards_each} cards runs in {folder}; logs are there too.

  export KUBECONFIG={cluster.kubeconfig}
  kubectl apply -f {installation.MANIFESTS / "samples" / "seed.yaml"}            # a class and two claims
  kubectl get egpuc -o wide
  kubectl apply -f {installation.SAMPLE_PODS}       # pods that name them
  kubectl get pods -o wide                        # Running, on their claims' nodes

The controller runs as a process, with the rights of its service account ({folder}/controller.log);
  {bin_dir}/kubectl-egpu map --kubeconfig {cluster.kubeconfig}   shows who has what.
Its Deployment is scaled to 0: pods on simulated nodes only look as if they ran.
{REAL if real else ""}make cluster-down ends it all.""")
    return 0


def down(folder):
    stopped = processes.stop_recorded(folder)
    log(f"ended {', '.join(stopped)}" if stopped else "nothing runs")
    return 0


def main(arguments):
    real = "--real-node" in arguments
    match [each for each in arguments if each != "--real-node"]:
        case ["up", folder, bin_dir, *counts] if len(counts) <= 2 and all(each.isdecimal() for each in counts):
            node_count, cards_each = [*map(int, counts), *(5, 8)[len(counts):]]
            return up(pathlib.Path(folder).resolve(), pathlib.Path(bin_dir).resolve(), node_count, cards_each, real)
        case ["down", folder]:
            return down(pathlib.Path(folder).resolve())
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(lambda: main(sys.argv[1:])))
