"""Tests of the policy elastic-gpu-marks: the users that it restricts and the users that it exempts. Part of admission_test.py.

The tests send requests of users with the stock role `edit`, or with all rights in one namespace. Without the policy each of these requests removes a finalizer,
an owner reference or a label, and a card is given to the next claim while a pod still runs on it."""

import copy
import itertools
import string

import installation
import nodes
from client import GPUS, Refused, resource_claims, claims, until
from pki import admin_context

RBAC = "/apis/rbac.authorization.k8s.io/v1"
FINALIZER = "elasticgpu.io/resource-claim"
CLAIM_FINALIZER = "elasticgpu.io/claim"
THEIRS = "example.com/theirs"
LABEL = "elasticgpu.io/mark"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def account(cluster, client, name, role, scope="RoleBinding", kind="ClusterRole"):
    """Creates a service account in namespace default with that role there, or in the whole cluster. Returns its client."""
    if not client.exists(f"/api/v1/namespaces/default/serviceaccounts/{name}"):
        client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    where = RBAC + ("/namespaces/default/rolebindings" if scope == "RoleBinding" else "/clusterrolebindings")
    client.create(where, {"metadata": {"name": f"{name}-{role}"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                          "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]})
    return client.as_token(cluster.pki, client.token_for("default", name))


def own_claim(name, **metadata):
    return {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name, **metadata},
            "spec": {"egpuClassName": "any", "resources": {"requests": {"elasticgpu.io/gpu": 1}}}}


def owner(kind, name, uid, api="elasticgpu.io/v1alpha"):
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}


def resource_claim(name, **metadata):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, **metadata},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "elasticgpu.io"}}]}}}


def marks_of(stored):
    """Returns the marks of a stored object."""
    metadata = stored["metadata"]
    return (sorted(each for each in metadata.get("finalizers", []) if each.startswith("elasticgpu.io/")),
            [(each["apiVersion"], each["kind"], each["name"], each["uid"], each.get("controller")) for each in metadata.get("ownerReferences", [])
             if each["apiVersion"].startswith("elasticgpu.io/")],
            {key: value for key, value in metadata.get("labels", {}).items() if key.startswith("elasticgpu.io/")})


def delete_if_there(client, path):
    try:
        client.delete(path)
    except Refused as refused:
        if refused.status != 404:
            raise


class Marked:
    """A ResourceClaim as the controller creates it, of a claim with its finalizer. Recreated for each user."""

    def __init__(self, client, controller, name):
        self.client, self.controller = client, controller
        self.claim_path, self.resource_claim_path = f"{claims()}/{name}", f"{resource_claims()}/{name}"
        made = client.create(claims(), own_claim(name, finalizers=[CLAIM_FINALIZER, THEIRS], labels={LABEL: "x", "free": "x"}))
        self.owner = owner("ElasticGPUClaim", name, made["metadata"]["uid"])
        controller.create(resource_claims(), resource_claim(name, finalizers=[FINALIZER, THEIRS], ownerReferences=[self.owner],
                                                     labels={LABEL: "x"}))

    def free(self):
        """Removes the objects as the controller does; no object may remain."""
        for path in (self.resource_claim_path, self.claim_path):
            if self.client.exists(path):
                self.controller.patch(path, {"metadata": {"finalizers": None}})
        for path in (self.resource_claim_path, self.claim_path):
            delete_if_there(self.client, path)
            until(f"{path} is gone", lambda path=path: not self.client.exists(path))


def replaced(user, path, change, sub=""):
    """PUTs the stored object with a change. Marks that a subresource ignores are not removed either."""
    stored = user.get(path)
    change(stored["metadata"])
    return user.call("PUT", path + sub, stored)


def applied_away(user, path, kind, finalizers):
    """Server-side apply that omits fields which the forged managedFields attribute to this manager alone."""
    api = "resource.k8s.io/v1" if kind == "ResourceClaim" else "elasticgpu.io/v1alpha"
    forged = {"manager": "thief", "operation": "Apply", "apiVersion": api, "time": "2024-05-01T00:00:00Z", "fieldsType": "FieldsV1",
              "fieldsV1": {"f:metadata": {"f:finalizers": {f'v:"{each}"': {} for each in finalizers}}}}
    user.patch(path, [{"op": "replace", "path": "/metadata/managedFields", "value": [forged]}], JSON_PATCH)
    whole = {"apiVersion": api, "kind": kind, "metadata": {"name": path.rsplit("/", 1)[1]}}
    return user.patch(f"{path}?fieldManager=thief&force=true", whole, APPLY)


