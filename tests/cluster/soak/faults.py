"""The faults, one function each: inject the fault, let the workload continue under it, remove the fault. The proving ground checks the rules that must hold
afterwards, the witness those that must hold meanwhile. A returned text is a figure to print."""

import contextlib
import datetime
import time

import installation
from client import GPUS, Refused, claims, pods, until
from pki import Failure
from pods_test import claim, pod
from proving_ground import REPLICAS
from workload import CLASS_NOW, UNREACHABLE

POLICIES = "/apis/admissionregistration.k8s.io/v1"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
USER = f"system:serviceaccount:{installation.NAMESPACE}:{installation.ACCOUNT}"


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def took_over(ground, before):
    """Another replica holds the lease. According to the records, which use one machine's clock, it waited for the whole lease duration."""
    started = time.monotonic()
    _, lease = ground.await_leader(but=before["spec"]["holderIdentity"])
    spec = lease["spec"]
    waited = (moment(spec["acquireTime"]) - moment(before["spec"]["renewTime"])).total_seconds()
    if waited < spec["leaseDurationSeconds"]:
        raise AssertionError(f"{spec['holderIdentity']} took the lease {waited} s after {before['spec']['holderIdentity']} renewed it")
    return f"taken over {waited:.1f} s after its last renewal, {time.monotonic() - started:.1f} s after we looked"


def leader_killed(ground, seconds):
    ground.pass_time(seconds)
    name, _ = ground.await_leader()
    ground.replicas.kill(name)
    note = took_over(ground, ground.record())
    ground.controllers[name].start()
    ground.pass_time(seconds)
    return note


def two_leaders(ground, seconds):
    """Both replicas write at once: one is elected, the other runs without election."""
    elected, _ = ground.await_leader()
    other = ground.controllers[next(name for name in REPLICAS if name != elected)]
    ground.replicas.stop(other.name)
    other.arguments = ["--leader-elect=false"]
    other.start()
    ground.pass_time(2 * seconds)
    ground.replicas.stop(other.name)
    other.arguments = ["--leader-elect"]
    other.start()


def killed_and_back(ground, seconds, server):
    ground.pass_time(seconds)
    ground.cluster.processes.kill(server)
    ground.pass_time(1)
    ground.cluster.processes.restart(server)
    ground.cluster.wait_ready()
    ground.pass_time(seconds)


def api_server_killed(ground, seconds):
    killed_and_back(ground, seconds, "kube-apiserver")


def etcd_killed(ground, seconds):
    killed_and_back(ground, seconds, "etcd")


def lagging_server(ground, seconds):
    """A leader beside a replica with a stale view: the etcd of its API server answers late, then not at all for a while."""
    with second_server(ground) as port:
        elected, _ = ground.await_leader()
        other = ground.controllers[next(name for name in REPLICAS if name != elected)]
        ground.replicas.stop(other.name)
        other.trust(ground.next_authority)
        other.gate.lead_to(port)
        other.arguments = ["--leader-elect=false"]
        other.start()
        ground.pass_time(seconds)
        ground.etcd_gate.delay(1.5)
        ground.pass_time(seconds)
        ground.etcd_gate.hold()
        ground.pass_time(seconds)
        # Starts with the stale state of that server.
        ground.replicas.kill(other.name)
        other.start()
        ground.pass_time(2)
        ground.etcd_gate.heal()
        ground.pass_time(seconds)
        ground.replicas.stop(other.name)
        other.gate.lead_to(ground.port)
        other.trust(ground.cluster.pki / "ca.crt")
        other.arguments = ["--leader-elect"]
        other.start()


@contextlib.contextmanager
def second_server(ground):
    try:
        yield ground.start_second()
    finally:
        ground.stop_second()


def answers_swallowed(ground, seconds):
    """The leader's requests arrive, their answers don't: it must stop in time, and its writes are applied."""
    ground.pass_time(seconds)
    name, before = ground.await_leader()
    gate = ground.controllers[name].gate
    gate.swallow()
    note = took_over_though_heard(ground, before)
    gate.heal()
    ground.pass_time(seconds)
    return note


