"""Faults that last until an alert fires, one generator each: it injects the fault, yields the seconds until its next step, and removes the fault. FAULTS has the
alert of each. The faults of faults.py end before an alert could fire."""

import contextlib
import datetime
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import installation
import parts
from client import CLASSES, GPUS, claims, pods, quotas, until
from pki import Failure
from pods_test import claim, pod
from proving_ground import LEASE, NODE_NAMES, REPLICAS
from workload import CLASS_NOW

MOCK = "mock.provisioner.elasticgpu.io"
VERSION = b"0.1.0\0"
OTHER_VERSION = b"0.0.9\0"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
ACCOUNT = f"system:serviceaccount:{installation.NAMESPACE}:{installation.ACCOUNT}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
JSON_PATCH = "application/json-patch+json"


def standby_of(ground):
    elected, _ = ground.await_leader()
    return ground.controllers[next(name for name in REPLICAS if name != elected)]


def replica_stopped(ground, seconds):
    standby = standby_of(ground)
    ground.replicas.stop(standby.name)
    yield seconds
    standby.start()


def two_leases(ground, seconds):
    """The standby uses another lease, as that of a second installation does."""
    standby = standby_of(ground)
    ground.replicas.stop(standby.name)
    standby.arguments = ["--leader-elect", "--leader-elect-resource-name=other"]
    with changed_role(ground, "roles", lambda rules: rules[1].update(resourceNames=["elastic-gpu-controller", "other"])):
        standby.start()
        yield seconds
        ground.replicas.stop(standby.name)
    standby.arguments = ["--leader-elect"]
    standby.start()


def lease_of_a_stranger(ground, seconds):
    """Another process holds and renews the lease, and does nothing else."""
    ground.await_leader()
    for _ in range(round(seconds)):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ground.client.patch(LEASE, {"spec": {"holderIdentity": "stranger", "renewTime": now}})
        yield 1
    ground.client.patch(LEASE, {"spec": {"holderIdentity": ""}})
    ground.await_leader()


def lease_refused(ground, seconds):
    """The standby may not read the lease."""
    standby = standby_of(ground)
    name = "without-lease"
    accounts = f"/api/v1/namespaces/{installation.NAMESPACE}/serviceaccounts"
    binding = f"{RBAC}/clusterrolebindings"
    ground.client.create(accounts, {"metadata": {"name": name}})
    ground.client.create(binding, {"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "elastic-gpu-controller"},
                                   "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": installation.NAMESPACE}]})
    standby.use_token(ground.client.token_for(installation.NAMESPACE, name, expirationSeconds=3600))
    ground.replicas.stop(standby.name)
    standby.start()
    yield seconds
    standby.new_token()
    ground.replicas.stop(standby.name)
    standby.start()
    ground.client.delete(f"{binding}/{name}")
    ground.client.delete(f"{accounts}/{name}")


@contextlib.contextmanager
def changed_role(ground, kind, change):
    """The controller's Role or ClusterRole with changed rules."""
    path = f"{RBAC}/{'namespaces/' + installation.NAMESPACE + '/' if kind == 'roles' else ''}{kind}/elastic-gpu-controller"
    rules = ground.client.get(path)["rules"]
    changed = ground.client.get(path)["rules"]
    change(changed)
    ground.client.patch(path, {"rules": changed})
    yield
    ground.client.patch(path, {"rules": rules})


def requests_refused(ground, seconds):
    """The controller lacks the right to write the status of claims."""
    def without(rules):
        for rule in rules:
            if "elasticgpuclaims/status" in rule["resources"]:
                rule["resources"] = [each for each in rule["resources"] if each != "elasticgpuclaims/status"] or ["none"]

    with changed_role(ground, "clusterroles", without):
        yield seconds


def updates_rejected(ground, seconds):
    """An administrator's policy rejects each status that the controller writes to a claim."""
    name = {"metadata": {"name": "frozen"}}
    rule = {"apiGroups": ["elasticgpu.io"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["elasticgpuclaims/status"]}
    policy = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false", "message": "frozen"}],
              "matchConditions": [{"name": "controller", "expression": f"request.userInfo.username == '{ACCOUNT}'"}]}
    ground.client.create(f"{ADMISSION}/validatingadmissionpolicies", {**name, "spec": policy})
    ground.client.create(f"{ADMISSION}/validatingadmissionpolicybindings", {**name, "spec": {"policyName": "frozen", "validationActions": ["Deny"]}})
    yield seconds
    ground.client.delete(f"{ADMISSION}/validatingadmissionpolicybindings/frozen")
    ground.client.delete(f"{ADMISSION}/validatingadmissionpolicies/frozen")


