#!/usr/bin/env python3
"""Proves that a second kube-scheduler works with the project's extender: filter, prioritize, bind and preempt over mutual TLS, with the sample configuration
and the rights of manifests/extender. The stock scheduler runs beside it unaffected.

extender_test.py BIN_DIR
"""

import json
import re
import ssl
import sys
import tempfile
import urllib.error
import urllib.request

import installation
import nodes
import verify
from apiserver import Cluster, guarded
from resource_claim_test import CPU, asking, events, unschedulable
from client import CLASSES, Report, resource_claims, claims, pods, until
from parts import WHOLE, free_ports
from pki import admin_context, issue, make_authority, write_kubeconfig
from pods_test import claim, expect_clean, gpu_class, pod, running

NODE_NAMES = ["n-0", "n-1", "n-2"]
CARDS = 2
OWN = "gpu-scheduler"
EXTENDER = installation.MANIFESTS / "extender"


def own(made):
    made["spec"]["schedulerName"] = OWN
    return made


def start(cluster, bin_dir):
    """Starts the controller with its extender, and a scheduler with the sample configuration. Returns the extender's address."""
    port = free_ports(1)[0]
    make_authority(cluster.folder / "strangers")
    issue(cluster.pki, "extender", "/CN=extender", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth")
    issue(cluster.pki, "extender-client", "/CN=gpu-scheduler")
    url = f"https://127.0.0.1:{port}/extender"
    installation.start_controller(cluster, bin_dir, arguments=[
        f"--extender-address=127.0.0.1:{port}", f"--extender-cert={cluster.pki}/extender.crt", f"--extender-key={cluster.pki}/extender.key",
        f"--extender-client-ca={cluster.pki}/ca.crt", "--extender-client-name=gpu-scheduler",
        f"--extender-scheduler={OWN}"])
    issue(cluster.pki, OWN, "/CN=system:kube-scheduler")
    kubeconfig = cluster.folder / f"{OWN}.kubeconfig"
    write_kubeconfig(kubeconfig, cluster.url, cluster.pki, OWN)
    config = (EXTENDER / "scheduler.yaml").read_text()
    for what, instead in ((r"urlPrefix: .*", f"urlPrefix: {url}"), (r"kubeconfig: .*", f"kubeconfig: {kubeconfig}"),
                          (r"certFile: .*", f"certFile: {cluster.pki}/extender-client.crt"),
                          (r"keyFile: .*", f"keyFile: {cluster.pki}/extender-client.key"), (r"caFile: .*", f"caFile: {cluster.pki}/ca.crt"),
                          (r"serverName: .*", "serverName: 127.0.0.1"),
                          (r"leaderElection:\n  resourceName: .*", "leaderElection:\n  leaderElect: false")):
        config, count = re.subn(what, instead, config)
        assert count == 1, what
    path = cluster.folder / f"{OWN}.yaml"
    path.write_text(config)
    cluster.processes.start(OWN, [cluster.binaries / "kube-scheduler", f"--config={path}", "--secure-port=0"])
    return url


def ask(url, body, context):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, context=context, timeout=30) as answer:
        return json.load(answer)


def strangers(cluster, report, url):
    """Clients without a certificate of the CA get no answer."""
    body = {"Pod": {"metadata": {"name": "p", "namespace": "default"}}, "NodeNames": ["n-0"]}
    report.check("a scheduler's certificate is let in", ask(f"{url}/filter", body, admin_context(cluster.pki, "extender-client"))["NodeNames"] == ["n-0"])
    issue(cluster.folder / "strangers", "other", "/CN=system:kube-scheduler")
    none, other = (ssl.create_default_context(cafile=str(cluster.pki / "ca.crt")) for _ in range(2))
    other.load_cert_chain(cluster.folder / "strangers" / "other.crt", cluster.folder / "strangers" / "other.key")
    for what, context in (("no certificate", none), ("another CA's", other), ("of the CA, with another name", admin_context(cluster.pki, OWN))):
        try:
            ask(f"{url}/filter", body, context)
            report.check(f"{what}: refused", False)
        except (urllib.error.URLError, ssl.SSLError, ConnectionError):
            report.check(f"{what}: refused", True)


def placed(client, report):
    """Shares, several claims of a pod, bound claims and pending claims, pods without claims."""
    client.create(CLASSES, gpu_class("now", "Immediate"))
    client.create(CLASSES, gpu_class("late", "WaitForFirstConsumer"))
    # This pod first: once shares fill the node of the bound claim, it no longer fits.
    client.create(claims(), claim("fixed", "now", 30, "4Gi"))
    client.create(claims(), claim("open", "late", 30, "4Gi"))
    client.create(pods(), own(pod("mixed", {"a": "fixed", "b": "open"})))
    until("the pod with two claims runs", lambda: "mixed" in running(client))
    names = []
    for index in range(12):
        client.create(claims(), claim(f"share-{index}", "late", 20, "4Gi"))
        names.append(f"one-{index}")
        client.create(pods(), own(pod(f"one-{index}", {"main": f"share-{index}"})))
    client.create(pods(), own(pod("plain", {})))
    client.create(claims(), claim("stock", "late", 20, "4Gi"))
    client.create(pods(), pod("by-stock", {"main": "stock"}))
    until("all run", lambda: set(names) | {"mixed", "plain", "by-stock"} <= running(client))
    world = verify.World(client)
    where = {name: made["spec"]["nodeName"] for name, made in world.pods.items()}
    report.check("each share is on its pod's node",
                 all(world.claims[f"share-{i}"]["status"]["nodeName"] == where[f"one-{i}"] for i in range(12)))
    report.check("so are the bound and the open claim",
                 {world.claims[each]["status"]["nodeName"] for each in ("fixed", "open")} == {where["mixed"]})
    report.check("pods of that scheduler are not pinned", not world.pods["one-0"]["spec"].get("affinity"))
    reserved = client.get(f"{resource_claims()}/share-0").get("status", {}).get("reservedFor", [])
    report.check("the controller manager reserves what is bound past the scheduler", [each["name"] for each in reserved] == ["one-0"], reserved)
    expect_clean(client, report, "once placed")


