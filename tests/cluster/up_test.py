#!/usr/bin/env python3
"""Proves that `make cluster` and `make cluster-down` work: the cluster starts as documented and ends without leftovers.

up_test.py BIN_DIR [--real-node]   with it: as with REAL_NODE=1
"""

import pathlib
import re
import signal
import subprocess
import sys
import tempfile

# flake8: noqa: E402  (the real node's modules are in a separate folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "node"))

import parts
import processes
import real_node
from apiserver import guarded
from client import Report, until

TOOL = pathlib.Path(__file__).resolve().parent / "cluster.py"


def tool(*arguments):
    return subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True, check=False)


def of_folder(folder):
    """Returns command lines of all processes that name the folder, recorded or not."""
    found = []
    for each in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def kubectl(shown, *arguments):
    """Returns kubectl's output with the kubeconfig that `up` printed; its error output only if it fails, as installation.kubectl."""
    kubeconfig = re.search(r"export KUBECONFIG=(\S+)", shown).group(1)
    done = subprocess.run(["kubectl", "--kubeconfig", kubeconfig, *arguments], capture_output=True, text=True, check=False)
    return done.stdout + (done.stderr if done.returncode else "")


def check_real(folder, bin_dir, report):
    """The commands printed for the real node work as printed."""
    done = tool("up", folder, bin_dir, 1, 1, "--real-node")
    if not report.check("up with a real node", done.returncode == 0, done.stdout + done.stderr):
        return
    of_node = {f"{real_node.NAME}-{each}" for each in ("namespaces", "containerd", "kubelet", "agent")}
    report.check("all parts run, and the node's", set(processes.running(folder)) == {*parts.WHOLE, "controller", *of_node},
                 processes.running(folder))
    listed = re.search(r"kubectl (get egpu -l \S+)", done.stdout).group(1).split()
    cards = kubectl(done.stdout, *listed, "-o", "name").split()
    report.check("its cards are there", len(cards) == 4, cards)
    output = kubectl(done.stdout, *re.search(r"kubectl (apply -f \S+real_node_pod.yaml)", done.stdout).group(1).split())
    report.check("what it names can be applied", "pod/real created" in output, output)
    until("the pod runs", lambda: "Running" in kubectl(done.stdout, "get", "pod", "real"))
    until("it has printed its devices", lambda: "/dev/nvidiactl" in kubectl(done.stdout, "logs", "real"))
    log = kubectl(done.stdout, "logs", "real")
    report.check("kubectl logs shows what it got", "ELASTICGPU_CLAIM=default/real" in log and "ELASTICGPU_CORE_0=500" in log, log)
    output = kubectl(done.stdout, "exec", "real", "--", "sh", "-c", "echo $ELASTICGPU_MEMORY_0")
    report.check("kubectl exec works", output.strip() == str(40 << 30), output)


def check_up(folder, bin_dir, report):
    done = tool("up", folder, bin_dir, 1, 2)
    if not report.check("up", done.returncode == 0, done.stdout + done.stderr):
        return
    report.check("all parts run", set(processes.running(folder)) == {*parts.WHOLE, "controller"}, processes.running(folder))
    shown = kubectl(done.stdout, "get", "nodes,egpu", "-o", "name")
    report.check("the kubeconfig that it names shows the nodes and cards",
                 shown.split() == ["node/gpu-0", "elasticgpu.elasticgpu.io/gpu-gpu-0-0", "elasticgpu.elasticgpu.io/gpu-gpu-0-1"], shown)
    listed = re.search(r"(\S+/kubectl-egpu map --kubeconfig \S+)", done.stdout).group(1).split()
    shown = subprocess.run(listed, capture_output=True, text=True, check=False)
    report.check("the map that it names shows the node", "gpu-0" in shown.stdout, shown.stdout + shown.stderr)
    again = tool("up", folder, bin_dir)
    report.check("a second start reports the running cluster", again.returncode == 1 and "still run; make cluster-down" in again.stdout, again.stdout)


def main():
    real = "--real-node" in sys.argv
    parts.binaries(*parts.WHOLE)
    if real:
        real_node.permitted()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-up-") as name:
        folder = pathlib.Path(name).resolve() / "cluster"
        other = folder / "other"
        other.mkdir(parents=True)
        refused = tool("up", folder, sys.argv[1])
        report.check("a folder with other things in it is left alone", refused.returncode == 1 and other.exists(), refused.stdout)
        other.rmdir()
        try:
            (check_real if real else check_up)(folder, sys.argv[1], report)
        finally:
            done = tool("down", folder)
        ended = ("controller", "etcd", *([f"{real_node.NAME}-agent"] if real else []))
        report.check("down prints the stopped processes", all(each in done.stdout for each in ended), done.stdout)
        report.check("nothing runs any more", not of_folder(folder), of_folder(folder))
        done = tool("down", folder)
        report.check("down again does nothing", done.returncode == 0 and "nothing runs" in done.stdout, done.stdout)
    return report.close()


if __name__ == "__main__":
    # The cluster outlives its starter: end it also when this test is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