def api_server_slow(ground, seconds):
    """Each answer of the API server takes most of a second."""
    for each in ground.controllers.values():
        each.gate.delay(0.35)
    yield seconds
    for each in ground.controllers.values():
        each.gate.heal()


def other_version(ground, seconds):
    """The standby is that of another release."""
    standby = standby_of(ground)
    ground.replicas.stop(standby.name)
    original = ground.bin_dir
    with tempfile.TemporaryDirectory(prefix="egpu-version-") as name:
        folder = pathlib.Path(name) / "bin"
        folder.mkdir()
        for each in (*original.iterdir(), original.parent / "lib"):
            (folder / each.name if each.parent == original else folder.parent / each.name).symlink_to(each.resolve())
        program = folder / installation.CONTROLLER
        program.unlink()
        content = (original / installation.CONTROLLER).read_bytes()
        if content.count(VERSION) != 1:
            raise Failure(f"the controller has its version {content.count(VERSION)} times")
        program.write_bytes(content.replace(VERSION, OTHER_VERSION))
        program.chmod(0o755)
        ground.bin_dir = folder
        standby.start()
        ground.bin_dir = original
        yield seconds
        ground.replicas.stop(standby.name)
    standby.start()


def card_unhealthy(ground, seconds):
    path = f"{GPUS}/gpu-{NODE_NAMES[-1]}-0"
    report_health(ground, path, False)
    yield seconds
    report_health(ground, path, True)


def report_health(ground, path, healthy):
    condition = {"type": "Healthy", "status": "True" if healthy else "False", "reason": "Healthy" if healthy else "Xid79",
                 "message": "" if healthy else "the card has fallen off the bus",
                 "lastTransitionTime": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
    others = [each for each in ground.client.get(path).get("status", {}).get("conditions", []) if each["type"] != "Healthy"]
    ground.client.patch(f"{path}/status", {"status": {"conditions": [*others, condition]}})


def card_flaps(ground, seconds):
    """A card with a claim becomes unhealthy and healthy again, twice each second."""
    ground.client.create(claims(), claim("on-it", CLASS_NOW, 5, "1Gi"))
    until("its claim is bound", lambda: ground.client.get(f"{claims()}/on-it").get("status", {}).get("phase") == "Bound")
    device = ground.client.get(f"{GPUS}/{ground.client.get(f'{claims()}/on-it')['status']['elasticGPUName']}")
    card = f"{GPUS}/{device['spec']['cards'][0]['name']}"
    for _ in range(12):
        for healthy in (False, True):
            report_health(ground, card, healthy)
            time.sleep(0.25)
    yield seconds
    ground.client.delete(f"{claims()}/on-it")


def pod_with_claim(ground, name):
    """Returns a running pod with a claim of that name."""
    ground.client.create(claims(), claim(name, CLASS_NOW, 5, "1Gi"))
    ground.client.create(pods(), pod(name, {"x": name}))
    until("its pod runs", lambda: ground.client.get(f"{pods()}/{name}")["status"].get("phase") == "Running")
    return ground.client.get(f"{pods()}/{name}")


def node_lost(ground, seconds):
    """The node of a running pod disappears: its claim is Lost until the pod has ended."""
    node = pod_with_claim(ground, "stranded")["spec"]["nodeName"]
    ground.remove_node(node)
    yield seconds
    ground.drop_pods_of(node)
    ground.republish(node)
    ground.drop_pods_of(node)
    ground.client.delete(f"{claims()}/stranded")


def ledger_edited(ground, seconds):
    """An administrator removes the ledger entry of a device in use."""
    ground.client.create(claims(), claim("entered", CLASS_NOW, 5, "1Gi"))
    until("its claim is bound", lambda: ground.client.get(f"{claims()}/entered").get("status", {}).get("phase") == "Bound")
    device = ground.client.get(f"{GPUS}/{ground.client.get(f'{claims()}/entered')['status']['elasticGPUName']}")
    card = f"{GPUS}/{device['spec']['cards'][0]['name']}"
    uid = device["metadata"]["uid"]
    ground.client.patch(card, {"spec": {"allocations": {uid: None}}})
    until("the entry is back", lambda: uid in ground.client.get(card)["spec"].get("allocations", {}))
    yield seconds
    ground.client.delete(f"{claims()}/entered")


def plugin_killed(ground, seconds):
    """The leader's host of gpushare dies three times."""
    name, _ = ground.await_leader()
    for _ in range(3):
        host = until("gpushare's host runs", lambda: next(iter(hosts_of(ground.replicas.children[name].pid)), None))
        os.kill(host, signal.SIGKILL)
        until("it runs again", lambda host=host: [each for each in hosts_of(ground.replicas.children[name].pid) if each != host])
        yield 2
    yield seconds


def claim_of(name, cls, requests):
    """Returns a claim with requests for any provisioner."""
    return {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name},
            "spec": {"egpuClassName": cls, "resources": {"requests": {f"elasticgpu.io/{key}": value for key, value in requests.items()}}}}


