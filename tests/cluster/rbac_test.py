#!/usr/bin/env python3
"""Proves that the controller works with exactly the rules of manifests/rbac: none of its requests is refused, and it has no right that it does not use. Its
requests are read from the API server's audit log. Rights that the server checks inside another request, and thus does not log, are removed to prove that
they are needed.

rbac_test.py BIN_DIR
"""

import copy
import itertools
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import installation
import nodes
from apiserver import Cluster, guarded
from client import CLASSES, GPUS, NODES, PATIENCE, Refused, Report, resource_claims, claims, pods, quotas, until
from parts import WHOLE
from pki import write_kubeconfig
from pods_test import claim, gpu_class, pod, running

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "page"))
import real_page  # noqa: E402

FOR_ALL = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/elastic-gpu-classes"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/elastic-gpu-controller"
TAINT_RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"
LOCAL_ROLE = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{installation.NAMESPACE}/roles/elastic-gpu-controller"
USER = f"system:serviceaccount:{installation.NAMESPACE}:{installation.ACCOUNT}"
# Rights that the API server checks inside another request.
UNLOGGED = {("resource.k8s.io", "resourceclaims/binding", "patch"), ("elasticgpu.io", "elasticgpuclaims/finalizers", "update")}


def granted(client):
    """Returns each (group, resource, verb) of the controller's rules, and how often it is granted."""
    rights = {}
    for path in (ROLE, LOCAL_ROLE):
        for rule in client.get(path)["rules"]:
            for right in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                rights[right] = rights.get(right, 0) + 1
    return rights


class AuditLog:
    """The controller's requests, as the API server recorded them."""

    def __init__(self, path):
        self.path = path
        self.read = 0
        self.used = {}  # right → the reason why it was allowed
        self.refused = []  # (right, code, message), by authorization or by a further check inside a request

    def update(self):
        with open(self.path, "rb") as log:
            log.seek(self.read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self.read += len(line)
                self._take(json.loads(line))
        return self

    def _take(self, event):
        if event["user"]["username"] != USER or "objectRef" not in event:
            return
        on = event["objectRef"]
        resource = on["resource"] + (f"/{on['subresource']}" if "subresource" in on else "")
        right = (on.get("apiGroup", ""), resource, event["verb"])
        notes, status = event.get("annotations", {}), event.get("responseStatus", {})
        if notes.get("authorization.k8s.io/decision") == "allow":
            self.used.setdefault(right, notes["authorization.k8s.io/reason"])
        if status.get("code") == 403 or "permission" in status.get("message", ""):
            self.refused.append((right, status.get("code"), status.get("message", notes.get("authorization.k8s.io/reason", ""))))


def written_rules(client, report):
    """The rules in the files are well formed, before anything runs."""
    names = ("elastic-gpu-controller", "elastic-gpu-agent", "elastic-gpu-edit", "elastic-gpu-view", "elastic-gpu-cluster-reader", "elastic-gpu-classes")
    rules = [rule for name in names for rule in client.get(ROLE.rsplit("/", 1)[0] + "/" + name)["rules"]]
    rules += client.get(LOCAL_ROLE)["rules"]
    words = [word for rule in rules for key in ("apiGroups", "resources", "verbs") for word in rule.get(key, [])]
    report.check("no wildcards", words and "*" not in "".join(words))
    report.check("no secrets", not [word for word in words if "secret" in word or word in ("impersonate", "escalate", "bind")])
    twice = [right for right, times in granted(client).items() if times > 1]
    report.check("nothing is granted twice, so that each grant is needed or not", not twice, twice)


def refuse_a_patch(client):
    """A policy of the cluster that refuses the controller's write to one pod."""
    group = "/apis/admissionregistration.k8s.io/v1"
    client.create(f"{group}/validatingadmissionpolicies", {"metadata": {"name": "refuse"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}]},
        "matchConditions": [{"name": "one", "expression": "object.metadata.name == 'refused'"},
                            {"name": "by", "expression": f"request.userInfo.username == '{USER}' || 'probe' in object.metadata.?labels.orValue({{}})"}],
        "validations": [{"expression": "false", "message": "refused by the test"}]}})
    client.create(f"{group}/validatingadmissionpolicybindings", {"metadata": {"name": "refuse"}, "spec": {
        "policyName": "refuse", "validationActions": ["Deny"]}})

    def refuses():
        try:
            client.patch(f"{pods()}/refused?dryRun=All", {"metadata": {"labels": {"probe": ""}}})
        except Refused as refused:
            return "refused by the test" in str(refused.body.get("message", ""))

    until("the API server follows the policy", refuses)