def strippings(path, kind, metadata):
    """Yields every way to remove a mark: description, the user's action, the field that the refusal names."""

    def patch(body, content_type="application/merge-patch+json"):
        return lambda user: user.patch(path, body, content_type)

    yield "finalizers, by a merge patch", patch({"metadata": {"finalizers": None}}), "metadata.finalizers"
    yield "finalizers, emptied", patch({"metadata": {"finalizers": []}}), "metadata.finalizers"
    yield "finalizers, by others", patch({"metadata": {"finalizers": [THEIRS]}}), "metadata.finalizers"
    yield "finalizers, by a JSON patch", patch([{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH), "metadata.finalizers"
    yield "one finalizer, by a JSON patch", patch([{"op": "remove", "path": "/metadata/finalizers/0"}], JSON_PATCH), "metadata.finalizers"
    yield ("finalizers, by replacing it", lambda user: replaced(user, path, lambda metadata: metadata.pop("finalizers")), "metadata.finalizers")
    yield ("finalizers, by applying", lambda user: applied_away(user, path, kind, metadata["finalizers"]), "metadata.finalizers")
    yield "a label", patch({"metadata": {"labels": {LABEL: None}}}), "metadata.labels"
    yield "all labels", patch([{"op": "remove", "path": "/metadata/labels"}], JSON_PATCH), "metadata.labels"
    yield "a label's value", patch({"metadata": {"labels": {LABEL: "another"}}}), "metadata.labels"
    yield ("labels, by replacing it", lambda user: replaced(user, path, lambda metadata: metadata.pop("labels")), "metadata.labels")
    if kind != "ResourceClaim":
        return
    references = metadata["ownerReferences"]
    yield "the owner", patch({"metadata": {"ownerReferences": None}}), "metadata.ownerReferences"
    yield "the owner, by a JSON patch", patch([{"op": "remove", "path": "/metadata/ownerReferences/0"}], JSON_PATCH), "metadata.ownerReferences"
    yield ("the owner, by a strategic merge patch",
           patch({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": references[0]["uid"]}]}}, STRATEGIC), "metadata.ownerReferences")
    yield ("finalizers, by a strategic merge patch",
           patch({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}, STRATEGIC), "metadata.finalizers")
    yield "the owner, by replacing it", lambda user: replaced(user, path, lambda metadata: metadata.pop("ownerReferences")), "metadata.ownerReferences"
    # Without blockOwnerDeletion, which needs a separate right.
    loose = {**references[0], "blockOwnerDeletion": False}
    for field, value in (("uid", "00000000-0000-4000-8000-000000000000"), ("name", "another"), ("controller", False), ("kind", "Another"),
                         ("apiVersion", "example.com/v1")):
        yield (f"the owner's {field}", patch({"metadata": {"ownerReferences": [{**loose, field: value}]}}), "metadata.ownerReferences")
    first = {**loose, "name": "another", "uid": "00000000-0000-4000-8000-000000000000", "controller": False}
    yield "a second owner, before the first", patch({"metadata": {"ownerReferences": [first, *references]}}), "metadata.ownerReferences"
    yield ("everything at once", patch({"metadata": {"finalizers": None, "ownerReferences": None, "labels": None}}), "metadata.finalizers")


def stripping(client, controller, users, report):
    for who, user in users.items():
        marked = Marked(client, controller, f"held-{who}")
        for kind, path in (("ResourceClaim", marked.resource_claim_path), ("ElasticGPUClaim", marked.claim_path)):
            for deleting in (False, True):
                when = " of one that is being deleted" if deleting else ""
                if deleting:
                    user.delete(path)
                    report.check(f"{who}: a {kind} that was deleted waits for the controller", client.exists(path))
                stored = client.get(path)
                for what, act, field in strippings(path, kind, stored["metadata"]):
                    report.refused(f"{who}: {kind}: {what}{when}", lambda act=act, user=user: act(user), 422, field, "the controller")
                    report.check(f"{who}: {kind}: {what}{when}: its marks are there", marks_of(client.get(path)) == marks_of(stored))
                for change in ("finalizers", "ownerReferences", "labels"):
                    try:
                        replaced(user, path, lambda metadata, change=change: metadata.pop(change, None), "/status")
                    except Refused:
                        pass
                    report.check(f"{who}: {kind}: {change}, by its status{when}: its marks are there", marks_of(client.get(path)) == marks_of(stored))
            made = resource_claim if kind == "ResourceClaim" else own_claim
            report.refused(f"{who}: {kind}: made anew while the old one is being deleted",
                           lambda user=user, path=path, made=made: user.create(path.rsplit("/", 1)[0], made(path.rsplit("/", 1)[1])), 409)
        marked.free()


def forging(client, controller, editor, report):
    """No user can make the controller accept a foreign ResourceClaim as its own."""
    uid = client.create(claims(), own_claim("forged"))["metadata"]["uid"]
    of_it = {**owner("ElasticGPUClaim", "forged", uid), "blockOwnerDeletion": False}
    for what, metadata, field in (("with its finalizer", {"finalizers": [FINALIZER]}, "metadata.finalizers"),
                                  ("of a claim", {"ownerReferences": [of_it]}, "metadata.ownerReferences"),
                                  ("with both", {"finalizers": [FINALIZER], "ownerReferences": [of_it]}, "metadata.finalizers")):
        for name in ({"name": "forged"}, {"generateName": "forged-"}):
            body = resource_claim("", **metadata)
            body["metadata"].pop("name")
            body["metadata"].update(name)
            report.refused(f"no ResourceClaim {what}", lambda body=body: editor.create(resource_claims(), body), 422, field, "the controller")
        whole = resource_claim("forged", **metadata)
        report.refused(f"no ResourceClaim {what}, by applying", lambda whole=whole: editor.patch(
            f"{resource_claims()}/forged?fieldManager=me", whole, APPLY), 422, field)
    plain = editor.create(resource_claims(), resource_claim("forged", labels={"a": "b"}, finalizers=["example.com/mine"]))
    report.check("one without is taken", plain["metadata"]["finalizers"] == ["example.com/mine"])
    for what, body, field in (("its finalizer", {"finalizers": [FINALIZER, "example.com/mine"]}, "metadata.finalizers"),
                              ("a claim as its owner", {"ownerReferences": [of_it]}, "metadata.ownerReferences")):
        report.refused(f"it does not get {what} afterwards", lambda body=body: editor.patch(f"{resource_claims()}/forged", {"metadata": body}), 422, field)
    unknown = {"finalizers": ["elasticgpu.io/unknown"]}
    report.refused("no claim with a finalizer that no controller removes", lambda: editor.create(claims(), own_claim("stuck", **unknown)), 422,
                   "metadata.finalizers", "the controller")
    report.refused("nor does one get it afterwards", lambda: editor.patch(f"{claims()}/forged", {"metadata": unknown}), 422, "metadata.finalizers")
    of_that = {"ownerReferences": [{**owner("ResourceClaim", "forged", plain["metadata"]["uid"], "resource.k8s.io/v1"), "blockOwnerDeletion": False}]}
    report.refused("no claim as if made for a ResourceClaim", lambda: editor.create(claims(), own_claim("made", **of_that)), 422,
                   "metadata.ownerReferences", "the controller")
    report.refused("nor is one given to it afterwards", lambda: editor.patch(f"{claims()}/forged", {"metadata": of_that}), 422,
                   "metadata.ownerReferences")
    report.check("a claim that is copied brings its own", editor.create(f"{claims()}?dryRun=All", own_claim(
        "copied", finalizers=[CLAIM_FINALIZER]))["metadata"]["finalizers"] == [CLAIM_FINALIZER])
    changed = editor.patch(f"{resource_claims()}/forged", {"metadata": {"finalizers": None, "labels": {"a": None}}})
    report.check("users can change objects with foreign marks", "finalizers" not in changed["metadata"])
    editor.delete(f"{resource_claims()}/forged")
    editor.delete(f"{claims()}/forged")
    report.check("a user deletes his claim", not client.exists(f"{claims()}/forged"))


def let_through(cluster, client, controller, users, report):
    """Every exempted user can remove all marks of a ResourceClaim and its claim."""
    for number, (who, user) in enumerate(users.items()):
        marked = Marked(client, controller, f"free-{number}")
        for path in (marked.resource_claim_path, marked.claim_path):
            try:
                now = user.patch(path, {"metadata": {"finalizers": None, "ownerReferences": None, "labels": None}})
                report.check(f"{who} takes the marks off {path}", marks_of(now) == ([], [], {}))
            except Refused as refused:
                report.check(f"{who} takes the marks off {path}", False, refused)
        marked.free()


def orphaned(client, controller, editor, report):
    """The garbage collector is exempted: it removes owner references from the dependents of an object deleted with --cascade=orphan."""
    marked = Marked(client, controller, "orphan")
    editor.call("DELETE", marked.claim_path, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"})
    until("the garbage collector took the owner off", lambda: not client.get(marked.resource_claim_path)["metadata"].get("ownerReferences"))
    report.check("the ResourceClaim keeps its finalizer", FINALIZER in client.get(marked.resource_claim_path)["metadata"]["finalizers"])
    marked.free()


def still_allowed(client, controller, editor, report):
    """Users can make changes that do not concern marks, and delete their claims."""
    marked = Marked(client, controller, "usual")
    for path in (marked.resource_claim_path, marked.claim_path):
        now = editor.patch(path, {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}})
        report.check(f"labels and annotations of {path} can be changed by the user", now["metadata"]["labels"]["team"] == "a")
        now = editor.patch(path, [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/own"}], JSON_PATCH)
        report.check(f"another's finalizer can be added to {path}", "example.com/own" in now["metadata"]["finalizers"])
        now = editor.patch(path, {"metadata": {"finalizers": [each for each in now["metadata"]["finalizers"] if each.startswith("elasticgpu.io/")]}})
        report.check(f"and removed from {path} again", "example.com/own" not in now["metadata"]["finalizers"])
    editor.patch(marked.claim_path, {"metadata": {"labels": {"free": None}}})
    editor.delete(marked.claim_path)
    report.check("the user can delete a claim, which waits for the controller", "deletionTimestamp" in client.get(marked.claim_path)["metadata"])
    controller.delete(marked.resource_claim_path)
    controller.patch(marked.resource_claim_path, {"metadata": {"finalizers": None}})
    controller.patch(marked.claim_path, {"metadata": {"finalizers": None}})
    until("both are gone", lambda: not client.exists(marked.resource_claim_path) and not client.exists(marked.claim_path))


def many(count):
    """Returns that many keys, as short as possible, so that an object holds the maximum number."""
    return ["".join(each) for each in itertools.islice(itertools.product(string.ascii_letters + string.digits, repeat=3), count)]


def crowds(count):
    """Yields more entries than the policy searches for marks: field, and its new value in addition to the existing entries."""
    yield "labels", lambda metadata: {**metadata.get("labels", {}), **{key: "" for key in many(count)}}
    yield "finalizers", lambda metadata: [*metadata.get("finalizers", []), *(f"example.com/{key}" for key in many(count))]
    yield "ownerReferences", lambda metadata: [*metadata.get("ownerReferences", []), *(
        {"apiVersion": "example.com/v1", "kind": "Theirs", "name": key, "uid": key} for key in many(count))]


def no_crowd(client, controller, editor, report):
    """No user can create an object whose search for marks exceeds a request's time limit."""
    marked = Marked(client, controller, "crowd")
    for kind, path in (("ResourceClaim", marked.resource_claim_path), ("ElasticGPUClaim", marked.claim_path)):
        for count in (62000, 257):
            for field, crowd in crowds(count):
                if count > 257 and field != "labels":
                    continue
                value = crowd(client.get(path)["metadata"])
                report.refused(f"a {kind} gets no {count} {field}", lambda path=path, field=field, value=value: editor.patch(
                    path, {"metadata": {field: value}}), 422, f"metadata.{field}: {len(value)}", "at most 256", "the controller")
                made = resource_claim if kind == "ResourceClaim" else own_claim
                value = crowd({})
                report.refused(f"no {kind} is made with {count} {field}", lambda path=path, field=field, value=value, made=made: editor.create(
                    path.rsplit("/", 1)[0], made("crowded", **{field: value})), 422, f"metadata.{field}: {count}", "at most 256")
        before = marks_of(client.get(path))
        for field, crowd in crowds(250):
            now = editor.patch(path, {"metadata": {field: crowd(client.get(path)["metadata"])}})
            report.check(f"a {kind} gets 250 {field}, and keeps its marks", len(now["metadata"][field]) >= 250 and marks_of(now) == before)
        report.refused(f"a label among them is not taken off a {kind}", lambda path=path: editor.patch(
            path, {"metadata": {"labels": {LABEL: None}}}), 422, "metadata.labels", "the controller")
        report.refused(f"nor a finalizer off a {kind}", lambda path=path: editor.patch(path, {"metadata": {"finalizers": None}}), 422,
                       "metadata.finalizers", "the controller")
    report.refused("nor an owner off a ResourceClaim", lambda: editor.patch(marked.resource_claim_path, {"metadata": {"ownerReferences": None}}), 422,
                   "metadata.ownerReferences", "the controller")
    marked.free()


def crowded_already(client, controller, editor, passes, report):
    """An object that already has more entries, created before the policies existed: every user can write it without changing them, and it can be freed."""
    for count, wanted in ((62000, ("labels",)), (3000, ("finalizers", "ownerReferences"))):
        marked = Marked(client, controller, "crowded")
        for kind, path in (("ResourceClaim", marked.resource_claim_path), ("ElasticGPUClaim", marked.claim_path)):
            client.patch(path, {"metadata": {field: crowd(client.get(path)["metadata"]) for field, crowd in crowds(count) if field in wanted}})
            before = client.get(path)
            what = f"a {kind} of {count} {' and '.join(wanted)}"
            for who, user in {**passes, "its user": editor}.items():
                try:
                    user.patch(path, {"metadata": {"annotations": {"note": who}}})
                    report.check(f"{who} writes {what}", True)
                except Refused as refused:
                    report.check(f"{who} writes {what}", False, refused)
            for who in ("the controller of ResourceClaims", "an administrator by a binding of cluster-admin"):
                try:
                    passes[who].patch(path + "/status", {"metadata": {"annotations": {"status": who}}})
                    report.check(f"{who} writes the status of {what}", True)
                except Refused as refused:
                    report.check(f"{who} writes the status of {what}", False, refused)
            for field in ("labels", "finalizers", *(("ownerReferences",) if kind == "ResourceClaim" else ())):
                report.refused(f"its user does not take {field} off {what}", lambda path=path, field=field: editor.patch(
                    path, {"metadata": {field: None}}), 422, f"metadata.{field}", "the controller")
            report.check(f"{what}: its marks are there", marks_of(client.get(path)) == marks_of(before))
            try:
                now = controller.patch(path, {"metadata": {"finalizers": [each for each in before["metadata"]["finalizers"] if each != (
                    FINALIZER if kind == "ResourceClaim" else CLAIM_FINALIZER)]}})
                report.check(f"the controller takes its finalizer off {what}", marks_of(now)[0] == [])
                now = client.patch(path, {"metadata": {field: None for field in wanted}})
                report.check(f"an administrator empties {what}", not any(field in now["metadata"] for field in wanted))
            except Refused as refused:
                report.check(f"{what} is freed", False, refused)
        marked.free()


def of_gpus(client, meddler, administrator, report):
    """Cards and devices: a user who may write all of them, but has no right to their finalizers, cannot remove a mark."""
    card = nodes.card("node-marks", 0)
    path = f"{GPUS}/{card['metadata']['name']}"
    client.create(GPUS, card)
    stored = client.get(path)
    for what, body, field in (("finalizers", {"finalizers": None}, "metadata.finalizers"), ("labels", {"labels": None}, "metadata.labels"),
                              ("a label's value", {"labels": {"elasticgpu.io/role": "device"}}, "metadata.labels")):
        for sub in ("", "/status"):
            try:
                meddler.patch(path + sub, {"metadata": copy.deepcopy(body)})
                report.check(f"a card's {what}{sub}", sub != "", "it was accepted")
            except Refused as refused:
                report.check(f"a card's {what}{sub}", refused.status == 422 and field in str(refused), refused)
            report.check(f"a card's {what}{sub}: its marks are there", marks_of(client.get(path)) == marks_of(stored))
    word = {"metadata": {"annotations": {"elasticgpu.io/repaired": "Xid46"}}}
    report.refused("nor does one give the operator's word on a card", lambda: meddler.patch(path, word), 422, "elasticgpu.io/repaired")
    given = administrator.patch(path, word)["metadata"]["annotations"]
    report.check("an administrator gives it", given.get("elasticgpu.io/repaired") == "Xid46", given)
    meddler.patch(path, {"metadata": {"labels": {"rack": "7"}}, "spec": {"card": {"smCount": 99}}})
    meddler.delete(path)
    report.check("its deletion waits", client.exists(path))
    administrator.patch(path, {"metadata": {"finalizers": None}})
    report.check("an administrator ends it", not client.exists(path))


def try_all(cluster, client, report):
    token = client.token_for(installation.NAMESPACE, installation.ACCOUNT)
    controller = client.as_token(cluster.pki, token)
    writes = {"apiGroups": ["resource.k8s.io", "elasticgpu.io"], "verbs": ["get", "create", "update", "patch", "delete"],
              "resources": ["resourceclaims", "elasticgpuclaims", "elasticgpus", "resourceclaims/status", "elasticgpuclaims/status", "elasticgpus/status"]}
    client.create(f"{RBAC}/clusterroles", {"metadata": {"name": "writes-all"}, "rules": [writes]})
    client.create(f"{RBAC}/clusterroles", {"metadata": {"name": "gpu-administrator"}, "rules": [writes, {
        "apiGroups": ["elasticgpu.io"], "resources": ["elasticgpus/finalizers"], "verbs": ["update"]}]})
    client.create(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "everything"}, "rules": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]})
    # Kubernetes' controllers may write their own kinds; here they get the rights for the writes that the test sends in their name.
    client.create(f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": "kubernetes-writes-all"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writes-all"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:kube-controller-manager"},
                     {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:kube-system"},
                     {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:elastic-gpu-system"}]})

    def as_account(namespace, name):
        until(f"{name} has an account", lambda: client.exists(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"))
        return client.as_token(cluster.pki, client.token_for(namespace, name))

    editor = account(cluster, client, "editor", "edit")

    def may_edit(user):
        try:
            user.create(f"{resource_claims()}?dryRun=All", resource_claim("probe"))
            user.create(f"{claims()}?dryRun=All", own_claim("probe"))
            return True
        except Refused:
            return False

    until("roles are aggregated", lambda: may_edit(editor))
    holds = {
        "the stock role edit": editor,
        "the stock role admin": account(cluster, client, "namespace-admin", "admin"),
        "every right in one namespace": account(cluster, client, "namespace-owner", "everything", kind="Role"),
        "cluster-admin in one namespace": account(cluster, client, "namespace-cluster-admin", "cluster-admin"),
        "the stock role edit in the whole cluster": account(cluster, client, "edits-all", "edit", "ClusterRoleBinding"),
        "all rights but to finalizers": account(cluster, client, "meddler", "writes-all", "ClusterRoleBinding"),
    }
    passes = {
        "the controller": controller,
        "an agent's account": as_account(installation.NAMESPACE, "elastic-gpu-agent"),
        "an administrator of system:masters": client,
        "an administrator by a binding of cluster-admin": account(cluster, client, "binding", "cluster-admin", "ClusterRoleBinding"),
        "a user with the right to the finalizers": account(cluster, client, "gpu-administrator", "gpu-administrator", "ClusterRoleBinding"),
        "the garbage collector": as_account("kube-system", "generic-garbage-collector"),
        "the controller of namespaces": as_account("kube-system", "namespace-controller"),
        "the controller of ResourceClaims": as_account("kube-system", "resource-claim-controller"),
        "the controller manager itself": type(client)(cluster.url, admin_context(cluster.pki, "kube-controller-manager")),
    }
    for who, user in {**holds, **passes}.items():
        until(f"{who} may write", lambda user=user: may_edit(user))
    names = dict(zip(holds, ("edit", "admin", "wildcard", "cluster-admin", "edit-all", "writes-all")))
    stripping(client, controller, {names[who]: user for who, user in holds.items()}, report)
    forging(client, controller, editor, report)
    let_through(cluster, client, controller, passes, report)
    orphaned(client, controller, editor, report)
    still_allowed(client, controller, editor, report)
    no_crowd(client, controller, editor, report)
    crowded_already(client, controller, editor, {who: passes[who] for who in (
        "the controller", "an administrator by a binding of cluster-admin", "the garbage collector", "the controller of ResourceClaims")}, report)
    of_gpus(client, holds["all rights but to finalizers"], passes["a user with the right to the finalizers"], report)
