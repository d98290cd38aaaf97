#!/usr/bin/env python3
"""Proves that a tenant with only the stock role `edit` cannot free cards under running pods. The tenant removes the objects between the pods and their cards
in every order: finalizers, owner references and the objects themselves. The controller keeps the cards even without the policy that refuses such
requests. When the pods have ended, all cards are free again.

tenant_test.py BIN_DIR
"""

import concurrent.futures
import itertools
import sys
import tempfile
import time

import installation
import nodes
import verify
from apiserver import Cluster, guarded
from client import CLASSES, GPUS, MERGE, Refused, Report, resource_claims, claims, pods, until
from parts import WHOLE
from pods_test import SHARE, expect_clean, gpu_class, pod, running

NODE_NAMES = [f"n-{index}" for index in range(4)]
CARDS_EACH = 8
CARDS = len(NODE_NAMES) * CARDS_EACH
AT_ONCE = 24  # orders that are tested in parallel; rivals can use the other cards
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
STRIP = {"metadata": {"finalizers": None}}
DISOWN = {"metadata": {"ownerReferences": None}}
ACTS = {
    "strip resource claim": lambda user, name: user.call("PATCH", f"{resource_claims()}/{name}", STRIP, MERGE),
    "disown resource claim": lambda user, name: user.call("PATCH", f"{resource_claims()}/{name}", DISOWN, MERGE),
    "delete resource claim": lambda user, name: user.delete(f"{resource_claims()}/{name}"),
    "strip claim": lambda user, name: user.call("PATCH", f"{claims()}/{name}", STRIP, MERGE),
    "delete claim": lambda user, name: user.delete(f"{claims()}/{name}"),
}


def whole_card(name):
    return {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name},
            "spec": {"egpuClassName": "now", "resources": {"requests": {f"{SHARE}/gpu": 1}}}}


def editor_of(cluster, client):
    """Returns a client with the role `edit` in the namespace default."""
    client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "tenant"}})
    client.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", {
        "metadata": {"name": "tenant"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}]})
    return client.as_token(cluster.pki, client.token_for("default", "tenant"))


def without_policy(client, user):
    """Removes the validating policies, so that only the controller protects the cards."""
    for each in client.items(POLICIES):
        client.delete(f"{POLICIES}/{each['metadata']['name']}")
    client.create(resource_claims(), {"metadata": {"name": "probe", "finalizers": ["elasticgpu.io/resource-claim"]}, "spec": {"devices": {"requests": [
        {"name": "gpu", "exactly": {"deviceClassName": "elasticgpu.io"}}]}}})

    def may_strip():
        try:
            return user.call("PATCH", f"{resource_claims()}/probe", STRIP, MERGE)
        except Refused as refused:
            # (another controller may have deleted it already: it may delete a ResourceClaim with its finalizer)
            return refused.status == 404

    until("a tenant may strip", may_strip)
    if client.exists(f"{resource_claims()}/probe"):
        client.delete(f"{resource_claims()}/probe")


def attack(user, report, name, order, pause):
    for act in order:
        try:
            ACTS[act](user, name)
        except Refused as refused:  # already gone, or changed concurrently
            report.check(f"{name}: {act} is a tenant's right", refused.status in (404, 409, 422), refused)
        time.sleep(pause)


def device_of(client, name):
    status = client.get(f"{claims()}/{name}").get("status", {})
    return status.get("phase") == "Bound" and status["elasticGPUName"]


def loss_of(client, device):
    """Returns an error unless the device has an entry on each of its cards; empty if it has."""
    if not client.exists(f"{GPUS}/{device}"):
        return "the device is gone"
    gpu = client.get(f"{GPUS}/{device}")
    uid = gpu["metadata"]["uid"]
    missing = [each["name"] for each in gpu["spec"]["cards"]
               if uid not in client.get(f"{GPUS}/{each['name']}")["spec"].get("allocations", {})]
    return f"no entry on {missing}" if missing else ""