def allow_again(client):
    client.delete("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/refuse")


def election(cluster, client, report):
    """The controller may use the lease of that name in that namespace, and no other: as kube/leader_election.h writes it."""
    controller = client.as_token(cluster.pki, client.token_for(installation.NAMESPACE, installation.ACCOUNT))
    leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
    own = leases.format(installation.NAMESPACE)
    if not client.exists(f"{own}/{installation.CONTROLLER}"):  # no leader was elected
        controller.create(f"{own}?dryRun=All", {"metadata": {"name": installation.CONTROLLER}})
        client.create(own, {"metadata": {"name": installation.CONTROLLER}})
    report.check("it may make its lease", client.exists(f"{own}/{installation.CONTROLLER}"))
    report.check("read it", controller.get(f"{own}/{installation.CONTROLLER}")["metadata"]["name"] == installation.CONTROLLER)
    controller.patch(f"{own}/{installation.CONTROLLER}?dryRun=All", {"spec": {"holderIdentity": "me"}})
    client.create(own, {"metadata": {"name": "another"}})
    report.refused("not read another", lambda: controller.get(f"{own}/another"), 403)
    report.refused("nor take it", lambda: controller.patch(f"{own}/another", {"spec": {"holderIdentity": "me"}}), 403)
    report.refused("nor make one elsewhere", lambda: controller.create(leases.format("kube-system"), {"metadata": {"name": "x"}}), 403)


def whole_life(client, log, report):
    """Claims are bound, allocated and released in both modes; nodes are deleted; classes change while they are written."""
    client.create(CLASSES, gpu_class("now", "Immediate"))
    client.create(CLASSES, gpu_class("late", "WaitForFirstConsumer"))
    client.create(pods(), pod("refused", {"x": "refused"}))  # it waits for its claim
    refuse_a_patch(client)
    for cls in ("now", "late"):
        client.create(claims(), claim(cls, cls, 10, "1Gi"))
        client.create(pods(), pod(f"uses-{cls}", {"x": cls}))
    client.create(claims(), claim("refused", "now", 10, "1Gi"))
    until("pods run", lambda: {"uses-now", "uses-late"} <= running(client))

    # Objects that could not be written are read again.
    until("a pod is read again", lambda: ("", "pods", "get") in log.update().used)
    allow_again(client)
    numbers = itertools.count()

    def change_at_once():
        name = f"changing-{next(numbers)}"
        quota = {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUQuota", "metadata": {"name": name},
                 "spec": {"hard": {"claims": 1000}}}
        for path, body in ((CLASSES, gpu_class(name, "Immediate")), (claims(), claim(name, "now", 1, "1Mi")), (quotas(), quota)):
            client.create(path, body)
            for value in "abcdef":
                client.patch(f"{path}/{name}", {"metadata": {"labels": {"changed": value}}})
        return {("elasticgpu.io", each, "get") for each in ("elasticgpuclasses", "elasticgpuclaims", "elasticgpuquotas")} <= set(log.update().used)

    until("a class, a claim and a quota that changed under a write are read again", change_at_once)
    until("the refused pod runs after all", lambda: "refused" in running(client))

    # A repeated event is counted: no claim, a claim that can't be bound, no claim again.
    client.create(pods(), pod("waits", {"x": "missing"}))

    def reported(word):
        events = client.items("/api/v1/namespaces/default/events", "&fieldSelector=involvedObject.name=waits")
        return any(word in each["message"] for each in events)

    until("its pod has an event that there is no such claim", lambda: reported("there is no such ElasticGPUClaim"))
    client.create(claims(), claim("missing", "nowhere", 10, "1Gi"))
    until("and why the claim waits", lambda: reported("ClassNotFound"))
    client.delete(f"{claims()}/missing")
    until("an event is counted", lambda: ("", "events", "patch") in log.update().used)

    # A template that is created after its pod, and a ResourceClaimTemplate that only looks derived from it.
    made_of = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
    client.create(pods(), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "templated"}, "spec": {
        "schedulingGates": [{"name": "elasticgpu.io/claims"}], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "tenth"}],
        "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}]}})
    until("its template is looked for", lambda: ("resource.k8s.io", "resourceclaimtemplates", "get") in log.update().used)
    tenth = client.create("/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaimtemplates", {
        "apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaimTemplate", "metadata": {"name": "tenth"},
        "spec": {"spec": {"egpuClassName": "now", "resources": {"requests": {"elasticgpu.io/gpu-core": 10}}}}})
    until("a pod of a template runs", lambda: "templated" in running(client))
    client.delete(f"{pods()}/templated")
    until("its claim is deleted with it", lambda: ("elasticgpu.io", "elasticgpuclaims", "delete") in log.update().used)
    spec = client.get(f"{made_of}/tenth")["spec"]
    client.create(made_of, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": spec, "metadata": {
        "name": "other", "ownerReferences": [{"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaimTemplate", "name": "tenth",
                                              "uid": tenth["metadata"]["uid"]}]}})
    until("objects without a template are deleted", lambda: not client.exists(f"{made_of}/other"))

    # A claim of higher priority needs the card of a preemptible claim and evicts its pod.
    client.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    client.create(CLASSES, gpu_class("spare", "Immediate", parameters={"preemptible": "true"}))
    card = next(each["metadata"]["name"] for each in client.items(GPUS) if "card" in each["spec"] and
                each["spec"]["card"]["nodeName"] != "leaves" and not each["spec"].get("allocations"))
    client.create(claims(), claim("spare", "spare", 100, "1Gi", card))
    client.create(pods(), pod("uses-spare", {"x": "spare"}))
    until("a pod runs on spare capacity", lambda: "uses-spare" in running(client))
    urgent = claim("urgent", "now", 100, "1Gi", card)
    urgent["spec"]["priorityClassName"] = "urgent"
    client.create(claims(), urgent)
    until("it makes room", lambda: client.get(f"{claims()}/urgent").get("status", {}).get("phase") == "Bound")
    report.check("its pod was evicted", "uses-spare" not in running(client))

    # A node is deleted: its cards become Failed, which the controller first confirms with a read.
    client.delete(f"{NODES}/leaves")
    until("a node is read", lambda: ("", "nodes", "get") in log.update().used)

    for path in (pods(), claims()):
        client.delete_all(path)
    until("claims are gone", lambda: not client.items(claims()))
    until("their ResourceClaims too", lambda: not client.items(resource_claims()))
    until("their devices too", lambda: not [each for each in client.items(GPUS) if "card" not in each["spec"]])


