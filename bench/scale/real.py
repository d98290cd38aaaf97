"""A controller on a real Kubernetes: API server, etcd that syncs to the disk, stock scheduler and controller manager; kwok plays the kubelets."""

import sys
import tempfile

from objects import NodeGroup
from server import Measured, wait
import apiserver  # importing server adds its folder to sys.path
import installation
import nodes
from client import until
from parts import WHOLE

LOG_LINES = 60  # of the controller, printed if a scenario fails


class RealServer(Measured):
    """A cluster with nodes of these groups, and the controller as a process with the rights of its service account."""

    def __init__(self, bin_dir, *groups: NodeGroup):
        self.folder = tempfile.TemporaryDirectory(prefix="egpu-scale-")
        self.cluster = apiserver.Cluster(self.folder.name, wanted=WHOLE, fsync=True)
        try:
            self.cluster.start()
            self._install(bin_dir, groups)
        except BaseException:
            self.clean()
            raise

    def _install(self, bin_dir, groups):
        installation.apply_manifests(self.cluster)
        self.client = installation.client_of(self.cluster)
        self.client.separators = (",", ":")  # as in kubectl's JSON
        names = []
        for group in groups:
            names += [f"{group.name}-{index:04}" for index in range(group.count)]
            nodes.publish(self.client, names[-group.count:], group.cards, model=group.model)
        until("the nodes are ready", lambda: nodes.all_ready(self.client, names))
        probes = self.cluster.folder / "probes"
        self.ops = "http://" + installation.start_controller(self.cluster, bin_dir, arguments=["--ops-auth=off", f"--write-probes-address={probes}"])
        self.probes = "http://" + probes.read_text(encoding="utf-8").strip()
        self.process = self.cluster.processes.children["controller"]
        wait("the controller is ready", lambda: self.probe("readyz", 10) is None)

    def dump_log(self):
        print(self.cluster.processes.tail("controller", LOG_LINES), file=sys.stderr)

    def clean(self):
        for name in reversed(list(self.cluster.processes.children)):
            self.cluster.processes.kill(name)  # a graceful API server drains its watches for most of a minute
        self.folder.cleanup()
