"""The environment of the faults: a cluster, two controllers with leader election behind a gate each, a second API server whose etcd is behind another gate,
and a supervisor that restarts ended processes, as a kubelet would."""

import json
import os
import pathlib
import shutil
import ssl
import time

import installation
import nodes
import parts
import verify
from client import GPUS, NODES, Client, Refused, pods, until
from pki import Failure, issue, make_authority
from processes import Processes
from tcp_gate import Gate, Loop
from witness import Witness
from workload import UNREACHABLE, Workload, unsettled

LEASE_LOST = 3  # exit status of a controller that may no longer lead
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{installation.NAMESPACE}/leases/{installation.CONTROLLER}"
NODE_NAMES = [f"n-{index}" for index in range(4)]
CARDS = 4
REPLICAS = ("first", "second")
SECOND = "second-apiserver"
RETAINED = 10  # items that stay while everything settles: they fit on half of the cards
KWOK_PATIENCE = 20  # seconds that a pod on a node may stay Pending before kwok is notified again
# Only the wall clock, because the monotonic clock cannot be set.
FAKETIME = {
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "FAKETIME_CACHE_DURATION": "1",
    # The preloaded library precedes AddressSanitizer's runtime, which must accept that.
    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
}


def faketime_library():
    found = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        raise Failure("libfaketime is missing (tests/setup/packages.sh test installs it)")
    return found[0]


class Controller:
    """One replica: its own gate, token, authorities and clock, all in files that can change while it runs."""

    def __init__(self, ground, name, arguments):
        self.ground, self.name, self.arguments = ground, name, arguments
        self.folder = ground.cluster.folder / name
        self.folder.mkdir()
        self.gate = Gate(ground.loop, ground.port)
        port, = parts.free_ports(1)
        self.address = f"127.0.0.1:{port}"  # of operations
        self.starts = 0
        self.identity = ""
        self.trust(ground.cluster.pki / "ca.crt")
        self.new_token()
        self.shift_clock(0)

    def trust(self, *authorities):
        self._replace("ca.crt", "".join(each.read_text() for each in authorities))

    def new_token(self, **spec):
        self.use_token(self.ground.client.token_for(installation.NAMESPACE, installation.ACCOUNT, expirationSeconds=24 * 3600, **spec))

    def use_token(self, token):
        self._replace("token", token)

    def shift_clock(self, seconds):
        self._replace("clock", f"{seconds:+d}")

    def _replace(self, name, text):
        beside = self.folder / f".{name}"
        beside.touch(mode=0o600)
        beside.write_text(text)
        beside.rename(self.folder / name)

    def start(self):
        self.starts += 1
        self.identity = f"{self.name}-{self.starts}"
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "test",
                  "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                  "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{self.gate.port}",
                                                            "certificate-authority": str(self.folder / "ca.crt")}}],
                  "users": [{"name": "test", "user": {"tokenFile": str(self.folder / "token")}}]}
        self._replace("kubeconfig", json.dumps(config))
        self.ground.replicas.start(self.name, [
            self.ground.bin_dir / installation.CONTROLLER, "run", f"--kubeconfig={self.folder}/kubeconfig", f"--ops-listen={self.address}",
            "--probes-listen=127.0.0.1:0", f"--leader-elect-identity={self.identity}", f"--leader-elect-resource-namespace={installation.NAMESPACE}",
            *self.ground.arguments(self.name), *self.arguments,
        ], {**FAKETIME, "LD_PRELOAD": str(faketime_library()), "FAKETIME_TIMESTAMP_FILE": str(self.folder / "clock")})


