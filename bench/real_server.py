#!/usr/bin/env python3
"""Benchmarks against a real kube-apiserver, each beside its lower bound in the same run.

real_server.py BIN_DIR [--claims N] [--rounds N] [--pairs N] [--only NAME...]

bind     claims bound per second ÷ the same writes sent raw; alternating, each on a server and an etcd of its own
latency  create → Bound, one claim at a time ÷ its writes one after the other
start    a cold start with many claims and devices: time ÷ raw parallel lists, own CPU, resident memory

etcd syncs to the disk. Exit status 77 where Go is missing.
"""

import argparse
import base64
import http.client
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
import apiserver  # noqa: E402  (not a package)
import installation  # noqa: E402
from client import GPUS, claims  # noqa: E402
from nodes import NODE_LABEL  # noqa: E402

PREFIX = "/registry/elasticgpu.io/"
DEVICES_EACH = 8  # on one card, the only one of its node
BATCH = 100  # operations in one transaction; etcd allows 128


class Server:
    """A new API server with the project's CRDs."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="egpu-bench-")
        self.cluster = apiserver.Cluster(self.folder.name, fsync=True).start()
        installation.kubectl(self.cluster, "apply", "-k", installation.MANIFESTS / "crd")
        installation.kubectl(self.cluster, "wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")
        return self

    def __exit__(self, *_):
        self.cluster.stop()
        self.folder.cleanup()

    def measure(self, options, *arguments):
        done = subprocess.run([options.bin_dir / "real_bench", self.cluster.kubeconfig, *map(str, arguments)], check=True,
                              stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout.splitlines()[-1])

    def settle(self, options):
        """Waits until the API server's caches include the objects written directly to etcd, and warms them for all compared runs."""
        for attempt in range(20):
            try:
                return self.measure(options, "list")
            except subprocess.CalledProcessError:
                if attempt == 19:
                    raise
                time.sleep(3)
        return None


def spread(values):
    return f"{statistics.median(values):.2f} (from {min(values):.2f} to {max(values):.2f})"


def bind(options):
    rates, used = {"bind": [], "raw": []}, {}
    for _ in range(options.rounds):
        for what, found in rates.items():
            with Server() as server:
                used[what] = server.measure(options, what, options.claims)
                found.append(used[what]["claims_per_s"])
    ratios = [a / b for a, b in zip(rates["bind"], rates["raw"])]
    print(f"bind: {spread(rates['bind'])} claims/s, the same writes raw {spread(rates['raw'])}; ratio {spread(ratios)}; "
          f"{options.claims} claims, {options.rounds} rounds")
    for what, last in used.items():
        counts = ", ".join(f"{times / options.claims:.3f} {name}" for name, times in sorted(last["requests"].items())
                           if times >= options.claims / 1000)
        print(f"  {what}: {last['cpu_us_per_claim']:.0f} us own CPU per claim; requests per claim: {counts}")


def latency(options):
    with Server() as server:
        found = server.measure(options, "latency", max(50, options.claims // 10))
    print(f"latency: create to Bound {found['bound_ms']:.1f} ms, its writes one after the other {found['writes_ms']:.1f} ms; "
          f"ratio {found['bound_ms'] / found['writes_ms']:.2f} (of the shortest {found['bound_min_ms'] / found['writes_min_ms']:.2f})")


class Etcd:
    """Writes objects to etcd in the API server's format: hundreds of thousands in a minute."""

    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=120)
        self.waiting = []

    def put(self, kind, key, body):
        self.waiting.append({"request_put": {"key": self._text(f"{PREFIX}{kind}/{key}"), "value": self._text(json.dumps(body))}})
        if len(self.waiting) == BATCH:
            self.flush()

    def flush(self):
        self.connection.request("POST", "/v3/kv/txn", json.dumps({"success": self.waiting}))
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(text)
        self.waiting = []

    @staticmethod
    def _text(value):
        return base64.b64encode(value.encode()).decode()


def stored(item, **metadata):
    made = json.loads(json.dumps(item))
    made["metadata"].pop("resourceVersion")
    made["metadata"].update(metadata)
    return made


def fill(server, options):
    """Copies one bound claim with its device and card; each copy has its own names, uids and node."""
    server.measure(options, "bind", 1)
    client = installation.client_of(server.cluster)
    claim = client.items(claims())[0]
    gpus = client.items(GPUS)
    device = next(each for each in gpus if "card" not in each["spec"])
    card = next(each for each in gpus if "card" in each["spec"])
    entry = {"core": device["spec"]["cards"][0]["chargedCore"], "memory": device["spec"]["cards"][0]["chargedMemory"]}
    etcd = Etcd(server.cluster.etcd_url)
    ledger = {}
    for number in range(options.pairs):
        uid, device_uid, name = str(uuid.uuid4()), str(uuid.uuid4()), f"claim-{number}"
        place = number // DEVICES_EACH
        device_name, card_name, node = f"egpu-{uid}", f"gpu-filled-{place}", f"node-filled-{place}"
        bound = stored(claim, name=name, uid=uid)
        bound["spec"]["elasticGPUName"] = bound["status"]["elasticGPUName"] = device_name
        bound["status"]["nodeName"] = node
        etcd.put("elasticgpuclaims", f"default/{name}", bound)
        made = stored(device, name=device_name, uid=device_uid)
        made["spec"]["claimRef"].update(name=name, uid=uid)
        made["spec"]["cards"][0]["name"] = card_name
        made["spec"]["nodeName"] = made["metadata"]["labels"][NODE_LABEL] = node
        made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] = [node]
        etcd.put("elasticgpus", device_name, made)
        ledger[device_uid] = {"device": device_name, "claim": f"default/{name}", **entry}
        if len(ledger) == DEVICES_EACH:
            holder = stored(card, name=card_name, uid=str(uuid.uuid4()))
            holder["spec"]["allocations"] = ledger
            holder["spec"]["card"].update(uuid=card_name.upper(), nodeName=node)
            holder["metadata"].setdefault("labels", {})[NODE_LABEL] = node
            etcd.put("elasticgpus", card_name, holder)
            ledger = {}
    if etcd.waiting:
        etcd.flush()


def start(options):
    with Server() as server:
        fill(server, options)
        server.settle(options)
        lists, starts = [], []
        for _ in range(max(3, options.rounds)):
            lists.append(server.measure(options, "list"))
            starts.append(server.measure(options, "start"))
    ratios = [a["seconds"] / b["seconds"] for a, b in zip(starts, lists)]
    last = starts[-1]
    objects = last["claims"] + last["gpus"]
    print(f"start: {spread([each['seconds'] for each in starts])} s to mirror {last['claims']} claims and {last['gpus']} devices and cards, "
          f"raw parallel lists {spread([each['seconds'] for each in lists])} s ({lists[-1]['megabytes']} MB); ratio {spread(ratios)}")
    cpu = min(each["cpu_s"] for each in starts)
    print(f"  own CPU {cpu:.2f} s: {objects / cpu:.0f} objects a second and core, off the wire into indexed state; "
          f"{last['resident_bytes'] / max(1, last['claims']):.0f} resident bytes per claim with its device and its share of a card")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=["bind", "latency", "start"], default=["bind", "latency", "start"])
    parser.add_argument("--claims", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=20000, help="claims with a device each, for start")
    options = parser.parse_args()
    options.bin_dir = options.bin_dir.resolve()
    known = {"bind": bind, "latency": latency, "start": start}
    for name in options.only:
        known[name](options)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(apiserver.guarded(main))
