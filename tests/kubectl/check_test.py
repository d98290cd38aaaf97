"""Proves that `kubectl egpu check` names each planted fault, and nothing else: faults in an installation in front of the embedded API server.

  check_test.py BIN_DIR"""
import base64
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "e2e"))
from front import LISTS, SYSTEM, Front, installation, stamp  # noqa: E402
from standalone import Kubectl, Report, Standalone, until  # noqa: E402

NODES = """
nodes:
- name: n
  count: 2
  gpus: [{model: T4, count: 1, memory: 16Gi}]
"""
PODS, EVENTS, GPUS, NODE_LIST = "/api/v1/pods", "/api/v1/events", "/apis/elasticgpu.io/v1alpha/elasticgpus", "/api/v1/nodes"
CLASSES = "/apis/elasticgpu.io/v1alpha/elasticgpuclasses"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
ADMISSION_KINDS = "/apis/admissionregistration.k8s.io/v1"
RESOURCE_KINDS = "/apis/resource.k8s.io/v1"


def agent(node, ready=True):
    return {"kind": "Pod", "metadata": {"name": f"elastic-gpu-agent-{node}", "namespace": SYSTEM, "labels": {"app.kubernetes.io/name": "elastic-gpu-agent"}},
            "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "elastic-gpu-controller:0.1.0"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}


def pod(name, node, image="x", **container):
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": {"nodeName": node, "containers": [{"name": "m", "image": image, **container}]},
            "status": {"phase": "Running"}}


def event(kind, name, reason, message, **more):
    return {"kind": "Event", "metadata": {"name": f"{name}.1", "namespace": "default"}, "type": "Warning", "reason": reason, "message": message,
            "involvedObject": {"kind": kind, "name": name}, **more}


class Planted:
    """The healthy cluster, and the changes of a fault."""

    def __init__(self, front):
        self.front = front
        front.version = "v1.36.1"
        front.lists = installation()
        front.unserved = set()
        front.lists[PODS] = [agent("n-0"), agent("n-1")]
        front.lists[EVENTS] = []
        front.lists[NODE_LEASES] = [{"kind": "Lease", "metadata": {"name": n, "namespace": "kube-node-lease"}, "spec": {"renewTime": stamp(-5)}} for n in ("n-0", "n-1")]
        self.changes = []
        self.gpu_changes = []
        front.edits = {NODE_LIST: self.nodes, GPUS: self.gpus, RESOURCE_KINDS: lambda v: v, ADMISSION_KINDS: self.admission_kinds}

    def nodes(self, value):
        for node in value["items"]:
            node["metadata"].setdefault("labels", {})["elasticgpu.io/agent"] = "true"
            node["status"]["nodeInfo"] = {"kubeletVersion": "v1.36.1", "containerRuntimeVersion": "containerd://2.0.4"}
        for change in self.changes:
            change(value["items"])
        return value

    def gpus(self, value):
        for gpu in value["items"]:
            if "card" in gpu["spec"]:
                gpu["spec"]["card"].setdefault("attributes", {})["driverVersion"] = "535.104.05"
        for change in self.gpu_changes:
            change(value["items"])
        return value

    @staticmethod
    def admission_kinds(value):
        value.setdefault("resources", []).append({"name": "mutatingadmissionpolicies", "kind": "MutatingAdmissionPolicy"})
        return value

    def of(self, kind):
        return self.front.lists[LISTS[kind]]

    def drop(self, kind, name):
        path = LISTS[kind]
        remaining = [o for o in self.front.lists[path] if o["metadata"]["name"] != name]
        assert len(remaining) == len(self.front.lists[path]) - 1, (kind, name)
        self.front.lists[path] = remaining

    def named(self, kind, name):
        return next(o for o in self.of(kind) if o["metadata"]["name"] == name)

    def node(self, change):
        self.changes.append(lambda items: change(next(n for n in items if n["metadata"]["name"] == "n-0")))

    def gpu(self, change):
        self.gpu_changes.append(lambda items: change(next(g for g in items if g["spec"].get("card", {}).get("nodeName") == "n-0")))


def unserved_mutating(value):
    return {**value, "resources": [r for r in value.get("resources", []) if not r["name"].startswith("mutatingadmission")]}


def unhealthy(reason, message):
    def change(gpu):
        gpu.setdefault("status", {})["conditions"] = [{"type": "Healthy", "status": "False", "reason": reason, "message": message}]
    return change