def full(client, report):
    """Pods beyond the capacity wait with the extender's message, and are scheduled when capacity becomes free."""
    cards = len(NODE_NAMES) * CARDS
    for index in range(cards):
        client.create(claims(), claim(f"whole-{index}", "late", 100, "80Gi"))
        client.create(pods(), own(pod(f"whole-{index}", {"main": f"whole-{index}"})))
    until("some wait", lambda: any(unschedulable(client, f"whole-{index}") for index in range(cards)))
    messages = [c["message"] for i in range(cards) for c in client.get(f"{pods()}/whole-{i}")["status"].get("conditions", [])
            if c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable"]
    report.check("why is said on the pod", any("not enough free capacity for the pod's ElasticGPU claims" in each for each in messages), messages)

    def held_by_waiting():
        waiting = [i for i in range(cards) if not client.get(f"{pods()}/whole-{i}")["spec"].get("nodeName")]
        return waiting and not any(client.get(f"{claims()}/whole-{i}").get("status", {}).get("elasticGPUName") for i in waiting)

    until("who waits holds nothing, once no binding is under way", held_by_waiting)
    for index in range(12):
        client.delete(f"{pods()}/one-{index}")
        client.delete(f"{claims()}/share-{index}")
    for name, used in (("mixed", ("fixed", "open")), ("by-stock", ("stock",))):
        client.delete(f"{pods()}/{name}")
        for each in used:
            client.delete(f"{claims()}/{each}")
    # The release of a claim is no event for the scheduler; the deletion of a pod afterwards is.
    def nudge():
        client.create(pods(), own(pod("nudge", {})))
        until("it runs", lambda: "nudge" in running(client))
        client.delete(f"{pods()}/nudge")
        until("it is gone", lambda: not client.exists(f"{pods()}/nudge"))
        return {f"whole-{i}" for i in range(cards)} <= running(client)

    until("all of them run", nudge)
    expect_clean(client, report, "once full")
    for index in range(cards):
        client.delete(f"{pods()}/whole-{index}")
        client.delete(f"{claims()}/whole-{index}")


def preempts(client, report):
    """Pods are preempted on a node where the claims fit, and on no other."""
    priorities = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in (("low", 0), ("high", 1000)):
        client.create(priorities, {"metadata": {"name": name}, "value": value})
    client.create(claims(), claim("there", "now", 100, "80Gi"))
    until("it is bound", lambda: client.get(f"{claims()}/there").get("status", {}).get("phase") == "Bound")
    home = client.get(f"{claims()}/there")["status"]["nodeName"]
    for name in NODE_NAMES:
        made = own(asking(pod(f"low-{name}", {}), CPU - 2, "low"))
        made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": name}
        client.create(pods(), made)
    until("the nodes are full", lambda: {f"low-{name}" for name in NODE_NAMES} <= running(client))
    before = events(client, "Preempted")
    client.create(pods(), own(asking(pod("urgent", {"main": "there"}), CPU - 2, "high")))
    until("the urgent one runs", lambda: "urgent" in running(client))
    report.check("where its claim is", client.get(f"{pods()}/urgent")["spec"]["nodeName"] == home)
    report.check("one pod went for it", events(client, "Preempted") - before == 1)
    report.check("and the others stay", {f"low-{name}" for name in NODE_NAMES if name != home} <= running(client))


def apply_extender(cluster):
    """Applies the extender as its README describes, which needs kubectl 1.21; with an older one, such as Debian 12's, part by part."""
    version = json.loads(installation.kubectl(cluster, "version", "--client", "-o", "json"))["clientVersion"]
    if (int(version["major"]), int(version["minor"].rstrip("+"))) >= (1, 21):
        installation.apply_manifests(cluster, ("-k", EXTENDER))
        return
    installation.apply_manifests(cluster, ("-f", installation.MANIFESTS))
    for part in ("rbac", "service", "networkpolicy"):
        installation.kubectl(cluster, "apply", "-f", EXTENDER / f"{part}.yaml")
    patch = (EXTENDER / "controller.yaml").read_text(encoding="utf-8").replace("replicas: 1", "replicas: 0")
    installation.kubectl(cluster, "-n", installation.NAMESPACE, "patch", "deployment", installation.CONTROLLER, "--patch", patch)


def main():
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-extender-") as folder, Cluster(folder, wanted=WHOLE) as cluster:
        apply_extender(cluster)
        client = installation.client_of(cluster)
        nodes.publish(client, NODE_NAMES, CARDS)
        until("the nodes are ready", lambda: nodes.all_ready(client, NODE_NAMES))
        url = start(cluster, sys.argv[1])
        try:
            strangers(cluster, report, url)
            for part in (placed, full, preempts):
                part(client, report)
        except BaseException:
            for name in (OWN, "controller"):
                print(f"{name}:\n{cluster.processes.tail(name, 30)}", file=sys.stderr)
            raise
        client.delete_all(pods())
        client.delete_all(claims())
        until("all is given back", lambda: not verify.World(client).devices and not client.items(resource_claims()))
        expect_clean(client, report, "at the end")
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