def provision_fails(ground, seconds):
    """The service behind a plugin is down."""
    ground.client.create(CLASSES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": "down"}, "provisioner": MOCK,
                                   "egpuBindingMode": "Immediate", "parameters": {"outcome": "unavailable"}})
    names = [f"down-{index}" for index in range(round(seconds))]
    for name in names:  # one after the other, because the calls for one device have a growing backoff
        ground.client.create(claims(), claim_of(name, "down", {"gpu-core": 5}))
        yield 1
    for name in names:
        ground.client.delete(f"{claims()}/{name}")
    until("its claims are gone", lambda: not any(ground.client.exists(f"{claims()}/{name}") for name in names))
    ground.client.delete(f"{CLASSES}/down")


def hosts_of(controller):
    """Returns the processes in which a controller runs gpushare's plugin."""
    found = []
    for pid in subprocess.run(["ps", "-o", "pid=", "--ppid", str(controller)], capture_output=True, text=True, check=False).stdout.split():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            text = file.read()
            if b"egpu-plugin-host" in text and b"gpushare" in text:
                found.append(int(pid))
    return found


def journal_disk_full(ground, seconds, journals):
    """The leader's folder for the journal has no space."""
    name, _ = ground.await_leader()
    filled = journals.folder / name / "filled"
    with open(filled, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    yield seconds
    filled.unlink()


@contextlib.contextmanager
def team_quota(ground, team, hard):
    """A namespace whose claims have 100 % of a card, with a quota of so many."""
    client = ground.client
    client.create("/api/v1/namespaces", {"metadata": {"name": team}})
    for index in range(4):
        client.create(claims(team), claim(f"quarter-{index}", CLASS_NOW, 25, "1Gi"))
    until("they are bound", lambda: all(each.get("status", {}).get("phase") == "Bound" for each in client.items(claims(team))))
    client.create(quotas(team), {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUQuota", "metadata": {"name": "team"}, "spec": {"hard": {"gpu-core": hard}}})
    # The fault begins with the metrics, which are set with the status.
    until("its usage is counted", lambda: client.get(f"{quotas(team)}/team").get("status", {}).get("used"))
    yield
    client.delete(f"{quotas(team)}/team")
    client.delete_all(claims(team))
    until("its claims are gone", lambda: not client.items(claims(team)))
    client.delete(f"/api/v1/namespaces/{team}")
    until("it is gone", lambda: not client.exists(f"/api/v1/namespaces/{team}"))


def quota_nearly_used(ground, seconds):
    with team_quota(ground, "nearly", 105):
        yield seconds


def quota_lowered(ground, seconds):
    with team_quota(ground, "lowered", 50):
        yield seconds


def devices_held(ground, seconds):
    """A user removes the claim of a running pod with its finalizers."""
    pod_with_claim(ground, "removed")
    ground.client.patch(f"{claims()}/removed", {"metadata": {"finalizers": None}})
    ground.client.delete(f"{claims()}/removed")
    yield seconds
    ground.client.delete(f"{pods()}/removed")


def claim_too_large(ground, seconds):
    """A claim asks for more cards than a node has."""
    ground.client.create(claims(), claim_of("too-large", CLASS_NOW, {"gpu": 64}))
    yield seconds
    ground.client.delete(f"{claims()}/too-large")
    ground.pause_workload()
    for _ in range(60):  # on a slow machine, claims of the workload are pending in each sample
        if not any(ground.recorder.last("elasticgpu_claims", 'phase="Pending"')):
            break
        yield 1


def class_full(ground, seconds):
    """A class for cards of a model of which there is none, with a claim that waits."""
    model = {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": "other"}, "provisioner": "gpushare.provisioner.elasticgpu.io",
             "egpuBindingMode": "Immediate", "parameters": {"model": "H100-SXM5-80GB"}}
    ground.client.create(CLASSES, model)
    ground.client.create(claims(), claim("waits", "other", 100, "1Gi"))
    yield seconds
    ground.client.delete(f"{claims()}/waits")
    ground.client.delete(f"{CLASSES}/other")
    for _ in range(60):  # the controller computes the metric of a class every 15 s, on a slow machine less often
        if not ground.recorder.last("elasticgpu_claims_that_fit", 'class="other"'):
            break
        yield 1


# Fault → (its alert, minutes of the recording that it lasts, minutes after it until the alert ends).
FAULTS = {
    lease_of_a_stranger: ("ElasticGPUNoLeader", 4, 2),
    two_leases: ("ElasticGPUTwoLeaders", 4, 1),
    replica_stopped: ("ElasticGPUControllerDown", 6, 1),
    lease_refused: ("ElasticGPULeaseFails", 8, 6),
    ledger_edited: ("ElasticGPULedgerDrift", 1, 16),
    card_flaps: ("ElasticGPUStatusAlternates", 1, 30),  # the last write has a backoff of up to ten of these minutes
    updates_rejected: ("ElasticGPUReconcilesFail", 22, 7),
    api_server_slow: ("ElasticGPUQueueSlow", 32, 12),
    requests_refused: ("ElasticGPUApiRequestsFail", 13, 6),
    other_version: ("ElasticGPUVersionsDiffer", 64, 2),
    plugin_killed: ("ElasticGPUPluginRestarts", 1, 16),
    provision_fails: ("ElasticGPUPluginCallsFail", 14, 6),
    journal_disk_full: ("ElasticGPUJournalLosesRecords", 4, 30),
    card_unhealthy: ("ElasticGPUCardsQuarantined", 12, 1),
    node_lost: ("ElasticGPUClaimsLost", 7, 3),
    claim_too_large: ("ElasticGPUClaimsPending", 64, 2),
    quota_nearly_used: ("ElasticGPUQuotaAlmostUsed", 17, 1),
    quota_lowered: ("ElasticGPUQuotaExceeded", 17, 1),
    class_full: ("ElasticGPUClassFull", 36, 4),
    devices_held: ("ElasticGPUDevicesHeld", 36, 4),
}

# These last at the same time: each fires an alert of its own, and none affects another. claim_too_large begins with its group, because the workload's claims
# are pending for a while, too. The other faults are injected alone.
TOGETHER = (
    (ledger_edited, card_flaps, plugin_killed, journal_disk_full),
    (claim_too_large, other_version, class_full, devices_held, quota_nearly_used, quota_lowered, card_unhealthy),
)


def groups():
    """Returns all faults: groups of those that last at the same time."""
    return [*((each,) for each in FAULTS if not any(each in group for group in TOGETHER)), *TOGETHER]


class Journals:
    """Folders for the replicas' journals on small file systems, which a fault can fill."""

    SIZE = "6m"  # size of the file system; a journal gets less

    def __init__(self, folder):
        self.folder = folder
        for name in REPLICAS:
            (folder / name).mkdir(parents=True)
            done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.SIZE},mode=700", "tmpfs", folder / name], capture_output=True, text=True, check=False)
            if done.returncode:
                raise parts.Skip(f"no file system can be mounted here: {done.stderr.strip()}")

    def arguments(self, name):
        return [f"--journal={self.folder / name}", "--journal-size=4MiB"]

    def close(self):
        for name in REPLICAS:
            if subprocess.run(["umount", self.folder / name], check=False).returncode:
                raise Failure(f"{self.folder / name} cannot be unmounted")
