#!/usr/bin/env python3
"""Proves that a real kubelet with containerd runs pods that print their environment, that the pods survive restarts of both, and that nothing is left
behind.  real_node_test.py [VERSION]

VERSION: the kubelet's, 1.34, independent of the rest of the cluster: the oldest that the newest API server still supports.
"""

import os
import pathlib
import signal
import sys
import tempfile

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import installation
import namespaces
import parts
import real_node
from apiserver import Cluster, guarded
from client import NODES, Report, pods, until
from processes import Processes


def pod(name, *containers, **spec):
    """A pod on the real node. containers: (name, command or None for the image's own)."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeSelector": {real_node.LABEL: "true"}, "terminationGracePeriodSeconds": 1, **spec,
                     "containers": [{"name": each, "image": real_node.IMAGE, **({"command": command} if command else {})}
                                    for each, command in containers]}}


def run(admin, body):
    """Creates the pod and blocks until it runs."""
    admin.create(pods(), body)
    name = body["metadata"]["name"]
    until(f"pod {name} runs", lambda: admin.get(f"{pods()}/{name}")["status"]["phase"] == "Running")


def container(admin, name):
    """Returns (id, restarts) of the pod's first container, once it runs."""
    status = until(f"a container of {name} runs", lambda: next(
        (each for each in admin.get(f"{pods()}/{name}")["status"].get("containerStatuses", []) if "running" in each["state"]), None))
    return status["containerID"], status["restartCount"]


def execute(cluster, name, *command):
    return installation.kubectl(cluster, "exec", name, "--", *command, check=False)


def check_pods(cluster, admin, version, report):
    node = admin.get(f"{NODES}/{real_node.NAME}")
    info = node["status"]["nodeInfo"]
    report.check("it is a node as the others, with its label", node["metadata"]["labels"].get(real_node.LABEL) == "true", node["metadata"])
    report.check("with containerd and the kubelet that was asked for", info["containerRuntimeVersion"].startswith("containerd://2.")
                 and info["kubeletVersion"].startswith(f"v{version}." if version else "v"), info)
    run(admin, pod("plain", ("main", None), hostname="its-name"))
    text = until("it has printed", lambda: installation.kubectl(cluster, "logs", "plain"))
    report.check("kubectl logs gives what it printed", "HOSTNAME=its-name" in text and "/dev/null" in text, text)
    output = execute(cluster, "plain", "sh", "-c", "echo $((6 * 7)); hostname")
    report.check("kubectl exec gives what the command printed", output.split() == ["42", "its-name"], output)
    run(admin, pod("shared", ("main", ["sh", "-c", "hostname; sleep infinity"]), hostNetwork=True))
    report.check("so runs one in the node's network", container(admin, "shared")[1] == 0)
    first, _ = container(admin, "plain")
    execute(cluster, "plain", "kill", "1")
    until("it was started again", lambda: container(admin, "plain")[1] == 1)
    report.check("a container that ended is another one afterwards", container(admin, "plain")[0] != first)


def check_killed(cluster, node, report):
    """Running containers continue without kubelet and containerd, and both recognise them after a restart."""
    admin = node.admin
    before = container(admin, "plain")
    for names in (["kubelet"], ["containerd"], ["containerd", "kubelet"]):
        node.kill(*names)
        node.restart(*names)
        name = "after-" + "-".join(names)
        run(admin, pod(name, ("main", None)))
        output = until("kubectl exec works again", lambda: execute(cluster, "plain", "echo", "here").strip() == "here")
        report.check(f"{names} killed: the container goes on", output and container(admin, "plain") == before, container(admin, "plain"))
    admin.delete(f"{pods()}/plain")
    until("a pod is deleted as ever", lambda: not admin.exists(f"{pods()}/plain"))


def machine(folder):
    """Returns mounts and files of a node that might remain on the machine."""
    mounts = [each for each in pathlib.Path("/proc/self/mounts").read_text().splitlines() if str(folder) in each]
    return mounts, [each for each in ("/dev/nvidiactl", "/opt/containerd", "/run/containerd", "/var/lib/kubelet") if os.path.exists(each)]


def cgroups(name):
    return [mount_point / name for mount_point, _, _ in namespaces.hierarchies() if (mount_point / name).exists()]


def check_ended_outright(folder, report):
    """However the holder ends, no process remains, and the next start removes the cgroups."""
    processes = Processes(folder)
    holder = real_node.hold(processes, "first", folder / "first")
    name = namespaces.cgroup_name(holder.pid)
    inside = namespaces.Namespaces(holder.pid)
    inside.run("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &")  # an orphan, like a container's shim
    processes.start("sleeper", ["sleep", "1000"], inside=inside)
    report.check("who holds them, process 1 and two more are there", len(inside.processes()) == 4, inside.processes())
    tunable = inside.run("cat", "/proc/sys/kernel/panic")
    report.check("a kubelet finds the kernel's settings as it wants them", tunable == "10\n", tunable)
    processes.kill("first")
    processes.stop("sleeper")
    until("all in the namespaces are gone", lambda: not inside.processes())
    inside.close()
    report.check("its cgroups stay", cgroups(name))
    real_node.hold(processes, "second", folder / "second")
    report.check("until the next one starts", not cgroups(name), cgroups(name))
    processes.stop_all()


def main():
    version = sys.argv[1] if len(sys.argv) > 1 else None
    real_node.permitted(version)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-node-") as name:
        folder = pathlib.Path(name).resolve()
        before = machine(folder)
        check_ended_outright(folder, report)
        with Cluster(folder / "cluster", wanted=parts.WHOLE) as cluster:
            admin = installation.client_of(cluster)
            node = real_node.RealNode(cluster, version=version).start(admin)
            check_pods(cluster, admin, version, report)
            node.put_in_cards(real_node.A100)
            found = node.namespaces.run("sh", "-c", "ls /dev/nvidia*").split()
            report.check("it has four cards", set(found) == {f"/dev/nvidia{each}" for each in (0, 1, 2, 3, "ctl", "-uvm")}, found)
            check_killed(cluster, node, report)
            report.check("what runs is in cgroups of its own", cgroups(node.cgroup) and len(node.namespaces.processes()) > 4)
        report.check("no cgroup is left", not cgroups(node.cgroup), cgroups(node.cgroup))
        report.check("no process is left", not node.namespaces.processes(), node.namespaces.processes())
    report.check("the machine is as it was", machine(folder) == before, machine(folder))
    return report.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