def took_over_though_heard(ground, before):
    """Its renewals may still arrive for a while without an answer; by its clock it stops nevertheless."""
    started = time.monotonic()
    ground.await_leader(but=before["spec"]["holderIdentity"])
    return f"taken over after {time.monotonic() - started:.1f} s"


def connections_cut(ground, seconds):
    for _ in range(4):
        for each in ground.controllers.values():
            each.gate.cut()
        ground.pass_time(seconds / 2)


def answers_withheld(ground, seconds):
    """Answers are delayed by less than any timeout."""
    for each in ground.controllers.values():
        each.gate.hold()
    ground.pass_time(seconds)
    for each in ground.controllers.values():
        each.gate.heal()


def clock_jumps(ground, seconds):
    """The leader's wall clock jumps a day ahead, the standby's half a day, and back. Election uses the monotonic clock, so the lease does not change its
    holder."""
    name, lease = ground.await_leader()
    holder = lease["spec"]["holderIdentity"]
    for index, each in enumerate(ground.controllers.values()):
        each.shift_clock(86400 // (index + 1))
    ground.pass_time(2 * seconds)
    for each in ground.controllers.values():
        each.shift_clock(0)
    ground.pass_time(seconds)
    after, lease = ground.await_leader()
    return f"led by {name} before, by {after} after" + ("" if lease["spec"]["holderIdentity"] == holder else " (another process)")


def expired_token(ground, seconds):
    """The leader's token expires suddenly and is then renewed in its file, as a kubelet does."""
    name, _ = ground.await_leader()
    replica = ground.controllers[name]
    secrets = f"/api/v1/namespaces/{installation.NAMESPACE}/secrets"
    secret = ground.client.create(secrets, {"metadata": {"generateName": "bound-to-"}})["metadata"]
    bound = {"kind": "Secret", "apiVersion": "v1", "name": secret["name"], "uid": secret["uid"]}
    token = ground.client.token_for(installation.NAMESPACE, installation.ACCOUNT, boundObjectRef=bound)
    replica.use_token(token)
    replica.gate.cut()
    ground.pass_time(1)
    ground.replicas.kill(name)  # a replica started now has only that token
    replica.start()
    ground.pass_time(seconds)
    ground.client.delete(f"{secrets}/{secret['name']}")
    theirs = ground.client.as_token(ground.cluster.pki, token)

    def refused():
        ground.tend()
        try:
            theirs.get(GPUS)
        except Refused as answer:
            return answer.status == 401
        return False

    until("the token is refused", refused)
    ground.pass_time(seconds)
    replica.new_token()
    ground.pass_time(seconds)


def rotated_authority(ground, seconds):
    """The server presents a certificate of an unknown authority, and later the old one again."""
    with second_server(ground) as port:
        for each in ground.controllers.values():
            each.gate.lead_to(port)
        ground.pass_time(seconds)
        for each in ground.controllers.values():
            each.trust(ground.next_authority)
        ground.await_leader()
        ground.pass_time(seconds)
        for each in ground.controllers.values():
            each.gate.lead_to(ground.port)
            each.trust(ground.cluster.pki / "ca.crt")
        ground.pass_time(seconds)


def quota(ground, seconds):
    """A quota forbids further ResourceClaims in the namespace: the claim reports that, and its pod runs once the quota permits it."""
    ground.client.create(QUOTAS, {"metadata": {"name": "none"}, "spec": {"hard": {"count/resourceclaims.resource.k8s.io": "0"}}})
    until("the quota is counted", lambda: ground.client.get(f"{QUOTAS}/none").get("status", {}).get("hard"))
    name = f"quota-{time.monotonic_ns()}"
    ground.client.create(claims(), claim(name, CLASS_NOW, 5, "1Gi"))
    ground.client.create(pods(), pod(name, {"x": name}))
    ground.workload.alive.append(("default", [name], name))
    until("the claim reports the refused request", lambda: any(
        each["reason"] == "Refused" and "exceeded quota" in each["message"]
        for each in ground.client.get(f"{claims()}/{name}").get("status", {}).get("conditions", [])))
    ground.pass_time(seconds)
    ground.client.delete(f"{QUOTAS}/none")


def refused_by_policy(ground, seconds):
    """A policy of the cluster refuses half of the controller's writes to cards and devices."""
    ground.client.create(f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": "refuse"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": ["elasticgpu.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                                                "resources": ["elasticgpus", "elasticgpus/status"]}]},
        "matchConditions": [{"name": "by", "expression": f"request.userInfo.username == '{USER}'"}],
        "validations": [{"expression": "object.metadata.name.matches('[02468ace]$')", "message": "refused by the test"}]}})
    ground.client.create(f"{POLICIES}/validatingadmissionpolicybindings", {"metadata": {"name": "refuse"}, "spec": {
        "policyName": "refuse", "validationActions": ["Deny"]}})
    ground.pass_time(2 * seconds)
    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        ground.client.delete(f"{POLICIES}/{kind}/refuse")


