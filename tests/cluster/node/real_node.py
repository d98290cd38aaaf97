#!/usr/bin/env python3
"""A real node on this machine: containerd and a kubelet, in separate namespaces and cgroups (namespaces.py), with one image to run.

The image prints its environment, its devices and its mounts, and then waits. It contains busybox and has these names: localhost/busybox:1, localhost/pause:1,
and that of the sample pods, so that they run unchanged.

real_node.py build [VERSION]   only build what is missing, except the cluster's parts

Exit status 77: this machine can't have a real node; prints the reason.
"""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import urllib.error
import urllib.request

import yaml

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import images
import installation
import namespaces
import parts
from apiserver import guarded
from client import NODES, until
from pki import Failure, issue, write_kubeconfig
from processes import Processes

NAME = "real-0"
PROGRAMS = ("runc", "busybox")  # installed on the machine
LABEL = "elasticgpu.io/real"
AGENT = "elastic-gpu-agent"  # binary and service account
A100 = installation.ROOT / "tests" / "nvml" / "nodes" / "a100.yaml"
IMAGE = "localhost/busybox:1"
PAUSE = "localhost/pause:1"
SAMPLE = "docker.io/nvidia/cuda:10.0-base"
SOCKET = "/run/containerd/containerd.sock"  # as the node's processes see it, like all their paths
CDI = "/var/run/cdi"
STATE = "/var/lib/elasticgpu"
# A CNI plugin. These tests need no pod network: pods have loopback, and a nominal address.
NETWORK = """\
#!/bin/sh
case $CNI_COMMAND in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
ADD) echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}],
            "ips": [{"address": "10.88.0.1/32", "interface": 0}]}' ;;
esac
"""
CONTAINERD = """\
version = 3
root = '{folder}/containerd'
state = '/run/containerd'
[grpc]
  address = '{socket}'
[plugins]
  [plugins.'io.containerd.cri.v1.images']
    snapshotter = '{snapshotter}'
    [plugins.'io.containerd.cri.v1.images'.pinned_images]
      sandbox = '{pause}'
  [plugins.'io.containerd.cri.v1.runtime']
    restrict_oom_score_adj = true
    enable_cdi = true
    cdi_spec_dirs = ['{cdi}']
    [plugins.'io.containerd.cri.v1.runtime'.cni]
      bin_dirs = ['{folder}/cni']
      conf_dir = '{folder}/cni'
      use_internal_loopback = true
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = '{runc}'
        SystemdCgroup = false
  [plugins.'io.containerd.internal.v1.opt']
    path = '{folder}/opt'
  [plugins.'io.containerd.nri.v1.nri']
    disable = true
"""


def tool(name):
    """Returns the path of a program of the machine, sbin included."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not found:
        raise parts.Skip(f"{name} is missing (tests/setup/packages.sh test installs it), so no real node can run")
    return found


def hold(processes, name, folder):
    """Starts the holder of a node's namespaces and waits for them. Raises Skip if the machine does not permit them."""
    folder.mkdir(exist_ok=True)
    (folder / "ready").unlink(missing_ok=True)
    holder = processes.start(name, [sys.executable, namespaces.__file__, "hold", folder])
    until("the namespaces are made", lambda: (folder / "ready").exists() or holder.poll() is not None)
    if holder.poll() is not None:
        raise parts.Skip(f"this machine permits no real node: {processes.tail(name, 1)}")
    return holder


def built(version=None):
    """Builds what is missing. version: the kubelet's, in the format of EGPU_KUBERNETES; None: the cluster's version."""
    parts.binaries("kubelet", version=version)
    parts.binaries("containerd")


def permitted(version=None):
    """Builds what is missing. Raises Skip with the reason if this machine can't have a real node."""
    if os.geteuid() != 0:
        raise parts.Skip("a real node needs root")
    for name in PROGRAMS:
        tool(name)
    built(version)
    with tempfile.TemporaryDirectory(prefix="egpu-permitted-") as folder:
        processes = Processes(folder)
        try:
            hold(processes, "namespaces", pathlib.Path(folder) / "node")
        finally:
            processes.stop_all()