def faults():
    """Yields name, expected check, expected object, and the function that plants the fault."""
    crd = "elasticgpus.elasticgpu.io"

    def set_version(p):
        p.front.version = "v1.33.4"

    def without_dra(p):
        p.front.edits[RESOURCE_KINDS] = lambda v: {**v, "resources": []}

    def without_mutating(p):
        p.front.edits[ADMISSION_KINDS] = unserved_mutating

    def lose_rule(p):
        def strip(x):
            if isinstance(x, dict):
                x.pop("x-kubernetes-validations", None)
                for v in x.values():
                    strip(v)
            elif isinstance(x, list):
                for v in x:
                    strip(v)
        strip(p.named("CustomResourceDefinition", crd)["spec"])

    def not_established(p):
        p.named("CustomResourceDefinition", crd)["status"]["conditions"][0]["status"] = "False"

    def change_policy(p):
        p.named("ValidatingAdmissionPolicy", "elastic-gpu-marks")["spec"]["validations"][0]["expression"] = "true"

    def warn_only(p):
        p.named("ValidatingAdmissionPolicyBinding", "elastic-gpu-marks")["spec"]["validationActions"] = ["Warn"]

    def select_all(p):
        p.named("DeviceClass", "elasticgpu.io")["spec"]["selectors"][0]["cel"]["expression"] = "true"

    def lose_verb(p):
        p.named("ClusterRole", "elastic-gpu-controller")["rules"][0]["verbs"].remove("patch")

    def other_subject(p):
        p.named("ClusterRoleBinding", "elastic-gpu-agent")["subjects"][0]["namespace"] = "other"

    def unlabelled(p):
        p.named("ClusterRole", "elastic-gpu-view")["metadata"]["labels"].pop("rbac.authorization.k8s.io/aggregate-to-view")

    def no_replica(p):
        p.named("Deployment", "elastic-gpu-controller")["status"] = {"replicas": 2}

    def no_leader(p):
        p.front.lists[f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"][0]["spec"]["holderIdentity"] = ""

    def add(path, *objects):
        return lambda p: p.front.lists[path].extend(copy.deepcopy(o) for o in objects)

    def agents(*pods):
        return lambda p: p.front.lists.__setitem__(PODS, list(pods))

    def renew(offset):
        return lambda p: p.front.lists[NODE_LEASES][0]["spec"].__setitem__("renewTime", stamp(offset))

    def info(field, value):
        return lambda p: p.node(lambda n: n["status"]["nodeInfo"].__setitem__(field, value))

    def new_node(p):
        p.changes.append(lambda items: items.append({"metadata": {"name": "bare", "labels": {"elasticgpu.io/agent": "true"}}, "status": {"nodeInfo": {}}}))
        p.front.lists[PODS].append(agent("bare"))

    yield "Kubernetes is too old", "kubernetes-version", "APIServer/v1.33.4", set_version
    yield "DRA is off", "feature-gate", "APIServer/v1.36.1", without_dra
    yield "mutating policies are off", "feature-gate", "APIServer/v1.36.1", without_mutating
    yield "a kubelet is too old", "kubelet-version", "Node/n-0", info("kubeletVersion", "v1.33.0")
    yield "a definition is missing", "crd", f"CustomResourceDefinition/{crd}", lambda p: p.drop("CustomResourceDefinition", crd)
    yield "a definition is old", "crd-rules", f"CustomResourceDefinition/{crd}", lose_rule
    yield "a definition is not established", "crd", f"CustomResourceDefinition/{crd}", not_established
    yield "the DeviceClass is missing", "device-class", "DeviceClass/elasticgpu.io", lambda p: p.drop("DeviceClass", "elasticgpu.io")
    yield "the DeviceClass selects devices", "device-class", "DeviceClass/elasticgpu.io", select_all
    yield "a policy is missing", "policy", "ValidatingAdmissionPolicy/elastic-gpu-pod-claims", lambda p: p.drop("ValidatingAdmissionPolicy", "elastic-gpu-pod-claims")
    yield "a policy was changed", "policy", "ValidatingAdmissionPolicy/elastic-gpu-marks", change_policy
    yield "a mutating policy is missing", "policy", "MutatingAdmissionPolicy/elastic-gpu-pod-amounts", lambda p: p.drop("MutatingAdmissionPolicy", "elastic-gpu-pod-amounts")
    yield "a binding is missing", "policy-binding", "ValidatingAdmissionPolicyBinding/elastic-gpu-marks", lambda p: p.drop("ValidatingAdmissionPolicyBinding", "elastic-gpu-marks")
    yield "a binding only warns", "policy-binding", "ValidatingAdmissionPolicyBinding/elastic-gpu-marks", warn_only
    yield "the controller lacks a right", "rights", "ClusterRole/elastic-gpu-controller", lose_verb
    yield "the agents' role is bound to others", "rights", "ClusterRoleBinding/elastic-gpu-agent", other_subject
    yield "the users' role is not aggregated", "rights", "ClusterRole/elastic-gpu-view", unlabelled
    yield "no replica of the controller", "controller", "Deployment/elastic-gpu-controller", no_replica
    yield "no leader", "controller", "Lease/elastic-gpu-controller", no_leader
    yield "a node without an agent", "agent", "Node/n-1", agents(agent("n-0"))
    yield "an agent that is not ready", "agent", "Node/n-0", agents(agent("n-0", False), agent("n-1"))
    yield "an agent without cards", "agent", "Node/bare", new_node
    yield "no driver", "driver", "Node/n-0", add(EVENTS, event("Node", "n-0", "DiscoveryWarning", "libnvidia-ml.so.1 is not found"))
    yield "an old driver", "driver", "Node/n-0", lambda p: p.gpu(lambda g: g["spec"]["card"]["attributes"].__setitem__("driverVersion", "450.80"))
    yield "a driver that does not answer", "card", "ElasticGPU/", lambda p: p.gpu(unhealthy("DriverNotAnswering", "no answer for 60 s"))
    yield "a runtime without CDI", "runtime", "Node/n-0", info("containerRuntimeVersion", "docker://24.0.7")
    yield "an old containerd", "runtime", "Node/n-0", info("containerRuntimeVersion", "containerd://1.7.20")
    yield "CDI is off", "cdi", "Node/n-0", add(EVENTS, event("Pod", "p", "Failed", "CDI device injection failed: unresolvable CDI device elasticgpu.io/gpu=x",
                                                             source={"host": "n-0"}))
    yield "another device plugin", "foreign-device-plugin", "Node/n-0", lambda p: p.node(lambda n: n["status"].setdefault("allocatable", {}).__setitem__("nvidia.com/gpu", "4"))
    yield "another plugin's pod", "foreign-device-plugin", "Pod/team/hami", add(PODS, pod("hami", "n-0", "docker.io/projecthami/hami:v2.5"))
    yield "another DRA driver", "foreign-dra-driver", "Node/n-0", add(SLICES, {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"nodeName": "n-0", "driver": "gpu.nvidia.com"}})
    yield "use without a claim", "foreign-use", "ElasticGPU/", lambda p: p.gpu(unhealthy("ForeignUse", "pod team/a computes on it"))
    yield "NVIDIA's default runtime", "visible-devices", "Node/n-0", lambda p: (
        add(EVENTS, event("Node", "n-0", "CardsReachableWithoutClaim", "nvidia is the default runtime"))(p), add(PODS, pod("cuda", "n-0", "nvidia/cuda:12.4"))(p))
    yield "a pod that asks for all cards", "visible-devices", "Pod/team/all", add(PODS, pod("all", "n-0", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]))
    yield "a clock that is ahead", "clock", "Node/n-0", renew(90)
    yield "a clock that is behind", "clock", "Node/n-0", renew(-300)
    yield "a kubelet's request is not approved", "certificate", "CertificateSigningRequest/csr-1", add(CSRS, {
        "kind": "CertificateSigningRequest", "metadata": {"name": "csr-1", "creationTimestamp": "2024-01-01T00:00:00Z"},
        "spec": {"signerName": "kubernetes.io/kubelet-serving", "username": "system:node:n-0"}})