class ProvingGround:
    """Built on a running Cluster of WHOLE. Not thread-safe, except for the workload and the witness, which run in parallel."""

    def __init__(self, cluster, bin_dir, seed, rate, arguments=lambda name: ()):
        """arguments: name of a replica → its further arguments."""
        self.cluster, self.bin_dir, self.arguments = cluster, pathlib.Path(bin_dir), arguments
        self.loop = Loop()
        self.client = installation.client_of(cluster)
        self.port = int(cluster.url.rsplit(":", 1)[1])
        self.witness = Witness(cluster.etcd_url)
        installation.apply_manifests(cluster)
        nodes.publish(self.client, NODE_NAMES, CARDS)
        until("the nodes are ready", lambda: nodes.all_ready(self.client, NODE_NAMES))
        (cluster.folder / "replicas").mkdir()
        self.replicas = Processes(cluster.folder / "replicas")
        self.controllers = {name: Controller(self, name, ["--leader-elect"]) for name in REPLICAS}
        self.ended = {}  # (name, status) → number of times that a process ended by itself
        self.crashes = []
        self.reminded = 0  # pods that kwok had missed
        self.workload = Workload(self.client, seed, rate=rate)
        self.workload.classes()
        self.etcd_gate = self.second_gate = None
        for each in self.controllers.values():
            each.start()

    def close(self):
        self.workload.rest()
        self.witness.end()
        self.replicas.stop_all()

    # Running processes.

    def tend(self):
        """Restarts ended processes; a controller may end only because it lost its lease."""
        for name in list(self.replicas.children):
            status = self.replicas.children[name].poll()
            if status is None:
                continue
            self.ended[name, status] = self.ended.get((name, status), 0) + 1
            if status != LEASE_LOST:
                self.crashes.append(f"controller {name} ended with {status}:\n{self.replicas.tail(name, 30)}")
            self.replicas.stop(name)
            self.controllers[name].start()
        for name in list(self.cluster.processes.children):
            if self.cluster.processes.children[name].poll() is not None:
                self.cluster.processes.stop(name)
                self.cluster.processes.restart(name)

    def leader(self):
        """Returns (name of the replica that holds the lease, the lease), or (None, None)."""
        try:
            lease = self.client.get(LEASE)
        except (Refused, *UNREACHABLE):
            return None, None
        holder = lease["spec"].get("holderIdentity", "")
        return next((name for name, each in self.controllers.items() if each.identity == holder), None), lease

    def record(self):
        """Returns the current lease."""
        return self._retried(lambda: self.client.get(LEASE))

    def await_leader(self, but=None):
        """Waits for a leader other than the identity `but`. Returns (name, lease)."""
        def probe():
            self.tend()
            name, lease = self.leader()
            return name and lease["spec"]["holderIdentity"] != but and (name, lease)

        return until("a replica leads", probe)

    def pass_time(self, seconds):
        """Runs the workload under the fault."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tend()
            time.sleep(0.2)

    # The second API server: another certificate authority, and an etcd behind a gate.

    def start_second(self):
        pki = self.cluster.folder / "next-pki"
        if not pki.exists():
            make_authority(pki)
            issue(pki, "apiserver", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth")
            for name in ("sa.pub", "sa.key", "admin.crt", "admin.key"):
                shutil.copy(self.cluster.pki / name, pki / name)
            self.next_authority = pki / "ca.crt"
        self.etcd_gate = Gate(self.loop, int(self.cluster.etcd_url.rsplit(":", 1)[1]))
        port, = parts.free_ports(1)
        self.cluster.processes.start(SECOND, parts.kube_apiserver(
            self.cluster.binaries / "kube-apiserver", pki, f"http://127.0.0.1:{self.etcd_gate.port}", port, service_accounts=True))
        probe = Client(f"https://127.0.0.1:{port}", ssl.create_default_context(cafile=str(self.next_authority)))
        until("the second API server is ready", lambda: self._ready(probe))
        return port

    def _ready(self, probe):
        if self.cluster.processes.ended() == SECOND:
            raise Failure(f"the second API server ended by itself:\n{self.cluster.processes.tail(SECOND)}")
        try:
            probe.get("/readyz")
        except Refused:
            return False
        except UNREACHABLE:
            return False
        return True

    def stop_second(self):
        self.cluster.processes.kill(SECOND)
        self.etcd_gate.close()

    # Checks after a fault.

    def settle(self):
        """Stops the workload: everything must reach its final state. Returns the violations of all kinds."""
        self.workload.rest()
        self._retried(self.workload.complete)
        self._retried(lambda: self.workload.shrink(RETAINED))
        seen, started, reminded = [], time.monotonic(), 0

        def arrived():
            nonlocal reminded
            self.tend()
            try:
                if not reminded and time.monotonic() - started > KWOK_PATIENCE:
                    reminded = self.remind_kwok()
                self.workload.left_over()
                seen[:] = sorted(unsettled(self.client, self.workload.namespaces)) or sorted(self._violations())
                return not seen and self.witness.up_to_date()
            except (Refused, *UNREACHABLE) as error:
                seen[:] = [repr(error)]
                return False

        try:
            until("everything settles", arrived, patience=180)
        except AssertionError:
            return [f"did not settle: {seen[:5]} ({len(seen)} in all)"] + self.witness.found() + self.crashes
        return self.witness.found() + self.crashes

    def remind_kwok(self):
        """kwok forgets a step that failed while etcd was down: the pod stays Pending on its node, which would not happen with a kubelet. Any change of the
        pod triggers kwok again. Returns the number of such pods."""
        forgotten = [(namespace, each["metadata"]["name"]) for namespace in self.workload.namespaces for each in self.client.items(pods(namespace))
                     if each["spec"].get("nodeName") and each["status"].get("phase") == "Pending"]
        for namespace, name in forgotten:
            self.client.patch(f"{pods(namespace)}/{name}", {"metadata": {"labels": {"kwok": "reminded"}}})
        self.reminded += len(forgotten)
        return len(forgotten)

    @staticmethod
    def _retried(act):
        def attempt():
            try:
                return (act(),)
            except (Refused, *UNREACHABLE):
                return None

        return until("the API server answers", attempt)[0]

    def _violations(self):
        for namespace in self.workload.namespaces:
            world = verify.World(self.client, namespace)
            yield from verify.violations(world)
        every = {claim["metadata"]["uid"] for namespace in self.workload.namespaces
                 for claim in verify.World(self.client, namespace).claims.values()}
        for name, device in world.devices.items():
            if device["spec"].get("claimRef", {}).get("uid") not in every:
                yield f"device {name} belongs to no claim: {device['spec'].get('claimRef')}"
            if "deletionTimestamp" in device["metadata"]:
                yield f"device {name} is still being deleted"

    def cards_in_use(self):
        return [each for each in self.client.items(GPUS) if "card" in each["spec"] and each["spec"].get("allocations")]

    def drop_pods_of(self, node):
        """Deletes the node's pods, as the pod garbage collector would a minute later."""
        for namespace in self.workload.namespaces:
            for each in self.client.items(pods(namespace)):
                if each["spec"].get("nodeName") == node:
                    try:
                        self.client.delete(f"{pods(namespace)}/{each['metadata']['name']}?gracePeriodSeconds=0")
                    except Refused:
                        pass

    def republish(self, node):
        """Recreates the node and its missing cards, as after the return of its agent."""
        nodes.publish(self.client, [node], CARDS)
        until("the node is ready", lambda: nodes.all_ready(self.client, [node]))

    def remove_node(self, node):
        self.client.delete(f"{NODES}/{node}")
