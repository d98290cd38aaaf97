"""Proves remote GPUs with the real kubectl, plugin and pool server: leases, a full pool, pods, a restart, devices by hand.  remote_test.py BIN_DIR"""
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.request

from standalone import ROOT, Kubectl, Report, Standalone, until

TOKEN = "s3cret-t0ken"
NODES = """
nodes:
- name: n1
  gpus: [{model: A100, count: 1, memory: 80Gi}]
- name: n2
"""
CLASS = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: pool}
provisioner: remote.provisioner.elasticgpu.io
parameters:
  pool: %s
  owner: e2e
  caFile: %s/cert.pem
  tokenFile: %s/token
  leaseSeconds: "60"
  endpointVariable: VENDOR_SERVER
  mounts: /opt/vendor/lib:/usr/lib/vendor
  hostPaths: /opt/vendor/*
"""
CLAIM = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: %s}
spec: {egpuClassName: pool, resources: {requests: {elasticgpu.io/gpu: %s}}}
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {egpuc.elasticgpu.io/gpu: a}}
spec: {nodeSelector: {kubernetes.io/hostname: n2}, containers: [{name: main, image: busybox}]}
"""
BY_HAND = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPU
metadata: {name: by-hand}
spec:
  remote: {%s}
---
"""
BY_NAME = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: named}
spec: {elasticGPUName: by-hand}
"""


class PoolServer:
    """pool_server.py with two GPUs. Plugins read the certificate and the token from its folder."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="egpu-pool-"))
        self.folder.chmod(0o755)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", "/CN=pool",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.folder / "key.pem", "-out", self.folder / "cert.pem"], check=True, capture_output=True)
        (self.folder / "token").write_text(TOKEN + "\n", encoding="utf-8")
        (self.folder / "cert.pem").chmod(0o644)
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(ROOT, "provisioners/remote/pool_server.py"), "--gpus", "2", "--cert", self.folder / "cert.pem", "--key", self.folder / "key.pem",
             "--token-file", self.folder / "token"], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def keys(self):
        request = urllib.request.Request(self.url + "/v1/leases?owner=e2e", headers={"Authorization": "Bearer " + TOKEN})
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=self.folder / "cert.pem")) as answer:
            return json.load(answer)["keys"]

    def clean(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)


def bound_condition(k, name):
    found = [c for c in k.json("get", "egpuc", name)["status"].get("conditions", []) if c["type"] == "Bound"]
    return found[0] if found else {}


def is_bound(k, name):
    return until(lambda: k.json("get", "egpuc", name)["status"]["phase"] == "Bound")


def leases(r, k, pool):
    k.ok("apply", "-f", "-", stdin=CLASS % (pool.url, pool.folder, pool.folder) + "---" + CLAIM % ("a", 1))
    r.check("a claim is Bound", is_bound(k, "a"), k.json("get", "egpuc", "a")["status"])
    claim = k.json("get", "egpuc", "a")
    device = k.json("get", "egpu", claim["spec"]["elasticGPUName"])
    r.check("its device has the endpoint of the lease", device["spec"]["remote"] == {"endpoint": "127.0.0.1:7000"}, device["spec"])
    r.check("it has neither node nor cards", not {"nodeName", "cards", "nodeAffinity"} & device["spec"].keys() and "nodeName" not in claim["status"], device["spec"])
    r.check("its uid is the key of the lease", pool.keys() == [device["metadata"]["uid"]], pool.keys())
    cards = [g for g in k.json("get", "egpu")["items"] if "card" in g["spec"]]
    r.check("no local card is used", cards and not any(g["spec"].get("allocations") for g in cards), cards)
    k.ok("apply", "-f", "-", stdin=POD)
    annotations = until(lambda: k.json("get", "pod", "p")["metadata"]["annotations"]["prepared.elasticgpu.io/main"])
    wanted = ("ELASTICGPU_REMOTE_ENDPOINT=127.0.0.1:7000", "VENDOR_SERVER=127.0.0.1:7000", "/usr/lib/vendor")
    r.check("the container of a pod on a node without GPUs gets the address and the libraries", annotations and all(each in annotations for each in wanted), annotations)
    return device


def full(r, s, k, pool, bin_dir):
    k.ok("apply", "-f", "-", stdin=CLAIM % ("b", 1))
    r.check("a second claim is Bound", is_bound(k, "b"), k.json("get", "egpuc", "b")["status"])
    k.ok("apply", "-f", "-", stdin=CLAIM % ("c", 1) + CLAIM % ("two", 2))
    text = f"pool {pool.url} is full: all 2 GPUs are leased"
    reported = until(lambda: bound_condition(k, "c")["reason"] == "NoFit" and text in bound_condition(k, "c")["message"])
    r.check("a full pool is reported on the claim", reported, bound_condition(k, "c"))
    why = subprocess.run([os.path.join(bin_dir, "kubectl-egpu"), "why", "c"], env=k.env, capture_output=True, text=True, timeout=60, check=False).stdout
    r.check("kubectl egpu why names it", text in why, why)
    explained = " ".join(s.http("/explain?claim=c&format=text").split())
    r.check("an explanation names no cards", "class pool provides remote GPUs" in explained and text in explained, explained)
    refused = until(lambda: "a lease is for one GPU, not for 2" in bound_condition(k, "two")["message"])
    r.check("an amount that the pool does not lease is reported", refused, bound_condition(k, "two"))
    k.ok("delete", "egpuc", "b")
    r.check("a lease that ends is given to the claim that waits", is_bound(k, "c"), k.json("get", "egpuc", "c")["status"])


def restart(r, s, pool, device):
    s.kill()
    s.start()
    k = Kubectl(shutil.which("kubectl"), s.kubeconfig, s.work)
    r.check("the claim is Bound after a crash", is_bound(k, "a"), k.json("get", "egpuc", "a")["status"])
    r.check("with the same device", k.json("get", "egpu", device["metadata"]["name"])["spec"]["remote"] == device["spec"]["remote"])
    k.ok("delete", "pod", "p")
    k.ok("delete", "egpuc", "a", "c", "two")
    ended = until(lambda: not pool.keys())
    r.check("deletion ends the leases", ended, pool.keys())
    return k


def by_hand(r, k):
    missing = k.run("apply", "-f", "-", stdin=BY_HAND % "")
    r.check("a device without an address is refused with the line", missing.returncode != 0 and "add the line endpoint: HOST:PORT" in missing.stderr.decode(), missing.stderr)
    k.ok("apply", "-f", "-", stdin=BY_HAND % "endpoint: 10.0.0.9:7000" + BY_NAME)
    r.check("a claim gets a device that an administrator made", is_bound(k, "named"), k.json("get", "egpuc", "named"))


def main(bin_dir):
    r = Report()
    pool = PoolServer()
    data = tempfile.mkdtemp(prefix="egpu-remote-data-")
    s = Standalone(bin_dir, NODES, data=os.path.join(data, "state"))
    try:
        k = Kubectl(shutil.which("kubectl"), s.kubeconfig, s.work)
        device = leases(r, k, pool)
        full(r, s, k, pool, bin_dir)
        k = restart(r, s, pool, device)
        by_hand(r, k)
    finally:
        s.clean()
        pool.clean()
        shutil.rmtree(data, ignore_errors=True)
    return r.close()


sys.exit(main(sys.argv[1]))