# Healthy variants that a careless check would report.
def innocents():
    def reworded(p):  # API servers add defaults
        for policy in p.of("ValidatingAdmissionPolicy"):
            policy["spec"]["matchConstraints"]["matchPolicy"] = "Equivalent"
            policy["metadata"]["uid"] = "1"

    def more_rights(p):
        p.named("ClusterRole", "elastic-gpu-controller")["rules"].append({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})

    yield "defaults of an API server", reworded
    yield "a role with more rights", more_rights
    yield "a device plugin on a node without our cards", lambda p: p.front.lists[PODS].append(pod("plugin", "cpu-1", "nvcr.io/nvidia/k8s-device-plugin:v0.17"))
    yield "a CUDA image under a sane runtime", lambda p: p.front.lists[PODS].append(pod("cuda", "n-0", "nvidia/cuda:12.4"))
    yield "all cards, with a claim", lambda p: p.front.lists[PODS].append({**pod("with", "n-0", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]), "spec": {
        "nodeName": "n-0", "resourceClaims": [{"name": "g", "resourceClaimName": "g"}],
        "containers": [{"name": "m", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}})
    yield "a finished pod of another plugin", lambda p: p.front.lists[PODS].append({**pod("done", "n-0", "projecthami/hami:v2"), "status": {"phase": "Succeeded"}})
    yield "a card on probation", lambda p: p.gpu(unhealthy("Probation", "free of errors for 10 s"))
    yield "the API server of 1.35 without mutating policies", lambda p: (setattr(p.front, "version", "v1.35.2"), p.front.edits.__setitem__(ADMISSION_KINDS, unserved_mutating))
    yield "CRI-O", lambda p: p.node(lambda n: n["status"]["nodeInfo"].__setitem__("containerRuntimeVersion", "cri-o://1.34.1"))


CA = """
[ca]
default_ca = c
[c]
new_certs_dir = {work}
database = {work}/index
serial = {work}/serial
default_md = sha256
policy = p
[p]
commonName = supplied
"""


def certificate(work, days):
    """Returns a self-signed certificate that expires or, if negative, expired so many days from now, and its key, as PEM."""
    key, cert, request, config = (os.path.join(work, n) for n in ("key", f"cert{days}", "request", "config"))
    for name, text in ("index", ""), ("serial", "01"), ("config", CA.format(work=work)):
        with open(os.path.join(work, name), "w", encoding="utf-8") as f:
            f.write(text)
    end = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + days * 86400))
    subprocess.run(["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", "/CN=ann"], check=True, capture_output=True)
    subprocess.run(["openssl", "ca", "-batch", "-selfsign", "-config", config, "-keyfile", key, "-in", request, "-out", cert, "-startdate", "20200101000000Z",
                    "-enddate", end], check=True, capture_output=True)
    with open(cert, "rb") as f, open(key, "rb") as k:
        text = f.read()
        return text[text.index(b"-----BEGIN"):], k.read()


