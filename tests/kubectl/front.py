"""A server in front of the embedded API server: adds kinds that it does not serve, changes objects in requests and responses, and rejects
requests that a role does not permit.
Loopback only."""
import copy
import functools
import glob
import http.server
import json
import os
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SYSTEM = "elastic-gpu-system"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LISTS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": f"{ADMISSION}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{ADMISSION}/mutatingadmissionpolicybindings",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/{SYSTEM}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{SYSTEM}/rolebindings",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "Deployment": f"/apis/apps/v1/namespaces/{SYSTEM}/deployments",
    "DaemonSet": f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets",
}


@functools.cache
def parsed(*patterns):
    """Reads the manifests once: the definitions are long."""
    found = []
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(ROOT, "manifests", pattern))):
            if "kustomization" not in path:
                with open(path, encoding="utf-8") as f:
                    found += [o for o in yaml.load_all(f, Loader=LOADER) if o]
    return found


def manifests(*patterns):
    """Returns the objects of the manifests, which the caller may change."""
    return copy.deepcopy(parsed(*patterns))


def installation():
    """Returns the lists of a healthy installation by path."""
    lists = {path: [] for path in LISTS.values()}
    for o in manifests("crd/*.yaml", "rbac/*.yaml", "admission/*.yaml", "admission/mutating/*.yaml", "deploy/*.yaml"):
        if o["kind"] not in LISTS:
            continue
        if o["kind"] == "CustomResourceDefinition":
            o["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
        if o["kind"] == "Deployment":
            o["status"] = {"availableReplicas": 2}
        lists[LISTS[o["kind"]]].append(o)
    lists["/apis/resource.k8s.io/v1/resourceslices"] = []
    lists["/apis/certificates.k8s.io/v1/certificatesigningrequests"] = []
    lists[f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"] = [
        {"kind": "Lease", "metadata": {"name": "elastic-gpu-controller", "namespace": SYSTEM}, "spec": {"holderIdentity": "one", "renewTime": stamp()}}]
    return lists


def stamp(offset=0):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(time.time() + offset))


class Front:
    """lists: path -> objects that replace those of the server. edits: path -> function that changes a list or an object. version: version of the API server;
    None = its own. allowed: function (verb, group, resource, namespace, name) -> bool; None = everything. `log` has the requested paths."""

    def __init__(self, server):
        self.server = server
        self.lists, self.edits, self.version, self.allowed, self.unserved, self.log = {}, {}, None, None, set(), []
        self.texts = {}
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, body, content="application/json"):
                self.send_response(status)
                self.send_header("Content-Type", content)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def refuse(self, status, reason, message):
                self.answer(status, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": status}).encode())

            def any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path, _, query = self.path.partition("?")
                front.log.append((self.command, self.path))
                verb, group, resource, space, name = front.parse(self.command, path)
                if front.allowed and resource and not front.allowed(verb, group, resource, space, name):
                    return self.refuse(403, "Forbidden", f'{resource}{"." + group if group else ""} is forbidden: User "tenant" cannot {verb} resource "{resource}" in API group "{group}"'
                                       + (f' in the namespace "{space}"' if space else " at the cluster scope"))
                if path in front.unserved:
                    return self.refuse(404, "NotFound", "the server could not find the requested resource")
                if path in front.texts:
                    return self.answer(200, front.texts[path].encode(), "text/plain")
                if path == "/version" and front.version:
                    return self.answer(200, json.dumps({"major": "1", "minor": front.version.split(".")[1], "gitVersion": front.version}).encode())
                if path in front.lists and self.command == "GET":
                    value = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": copy.deepcopy(front.lists[path])}
                    return self.answer(200, json.dumps(front.edited(path, value)).encode())
                request = urllib.request.Request(front.server + self.path, data=body or None, method=self.command,
                                                 headers={k: v for k, v in self.headers.items() if k.lower() in ("content-type", "accept", "authorization")})
                try:
                    with urllib.request.urlopen(request, timeout=60) as r:
                        status, data, content = r.status, r.read(), r.headers.get("Content-Type", "")
                except urllib.error.HTTPError as e:
                    status, data, content = e.code, e.read(), e.headers.get("Content-Type", "")
                if path in front.edits and status == 200:
                    data = json.dumps(front.edited(path, json.loads(data))).encode()
                self.answer(status, data, content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = any

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.http.server_port}"

    def edited(self, path, value):
        return self.edits[path](value) or value if path in self.edits else value

    @staticmethod
    def parse(method, path):
        """Returns verb, group, resource, namespace and name of a request, as an authorizer sees them; an empty resource for other paths."""
        m = re.match(r"/(?:api|apis/([^/]+))/[^/]+(?:/namespaces/([^/]+)(?=/))?/([^/]+)(?:/([^/]+))?(?:/([^/]+))?$", path)
        if not m:
            return "get", "", "", "", ""
        group, space, resource, name, sub = (x or "" for x in m.groups())
        verb = {"GET": "get" if name else "list", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}[method]
        return verb, group, resource + ("/" + sub if sub else ""), space, urllib.parse.unquote(name)

    def close(self):
        self.http.shutdown()
        self.http.server_close()