def one_batch(client, user, report, orders, pause):
    names = [f"mine-{number}" for number, _ in orders]
    for name in names:
        client.create(claims(), whole_card(name))
        client.create(pods(), pod(name, {"main": name}))
    until("the tenant's pods run", lambda: set(names) <= running(client))
    devices = {name: device_of(client, name) for name in names}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: attack(user, report, f"mine-{each[0]}", each[1], pause), orders))
    rivals = [f"rival-{number}" for number in range(CARDS)]
    for name in rivals:
        client.create(claims(), whole_card(name))

    def bound():
        return [name for name in rivals if device_of(client, name)]

    free = CARDS - len(names)
    until("the rivals have what is free", lambda: len(bound()) >= free)
    # A wrongly freed card is allocated immediately: every waiting rival is decided again whenever a card becomes free.
    until("the others report that nothing fits", lambda: all(
        any(c["reason"] == "NoFit" for c in each["status"].get("conditions", [])) for each in client.items(claims())
        if each["metadata"]["name"].startswith("rival-") and each.get("status", {}).get("phase") == "Pending"))
    for number, order in orders:
        wrong = loss_of(client, devices[f"mine-{number}"])
        report.check(f"{', '.join(order)}: the pod's card is its own", not wrong, wrong)
    report.check("no rival got a card in use", len(bound()) == free, bound())
    for name in names:
        client.delete(f"{pods()}/{name}")
    until("with the pods gone every rival has a card", lambda: len(bound()) == CARDS)
    left = [name for name in names if client.exists(f"{GPUS}/{devices[name]}")]
    report.check("nothing of the tenant's is left", not left, left)
    until("nor of its ResourceClaims", lambda: not client.items(resource_claims()))
    expect_clean(client, report, "after the orders")
    client.delete_all(claims())
    until("all is given back", lambda: not verify.World(client).devices and not client.items(claims()))


def held_is_reported(client, user, report):
    """One case in detail: the conditions of a held device, and the device of a recreated claim of the same name."""
    client.create(claims(), whole_card("told"))
    client.create(pods(), pod("told", {"main": "told"}))
    until("the pod runs", lambda: "told" in running(client))
    device = device_of(client, "told")
    attack(user, report, "told", ("strip resource claim", "delete claim", "strip claim"), 0.5)

    def held():
        conditions = client.get(f"{GPUS}/{device}").get("status", {}).get("conditions", [])
        return [each for each in conditions if each["type"] == "Held" and each["reason"] == "ClaimGone"]

    reported = until("the device reports that it is held", held)
    report.check("with the pod that holds it", "pod told to end" in reported[0]["message"], reported)
    events = until("an event reports it", lambda: [each for each in client.items("/api/v1/namespaces/default/events")
                                                 if each["involvedObject"]["name"] == device and each["reason"] == "InUse"])
    report.check("with the same message", "pod told to end" in events[0]["message"], events)
    client.create(claims(), whole_card("told"))
    other = until("a claim of the same name is bound", lambda: device_of(client, "told"))
    report.check("to another device", other != device and not loss_of(client, device), (other, device))
    client.delete(f"{pods()}/told")
    until("the first device is deleted with its pod", lambda: not client.exists(f"{GPUS}/{device}"))
    client.delete(f"{claims()}/told")
    until("all is given back", lambda: not verify.World(client).devices)


def cascade_orphan(client, user, report):
    """`kubectl delete --cascade=orphan`: the garbage collector removes the owner of the ResourceClaim, which is deleted nevertheless."""
    client.create(claims(), whole_card("orphan"))
    client.create(pods(), pod("orphan", {"main": "orphan"}))
    until("the pod runs", lambda: "orphan" in running(client))
    device = device_of(client, "orphan")
    user.call("DELETE", f"{claims()}/orphan", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"})
    until("the garbage collector has been there", lambda: "orphan" not in client.get(f"{claims()}/orphan")["metadata"].get("finalizers", []))
    report.check("while the pod runs the card is its own", not loss_of(client, device), loss_of(client, device))
    client.delete(f"{pods()}/orphan")
    until("the claim goes", lambda: not client.exists(f"{claims()}/orphan"))
    until("its ResourceClaim too", lambda: not client.exists(f"{resource_claims()}/orphan"))
    client.create(claims(), whole_card("orphan"))
    client.create(pods(), pod("orphan", {"main": "orphan"}))
    until("the next of that name runs", lambda: "orphan" in running(client))
    client.delete(f"{pods()}/orphan")
    client.delete(f"{claims()}/orphan")
    until("all is given back", lambda: not verify.World(client).devices and not client.items(resource_claims()))


def main():
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-tenant-") as folder, Cluster(folder, wanted=WHOLE) as cluster:
        installation.apply_manifests(cluster)
        client = installation.client_of(cluster)
        nodes.publish(client, NODE_NAMES, CARDS_EACH)
        until("the nodes are ready", lambda: nodes.all_ready(client, NODE_NAMES))
        user = editor_of(cluster, client)
        without_policy(client, user)
        installation.start_controller(cluster, sys.argv[1])
        client.create(CLASSES, gpu_class("now", "Immediate"))
        orders = list(enumerate(itertools.permutations(ACTS)))
        try:
            held_is_reported(client, user, report)
            cascade_orphan(client, user, report)
            for start in range(0, len(orders), AT_ONCE):
                # The controller observes each act before the next one, or only few of them.
                one_batch(client, user, report, orders[start:start + AT_ONCE], 0.3 if start // AT_ONCE % 2 == 0 else 0)
        except BaseException:
            print(f"controller:\n{cluster.processes.tail('controller', 40)}", file=sys.stderr)
            raise
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