def namespace_deleted(ground, seconds):
    name = f"team-{time.monotonic_ns()}"
    ground.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"/api/v1/namespaces/{name}"
    until("pods can be made there", lambda: ground.client.exists(f"{path}/serviceaccounts/default"))
    ground.workload.namespaces.append(name)
    ground.pass_time(2 * seconds)
    ground.client.delete(path)
    ground.pass_time(1)
    ground.workload.rest()
    ground.workload.forget(name)
    ground.workload.go()

    def gone():
        ground.tend()
        return not ground.client.exists(path)

    until("the namespace is gone", gone)


def node_vanishes(ground, seconds):
    """A node disappears with its pods; its cards remain as objects. Then it returns."""
    node = busiest_node(ground)
    ground.remove_node(node)
    ground.pass_time(seconds)
    ground.drop_pods_of(node)
    ground.pass_time(seconds)
    ground.republish(node)
    ground.drop_pods_of(node)


def card_deleted(ground, seconds):
    """A card is deleted by a user, which its finalizer delays; then it is removed despite the finalizer, with all its entries. Later its agent publishes it
    again."""
    card = busiest_card(ground)
    name, node = card["metadata"]["name"], card["spec"]["card"]["nodeName"]
    ground.client.delete(f"{GPUS}/{name}")
    ground.pass_time(seconds / 2)
    with contextlib.suppress(Refused):
        ground.client.patch(f"{GPUS}/{name}", {"metadata": {"finalizers": None}})
    ground.pass_time(seconds)
    ground.republish(node)
    ground.pass_time(seconds)


def card_shrinks(ground, seconds):
    """The agent finds a quarter of the card: existing allocations remain, and none is added."""
    card = busiest_card(ground)
    path, has = f"{GPUS}/{card['metadata']['name']}", card["spec"]["card"]
    ground.client.patch(path, {"spec": {"card": {"core": has["core"] // 4, "memory": has["memory"] // 4}}})
    ground.pass_time(2 * seconds)
    ground.client.patch(path, {"spec": {"card": {"core": has["core"], "memory": has["memory"]}}})


def busiest_card(ground):
    def probe():
        return sorted(ground.cards_in_use(), key=lambda each: (len(each["spec"]["allocations"]), each["metadata"]["name"]))

    return until("a card is in use", probe)[-1]


def busiest_node(ground):
    return busiest_card(ground)["spec"]["card"]["nodeName"]


ALL = (two_leaders, connections_cut, api_server_killed, answers_withheld, leader_killed, card_shrinks, card_deleted, etcd_killed,
       node_vanishes, quota, refused_by_policy, namespace_deleted, clock_jumps, lagging_server, expired_token, rotated_authority,
       answers_swallowed)


def inflict(ground, fault, seconds):
    """Injects the fault into a cluster under load. Returns (its text, the violations)."""
    ground.workload.go()
    try:
        note = fault(ground, seconds) or ""
    except (AssertionError, Failure, Refused, *UNREACHABLE) as error:
        return "", [f"{fault.__name__}: {error!r}"] + ground.settle()
    return note, ground.settle()