def audited(client, log, report, elects):
    rights = granted(client)
    leases = {right for right in rights if right[1] == "leases"}
    # Kinds that the controller looks up and does not find: before 1.37, or where they are disabled.
    rules = {(group, kind, "watch") for path, group, kind in ((TAINT_RULES, "resource.k8s.io", "devicetaintrules"),
                                                              (POD_GROUPS, "scheduling.k8s.io", "podgroups")) if not client.exists(path)}

    def unused():
        return set(rights) - UNLOGGED - rules - (set() if elects else leases) - set(log.update().used)

    try:
        until("every right is used", lambda: not unused(), patience=PATIENCE / 5)
    except AssertionError:
        pass
    report.check("every right that is granted is used", not unused(), sorted(unused()))
    report.check("nothing was refused", not log.refused, log.refused[:5])
    others = {right: reason for right, reason in log.used.items() if right not in rights}
    report.check("nothing is used that the rules do not grant", not others, others)
    by_others = {right: reason for right, reason in log.used.items()
                 if not reason.startswith("RBAC: allowed by") or '"elastic-gpu-controller' not in reason}
    report.check("each right comes from these rules alone, so without its rule it would be missed", not by_others, by_others)


def missed(client, log, report):
    """Rights that no log shows: each is removed, its absence is reported by name, and it is granted again; then all works."""
    before = client.get(ROLE)
    for number, right in enumerate(sorted(UNLOGGED)):
        rules = [rule for rule in copy.deepcopy(before["rules"]) if not (rule["apiGroups"] == [right[0]] and rule["resources"] == [right[1]])]
        for rule in rules:
            if rule["apiGroups"] == [right[0]]:
                rule["resources"] = [each for each in rule["resources"] if each != right[1]]
        report.check(f"{right} is a grant of its own", rules != before["rules"])
        client.patch(ROLE, {"rules": rules})
        seen = len(log.update().refused)
        name = f"missed-{number}"

        def is_missed(name=name, seen=seen, numbers=itertools.count()):
            # The authorizer applies the change a moment later, so a first claim may still succeed.
            index = next(numbers)
            if index % 50 == 0:
                client.create(claims(), claim(f"{name}-{index}", "now", 1, "1Mi"))
                client.create(pods(), pod(f"{name}-{index}", {"x": f"{name}-{index}"}))
            return [each for each in log.update().refused[seen:] if each[0][1].startswith("resourceclaims")]

        found = until(f"{right} is missed", is_missed)
        word = right[1] if right[1].endswith("binding") else "set finalizers on"
        report.check(f"{right} is what is missed", word in found[0][2] or right[1].split("/")[1] in found[0][2], found[0])
        client.patch(ROLE, {"rules": before["rules"]})
    until("with all rights every pod runs", lambda: {each["metadata"]["name"] for each in client.items(pods())} == running(client))