def main(bin_dir):
    r = Report()
    plugin = os.path.join(os.path.realpath(bin_dir), "kubectl-egpu")
    s = Standalone(bin_dir, NODES)
    front = None
    try:
        kubectl = Kubectl("kubectl", s.kubeconfig, s.work)
        until(lambda: len(kubectl.json("get", "egpu")["items"]) == 2)
        server = kubectl.ok("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}").strip()
        front = Front(server)

        def check(*args):
            done = subprocess.run([plugin, "check", "-o", "json", "--server", front.address, *args], capture_output=True, timeout=60, check=False,
                                  env=dict(os.environ, KUBECONFIG=s.kubeconfig, HOME=s.work))
            return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr.decode()

        own = subprocess.run([plugin, "check"], capture_output=True, timeout=60, check=False, env=dict(os.environ, KUBECONFIG=s.kubeconfig, HOME=s.work))
        r.check("the embedded API server itself is in order", own.returncode == 0 and b"0 errors, 0 warnings" in own.stdout, own)
        Planted(front)
        status, value = check()
        r.check("a healthy installation has no finding", status == 0 and value["findings"] == [], value)
        planted = list(faults())
        r.check("at least 20 faults are planted", len(planted) >= 20 and len({n for n, *_ in planted}) == len(planted))
        for name, wanted, of, plant in planted:
            plant(Planted(front))
            status, value = check()
            found = value["findings"] if isinstance(value, dict) else []
            r.check(f"{name}: one finding, {wanted}", [f["check"] for f in found] == [wanted] and found[0]["object"].startswith(of) and found[0]["fix"]
                    and status == (3 if found[0]["level"] == "Error" else 0), (status, value))
        for name, plant in innocents():
            plant(Planted(front))
            status, value = check()
            r.check(f"{name}: no finding", status == 0 and value["findings"] == [], value)
        certificates(r, front, check, s)
        rights(r, front, check)
    finally:
        if front:
            front.close()
        s.clean()
    return r.close()


def certificates(r, front, check, s):
    Planted(front)
    work = tempfile.mkdtemp(dir=s.work)
    for days, text in (-3, "expired"), (1, "expires in"):
        cert, key = certificate(work, days)
        path = os.path.join(work, "kubeconfig")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                       "clusters": [{"name": "c", "cluster": {"server": front.address}}],
                       "users": [{"name": "u", "user": {"client-certificate-data": base64.b64encode(cert).decode(), "client-key-data": base64.b64encode(key).decode()}}]}, f)
        _, value = check("--kubeconfig", path)
        found = value["findings"] if isinstance(value, dict) else []
        r.check(f"a client certificate that {text}", [f["check"] for f in found] == ["certificate"] and text in found[0]["problem"], value)
    shutil.rmtree(work)


def rights(r, front, check):
    """A kind that the user may not read is not checked, and no fault."""
    Planted(front)
    front.allowed = lambda verb, group, resource, space, name: resource not in ("nodes", "clusterroles")
    status, value = check()
    r.check("unreadable kinds are reported as not checked", status == 0 and value["errors"] == 0 and value["notChecked"] == 2, value)
    front.allowed = None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