def kubelet_config(pki, port, cgroup, reports_health):
    return {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": "127.0.0.1", "port": port, "healthzPort": 0, "readOnlyPort": 0,
            "authentication": {"x509": {"clientCAFile": str(pki / "ca.crt")}, "anonymous": {"enabled": False},
                               "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{SOCKET}", "resolvConf": "", "clusterDNS": ["10.0.0.10"], "makeIPTablesUtilChains": False,
            "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{cgroup}", "enforceNodeAllocatable": [], "failCgroupV1": False,
            "failSwapOn": False, "oomScoreAdj": 0, "protectKernelDefaults": True,
            # Interval of retries for pods whose claims could not be prepared; the default is 60 to 90 s.
            "syncFrequency": "5s",
            # On by default from 1.36 on.
            "featureGates": {"ResourceHealthStatus": reports_health},
            # Low disk space of the machine must not look like a node that evicts its pods.
            "evictionHard": {}, "imageGCHighThresholdPercent": 100, "localStorageCapacityIsolation": False,
            "volumePluginDir": "/var/lib/kubelet/volume-plugins"}


class RealNode:
    """The node of a running Cluster with controller manager and scheduler. Its processes belong to the cluster and end with it: containerd, kubelet, agents
    and the holder of their namespaces, named after the node. version: the kubelet's. servers: API server addresses for "kubelet" or "agent", if they
    differ from the cluster's. Not thread-safe."""

    def __init__(self, cluster, name=NAME, version=None, servers=None):
        self.cluster, self.name, self.version = cluster, name, version
        self.servers = servers or {}
        self.folder = cluster.folder / name
        self.processes = cluster.processes
        self.admin = None
        self.namespaces = None
        self.cgroup = self.snapshotter = ""
        self.binaries = None  # containerd's
        self.port = 0  # the kubelet's
        # Whether the kubelet reports its devices' health in a pod's status, from its next start on. Version 1.34 lists a device twice if two pods share it or
        # after a reboot, and the API server then refuses the status of these pods.
        self.reports_health = version is None
        self.cards = A100  # the file that defines the node's hardware

    def start(self, admin):
        """Blocks until the node is Ready. Call it only after permitted()."""
        self.admin = admin
        self._boot()
        self._start_containerd(parts.binaries("containerd"))
        images.busybox(self.folder / "image.tar", tool("busybox"), [IMAGE, PAUSE, SAMPLE])
        self.take_image(self.folder / "image.tar")
        self._start_kubelet(parts.binaries("kubelet", version=self.version) / "kubelet")
        return self

    def _boot(self):
        holder = hold(self.processes, f"{self.name}-namespaces", self.folder)
        self.namespaces = namespaces.Namespaces(holder.pid)
        self.cgroup = namespaces.cgroup_name(holder.pid)
        self.snapshotter = (self.folder / "ready").read_text()
        self.namespaces.run("mkdir", "-p", STATE)  # as the DaemonSet's volume does

    def power_off(self):
        """Simulates a power failure: kills every process including containers, and removes /run and the device nodes. Disk contents remain, except /var/lib
        outside the kubelet's folder."""
        for each in [each for each in self.processes.children if each.startswith(f"{self.name}-")]:
            self.processes.kill(each)  # the holder of the namespaces: all processes in them die with it
        until("nothing runs any more", lambda: not self.namespaces.processes())
        self.namespaces.close()
        shutil.rmtree(self.folder / "run")

    def power_on(self, *names):
        """After power_off(): restores the cards and starts these processes, in this order."""
        self._boot()
        self._configure_kubelet()
        self.put_in_cards(self.cards)
        self.restart(*names)

    def _start_containerd(self, binaries):
        cni = self.folder / "cni"
        cni.mkdir()
        (cni / "in-name-only").write_text(NETWORK)
        (cni / "in-name-only").chmod(0o755)
        (cni / "10-pods.conflist").write_text(json.dumps(
            {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "in-name-only"}]}))
        config = self.folder / "containerd.toml"
        config.write_text(CONTAINERD.format(folder=self.folder, socket=SOCKET, snapshotter=self.snapshotter, pause=PAUSE, cdi=CDI,
                                            runc=tool("runc")))
        self.binaries = binaries
        self.processes.start(f"{self.name}-containerd", [binaries / "containerd", "--config", config],
                             {"PATH": f"{binaries}:{os.environ['PATH']}:/usr/sbin:/sbin"}, self.namespaces)
        self._await("containerd")

    def put_in_cards(self, file):
        """Sets the hardware of the fake NVML from a file such as those in tests/nvml/nodes, with its device nodes. Returns the environment for a process of
        the node that uses it, except the library's folder."""
        self.cards, text = file, file.read_text()
        beside = self.folder / "run" / ".nvml.yaml"
        beside.write_text(text)
        beside.rename(self.folder / "run" / "nvml.yaml")  # a folder that users without access to the node's folder can read
        minors = [each["minor"] for each in yaml.safe_load(text)["devices"]]
        for name, minor in [("ctl", 255), ("-uvm", 254), *((each, each) for each in minors)]:
            self.namespaces.run("sh", "-c", f"[ -e /dev/nvidia{name} ] || mknod -m 666 /dev/nvidia{name} c 195 {minor}")
        return {"ELASTICGPU_FAKE_NVML": "/run/nvml.yaml"}

    def start_agent(self, bin_dir, *arguments, name="agent"):
        """Starts the agent with the rights of its service account on this node. It sees four A100 by the fake NVML, unless other cards were set. Blocks
        until it is ready. name: an additional agent."""
        library = bin_dir.parent / "lib" / "nvml"
        if not (library / "libnvidia-ml.so.1").exists():
            raise Failure(f"{library} holds no fake NVML: build the target fake_nvml")
        kubeconfig = self.folder / "agent.kubeconfig"
        token = self.admin.token_for(installation.NAMESPACE, AGENT, expirationSeconds=installation.TOKEN_SECONDS,
                                     boundObjectRef={"apiVersion": "v1", "kind": "Node", "name": self.name})
        write_kubeconfig(kubeconfig, self.servers.get("agent", self.cluster.url), self.cluster.pki, AGENT, token)
        environment = self.put_in_cards(self.cards)
        self.forget_addresses(name)
        self.processes.start(f"{self.name}-{name}", [
            bin_dir / AGENT, f"--node-name={self.name}", f"--kubeconfig={kubeconfig}", "--ops-listen=127.0.0.1:0",
            "--probes-listen=127.0.0.1:0", *(f"--write-{each}-address={self.folder / name}.{each}" for each in ("ops", "probes")),
            *arguments,
        ], {**environment, "LD_LIBRARY_PATH": str(library)}, self.namespaces)
        self._await(name)

    def forget_addresses(self, agent):
        for each in ("ops", "probes"):
            (self.folder / f"{agent}.{each}").unlink(missing_ok=True)

    def ask_agent(self, path, name="agent"):
        """Returns (status, text) of its probes or of /metrics. Raises OSError if it does not answer yet."""
        address = (self.folder / f"{name}.{'ops' if path == '/metrics' else 'probes'}").read_text().strip().removeprefix("http://")
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def _agent_is_ready(self, name):
        try:
            return self.ask_agent("/readyz", name)[0] == 200
        except OSError:  # not yet written, or not yet listening
            return False

    def prepared(self):
        """Returns the prepared CDI files: file name → text."""
        return {name: text for name, text in self.cdi_files().items() if name.endswith(".json")}

    def cdi_files(self):
        """Returns all CDI files, including those being prepared or removed: file name → text."""
        found = {}
        for each in self.namespaces.path("/run/cdi").glob("elasticgpu.io-device_*"):
            with contextlib.suppress(FileNotFoundError):  # the file may be renamed meanwhile
                found[each.name] = each.read_text()
        return found

    def kill(self, *names):
        """Sends SIGKILL to kubelet, containerd, agent, additional agents or several of them."""
        for each in names:
            self.processes.kill(f"{self.name}-{each}")

    def restart(self, *names, wait=True):
        """Starts them again in this order, each when the previous one answers. A kubelet exits if containerd does not answer."""
        for each in names:
            self.forget_addresses(each)
            command, environment, _ = self.processes.commands[f"{self.name}-{each}"]
            self.processes.start(f"{self.name}-{each}", command, environment, self.namespaces)
            if wait:
                self._await(each)

    def disable_health(self):
        """Restarts the kubelet without reports of devices' health if its version reports them incorrectly (reports_health)."""
        if self.reports_health and self.version is not None:
            self.reports_health = False
            self.kill("kubelet")
            self._configure_kubelet()
            self.restart("kubelet")

    def _await(self, what):
        answers = {"containerd": self._containerd_answers, "kubelet": self._kubelet_answers}.get(
            what, lambda: self._agent_is_ready(what))
        until(f"{what} of {self.name} answers", lambda: self._lives(what) and answers())

    def ctr(self, *arguments):
        """Returns the output of containerd's own client, in the namespace of Kubernetes."""
        return self.namespaces.run(self.binaries / "ctr", "--address", SOCKET, "--namespace", "k8s.io", *arguments)

    def take_image(self, tar):
        """Imports an image of images.py."""
        self.ctr("images", "import", "--local", "--snapshotter", self.snapshotter, tar)

    def _containerd_answers(self):
        try:
            return self.ctr("plugins", "ls", "-q")
        except Failure:
            return False

    def _lives(self, what):
        """Raises Failure with the end of its log if the process has ended."""
        name = f"{self.name}-{what}"
        if self.processes.children[name].poll() is not None:
            raise Failure(f"{name} ended:\n{self.processes.tail(name)}")
        return True

    def _configure_kubelet(self):
        self.port = parts.free_ports(1)[0]
        (self.folder / "kubelet.yaml").write_text(json.dumps(kubelet_config(self.cluster.pki, self.port, self.cgroup, self.reports_health)))

    def _start_kubelet(self, binary):
        self._configure_kubelet()
        issue(self.cluster.pki, self.name, f"/O=system:nodes/CN=system:node:{self.name}")
        kubeconfig = self.folder / "kubeconfig"
        write_kubeconfig(kubeconfig, self.servers.get("kubelet", self.cluster.url), self.cluster.pki, self.name)
        # With a cloud provider the kubelet does not set addresses: the node's address can thus be loopback, which needs no network and is not reachable from
        # outside.
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": self.name}]
        self.admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "status": {"addresses": addresses},
                                  "metadata": {"name": self.name, "labels": {LABEL: "true", "kubernetes.io/hostname": self.name}}})
        self.processes.start(f"{self.name}-kubelet", [
            binary, f"--config={self.folder}/kubelet.yaml", f"--kubeconfig={kubeconfig}", f"--hostname-override={self.name}",
            "--cloud-provider=external", "--v=2"], inside=self.namespaces)
        self._await("kubelet")

    def _kubelet_answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10):
                return self.ready()
        except OSError:
            return False

    def ready(self):
        """Returns true if the API reports the node as Ready; a kubelet that has just ended still counts as Ready."""
        node = self.admin.get(f"{NODES}/{self.name}")
        return not node["spec"].get("taints") and any(
            each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", []))


def main():
    if sys.argv[1:2] != ["build"] or len(sys.argv) > 3:
        print(__doc__, file=sys.stderr)
        return 2
    built(*sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
