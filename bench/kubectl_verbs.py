"""Measures `kubectl egpu` on the embedded API server: `why` and `map` at many claims, `bundle` at 1,000.  kubectl_verbs.py BIN_DIR [CLAIMS]

Prints a table of medians. `why` is run for claims and pods in the middle of the list."""
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "tests", "e2e"))
from standalone import Kubectl, Standalone, until  # noqa: E402

PER_CARD = 10
CLASS = '{"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": "share"}, "provisioner": "gpushare.provisioner.elasticgpu.io"}'


def nodes(claims):
    cards = -(-claims // PER_CARD)
    return f"nodes:\n- name: n\n  count: {-(-cards // 8)}\n  gpus: [{{model: T4, count: 8, memory: 16Gi}}]\n"


def post(server, path, body):
    request = urllib.request.Request(server + path, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=60) as r:
        r.read()


def fill(server, claims):
    def make(i):
        post(server, "/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaims", {
            "apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": f"c-{i:05d}"},
            "spec": {"egpuClassName": "share", "resources": {"requests": {"elasticgpu.io/gpu-core": 10}}}})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(claims)))
    post(server, "/api/v1/namespaces/default/pods", {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user", "annotations": {"egpuc.elasticgpu.io/g": f"c-{claims // 2:05d}"}},
        "spec": {"containers": [{"name": "m", "image": "x"}]}})


def median(kubectl, args, times):
    taken = []
    for _ in range(times):
        begin = time.monotonic()
        done = kubectl.run("egpu", *args)
        taken.append(time.monotonic() - begin)
        if done.returncode not in (0, 3):
            raise SystemExit(f"kubectl egpu {' '.join(args)}: {done.stderr.decode()}")
    return statistics.median(taken)


def measure(bin_dir, claims, verbs):
    s = Standalone(bin_dir, nodes(claims))
    try:
        kubectl = Kubectl("kubectl", s.kubeconfig, s.work)
        kubectl.env["PATH"] = os.path.realpath(bin_dir) + os.pathsep + kubectl.env["PATH"]
        kubectl.ok("apply", "-f", "-", stdin=CLASS)
        fill(kubectl.ok("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}").strip(), claims)
        bound = until(lambda: s.http("/metrics").count(f'elasticgpu_claims{{phase="Bound"}} {claims}\n'), 900, 1)
        if not bound or not until(lambda: kubectl.json("get", "pod", "user")["status"]["phase"] == "Running"):
            raise SystemExit("the claims are not all bound")
        for name, args, times in verbs(claims, s.work):
            print(f"{claims:>7,} claims   {name:<14} {median(kubectl, args, times) * 1000:8.0f} ms", flush=True)
    finally:
        s.clean()


def asked(claims, _):
    middle = f"c-{claims // 2:05d}"
    return [("why CLAIM", ["why", f"claim/{middle}"], 9), ("why POD", ["why", "user"], 9), ("top CLAIM", ["top", middle], 5), ("map", ["map"], 3)]


def bundled(_, work):
    return [("bundle", ["bundle", "--file", os.path.join(work, "bundle.tar.gz")], 3), ("check", ["check"], 3)]


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000, asked)
    measure(sys.argv[1], 1_000, bundled)