def users(cluster, client, report):
    """Users with edit rights in a namespace can create claims there, and nothing more."""
    client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "editor"}})
    client.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", {
        "metadata": {"name": "editor"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "editor", "namespace": "default"}]})
    editor = client.as_token(cluster.pki, client.token_for("default", "editor"))

    def may_claim():
        try:
            return editor.create(f"{claims()}?dryRun=All", claim("theirs", "now", 1, "1Gi"))
        except Refused:
            return None

    def may_list(user):
        try:
            return user.items(CLASSES)
        except Refused:
            return None

    report.check("an editor claims", until("the aggregated role is there", may_claim)["metadata"]["name"] == "theirs")
    report.refused("but writes no status", lambda: editor.patch(f"{claims()}/any/status", {"status": {"phase": "Bound"}}), 403)
    report.refused("nor hides a condition", lambda: editor.patch(f"{claims()}/any/status", {"status": {"conditions": []}}), 403)
    report.refused("nor a report of an agent", lambda: editor.patch(f"{GPUS}/any/status", {"status": {"accessLost": None, "bypassed": None}}), 403)
    lost = {"type": "AccessLost", "status": "True", "reason": "MpsServerFault", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    made = editor.create(f"{claims()}?dryRun=All", {**claim("theirs", "now", 1, "1Gi"), "status": {"conditions": [lost]}})
    report.check("a claim is created without the editor's status", "conditions" not in made.get("status", {}))
    report.refused("and no card", lambda: editor.create(f"{GPUS}?dryRun=All", nodes.card("n-0", 99)), 403)
    # A namespace's role can't grant cluster-scoped resources, so a separate role grants them to all users.
    until("the rule for everybody is in force", lambda: may_list(editor))
    for what, user in (("an editor", editor), ("anybody with a token", client.as_token(cluster.pki, client.token_for("default", "default")))):
        listed = {each["metadata"]["name"] for each in user.items(CLASSES)}
        report.check(f"{what} lists the classes", {"now", "late"} <= listed, listed)
        report.check(f"{what} reads one", user.get(f"{CLASSES}/now")["metadata"]["name"] == "now")
        report.refused(f"{what} writes none", lambda user=user: user.create(f"{CLASSES}?dryRun=All", gpu_class("theirs", "Immediate")), 403)
        report.refused(f"{what} cannot read cards", lambda user=user: user.items(GPUS), 403)
    report.refused("who has no name sees nothing", lambda: client.as_token(cluster.pki, "").items(CLASSES), 403)


def uninstall(cluster, client, report):
    """Uninstalls as manifests/guide/upgrade.md describes; an object that a finalizer holds would hang here."""
    client.delete_all(pods())
    for kind in (("elasticgpuclaims", "-A"), ("elasticgpus",)):
        installation.kubectl(cluster, "delete", *kind, "--all", f"--timeout={PATIENCE}s")
    # Like the Deployment's pods at its deletion. If it kept running, it would lose the right to its lease with the namespace, and would exit with the status of
    # a lost lease if the namespace takes longer to delete than the lease lasts.
    report.check("the controller was asked to stop, and did", cluster.processes.stop("controller") == 0)
    installation.kubectl(cluster, "delete", "-k", installation.MANIFESTS, f"--timeout={PATIENCE}s")
    left = [each["metadata"]["name"] for each in client.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")]
    report.check("nothing of it is left", not left and not client.exists(ROLE), left)


def callers(client, address, report, bin_dir):
    """The operations port authenticates callers with the API server: probes and metrics are open, the rest requires the right to get ElasticGPUs."""
    def status(path, token=None):
        request = urllib.request.Request(f"http://{address}{path}", headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code

    reader = client.token_for(installation.NAMESPACE, installation.ACCOUNT)
    nobody = client.token_for("default", "default")
    for path in ("/healthz", "/readyz", "/metrics"):
        report.check(f"{path} requires no authentication", status(path) == 200)
    for path in ("/allocation-map", "/forecast"):
        got = [status(path, token) for token in (None, "forged", nobody, reader)]
        report.check(f"{path} is for who may get ElasticGPUs", got == [401, 401, 403, 200], got)
    report.check("the page itself has no data, so it is for everybody", status("/") == 200)

    def change():
        client.create(claims(), claim("on-the-page", "now", 10, "1Gi"))
        return "default/on-the-page"

    cards = sum(1 for each in client.items(GPUS) if "card" in each["spec"])
    real_page.shown(report, bin_dir, address, (nobody, reader), cards, change)
    client.delete_all(claims())
    until("its claim is gone", lambda: not client.items(claims()))


def bills(cluster, client, address, report, bin_dir):
    """A tenant with the role view in one namespace gets the bill of this namespace only; kubectl egpu sends its token."""
    client.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    client.create("/api/v1/namespaces/team/serviceaccounts", {"metadata": {"name": "ann"}})
    client.create("/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings", {
        "metadata": {"name": "ann"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "ann", "namespace": "team"}]})
    for space in ("team", "default"):
        client.create(claims(space), claim("billed", "now", 25, "1Gi"))
    until("both are bound", lambda: all(client.get(f"{claims(space)}/billed").get("status", {}).get("phase") == "Bound" for space in ("team", "default")))
    tenant = client.token_for("team", "ann")

    def bill(token, *arguments):
        done = subprocess.run([os.path.join(bin_dir, "kubectl-egpu"), "bill", f"--controller=http://{address}", "-o", "json", *arguments],
                              env={**os.environ, "KUBECONFIG": str(token_config(cluster, token))}, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    own = until("the tenant's claim is in its bill", lambda: [each for each in bill(tenant, "-n", "team").get("rows", []) if each.get("claim") == "billed"])
    report.check("a tenant sees its own rows only", {each["namespace"] for each in own} == {"team"} and "cardMilliseconds" not in bill(tenant, "-n", "team"), own)
    for what, arguments, words in (("another namespace", ["-n", "default"], 'in the namespace "default"'), ("the cluster", [], "at the cluster scope")):
        refused = bill(tenant, *arguments)
        report.check(f"a tenant does not get the bill of {what}", words in refused and "cannot" in refused, refused)
    whole = bill(client.token_for(installation.NAMESPACE, installation.ACCOUNT), "--by", "namespace")
    report.check("who may get ElasticGPUs gets the whole bill", {"team", "default"} <= {each.get("namespace") for each in whole["rows"]}
                 and sum(each["cardMilliseconds"] for each in whole["rows"]) == whole["cardMilliseconds"], whole)
    client.delete_all(claims("team"))
    client.delete_all(claims())
    until("the claims are gone", lambda: not client.items(claims()) and not client.items(claims("team")))


def token_config(cluster, token):
    path = cluster.folder / "tenant.kubeconfig"
    write_kubeconfig(path, cluster.url, cluster.pki, "tenant", token)
    return path


def main():
    report = Report()
    names = ["n-0", "n-1", "leaves"]
    # Without streamed lists, so that plain lists are requested, too: some servers have them disabled.
    with tempfile.TemporaryDirectory(prefix="egpu-rbac-") as folder, Cluster(
            folder, wanted=WHOLE, audit=True, features="WatchList=false") as cluster:
        installation.apply_manifests(cluster)
        client = installation.client_of(cluster)
        written_rules(client, report)
        # Rights granted to all users would hide missing rules of the controller.
        for_all = client.get(FOR_ALL)
        client.delete(FOR_ALL)
        nodes.publish(client, names, 2)
        until("the nodes are ready", lambda: nodes.all_ready(client, names))
        # Only a controller with leader election uses the lease; its right to the lease is tested in any case.
        elects = "--leader-elect" in installation.run_help(sys.argv[1])
        operations = installation.start_controller(cluster, sys.argv[1], arguments=[f"--journal={cluster.folder}/journal", *(
            ["--leader-elect", f"--leader-elect-resource-namespace={installation.NAMESPACE}"] if elects else [])])
        log = AuditLog(cluster.audit_log)
        try:
            whole_life(client, log, report)
            callers(client, operations, report, sys.argv[1])
            bills(cluster, client, operations, report, sys.argv[1])
            audited(client, log, report, elects)
            missed(client, log, report)
        except BaseException:
            print(cluster.processes.tail("controller", 40), file=sys.stderr)
            raise
        election(cluster, client, report)
        client.create(FOR_ALL.rsplit("/", 1)[0], {key: for_all[key] for key in ("roleRef", "subjects")} | {
            "metadata": {"name": for_all["metadata"]["name"]}})
        users(cluster, client, report)
        uninstall(cluster, client, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
