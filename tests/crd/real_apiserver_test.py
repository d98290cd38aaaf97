#!/usr/bin/env python3
"""Proves that a real kube-apiserver answers cases.yaml, the samples and a race for a card as expected.

real_apiserver_test.py                 starts a server
real_apiserver_test.py --server URL    uses a server that already serves the CRDs, on plain HTTP

Prints every failure and "N passed, N failed"; exit status 1 if any failed, 77 if there is no Go to build the server with (see tests/cluster/apiserver.py).
"""

import concurrent.futures
import copy
import http.client
import json
import pathlib
import re
import signal
import sys
import tempfile
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "cluster"))
import apiserver  # noqa: E402  (beside this folder, not a package)

try:
    import yaml
except ImportError:
    yaml = None

MERGE_PATCH = "application/merge-patch+json"
PLURALS = {"ElasticGPU": "elasticgpus", "ElasticGPUClaim": "elasticgpuclaims", "ElasticGPUClaimTemplate": "elasticgpuclaimtemplates",
           "ElasticGPUClass": "elasticgpuclasses", "ElasticGPUQuota": "elasticgpuquotas"}


class Client:
    """One connection to the API server, as its administrator. Not thread-safe."""

    def __init__(self, url, pki=None):
        self.url = urllib.parse.urlsplit(url)
        self.pki = pki
        self.connection = None

    def another(self):
        return Client(self.url.geturl(), self.pki)

    def call(self, method, path, body=None, content_type="application/json"):
        """Sends a request. Returns (HTTP status, parsed answer)."""
        if self.connection is None:
            if self.url.scheme == "https":
                context = apiserver.admin_context(self.pki)
                self.connection = http.client.HTTPSConnection(self.url.netloc, context=context, timeout=60)
            else:
                self.connection = http.client.HTTPConnection(self.url.netloc, timeout=60)
        self.connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": content_type})
        answer = self.connection.getresponse()
        text = answer.read().decode()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, {"message": text}


def merge(target, patch):
    """Applies a merge patch by RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def collection(obj):
    namespace = obj["metadata"].get("namespace")
    middle = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{obj['apiVersion']}{middle}/{PLURALS[obj['kind']]}"


def path_of(obj):
    return f"{collection(obj)}/{obj['metadata']['name']}"


def complaints(answer):
    """Returns the [(field, message)] of a refusal."""
    found = [(cause.get("field", ""), cause.get("message", "")) for cause in answer.get("details", {}).get("causes", [])]
    # Only the message names unknown fields.
    found += [(field, answer["message"]) for field in re.findall(r'unknown field \\?"([^"\\]+)', answer.get("message", ""))]
    return found


def segments(field):
    """Unifies field names: CEL writes requests[a/b], the schema requests.a/b."""
    return field.replace("[", ".").replace("]", "")


def meets(answer, expected):
    want = segments(expected["field"])
    return any((segments(field) + ".").startswith(want + ".") and expected.get("contains", "") in message
               for field, message in complaints(answer))


class Table:
    """Runs cases one by one."""

    def __init__(self, client, bases):
        self.client = client
        self.bases = bases

    def must(self, method, path, body, content_type="application/json"):
        status, answer = self.client.call(method, path, body, content_type)
        if status >= 300:
            raise AssertionError(f"could not be set up: {method} {path}: {status} {answer.get('message')}")
        return answer

    def verdict(self, case, how, status, answer):
        """Returns the error in an answer, or ""."""
        answered = f"{how}: {status} {answer.get('message', '')}"
        if case.get("accept"):
            return "" if status < 300 else f"should be accepted; {answered}"
        if status < 300:
            return f"should be refused; {how}: {status}"
        if status not in (400, 422):
            return f"should be refused as invalid; {answered}"
        return "" if meets(answer, case["reject"]) else f"should be refused at {case['reject']}; {answered}"

    def run(self, case):
        """Runs the case and returns what went wrong, or ""."""
        base = self.bases[case["base"]]
        if case["operation"] != "create":
            # kubectl apply patches, kubectl replace puts.
            return self.change(case, base, "PATCH") or self.change(case, base, "PUT")
        obj = merge(base, case.get("change", {}))
        status, answer = self.client.call("POST", collection(obj) + "?fieldValidation=Strict", obj)
        wrong = self.verdict(case, "POST", status, answer)
        if status < 300:
            self.must("DELETE", path_of(answer), None)
        return wrong

    def change(self, case, base, method):
        obj = merge(base, case.get("start", {}))
        path = path_of(obj)
        target = path + ("/status" if case["operation"] == "status" else "") + "?fieldValidation=Strict"
        self.must("POST", collection(obj), obj)
        try:
            for patch in case.get("history", []):
                self.must("PATCH", path + ("/status" if "status" in patch else ""), patch, MERGE_PATCH)
            if method == "PATCH":
                status, answer = self.client.call(method, target, case["change"], MERGE_PATCH)
                if case.get("stage") == "schema":  # the server's message differs from that for a whole object
                    return "" if status in (400, 422) else f"should be refused; {method}: {status}"
            else:
                status, answer = self.client.call(method, target, merge(self.must("GET", path, None), case["change"]))
            return self.verdict(case, method, status, answer)
        finally:
            # Removes finalizers of the case, which would block the deletion.
            self.must("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)
            self.must("DELETE", path, None)


def install_crds(client):
    """Installs the CRDs of manifests/crd and waits until they are served."""
    names = []
    for file in sorted((ROOT / "manifests" / "crd").glob("elasticgpu.io_*.yaml")):
        crd = yaml.safe_load(file.read_text())
        status, answer = client.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldValidation=Strict", crd)
        if status != 201:
            raise apiserver.Failure(f"{file.name} is refused: {answer.get('message')}")
        names.append(crd["metadata"]["name"])
    deadline = time.monotonic() + 60
    for name in names:
        while True:
            _, crd = client.call("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
            conditions = {c["type"]: c for c in crd.get("status", {}).get("conditions", [])}
            if conditions.get("NonStructuralSchema", {}).get("status") == "True":
                raise apiserver.Failure(f"{name}: {conditions['NonStructuralSchema']['message']}")
            plural = name.split(".", maxsplit=1)[0]
            served = all(client.call("GET", f"/apis/elasticgpu.io/{version}/{plural}")[0] == 200
                         for version in ("v1alpha", "v1alpha1"))
            if served and conditions.get("Established", {}).get("status") == "True":
                break
            if time.monotonic() > deadline:
                raise apiserver.Failure(f"{name} is not served: {crd.get('status')}")
            time.sleep(0.1)
    while client.call("GET", "/api/v1/namespaces/default")[0] != 200 and time.monotonic() < deadline:
        time.sleep(0.1)


def samples(client):
    """The server accepts every sample of the project's group unchanged, in the namespaces that its file creates. Returns [what went wrong]."""
    wrong, seen = [], 0
    for file in sorted((ROOT / "manifests" / "samples").rglob("*.yaml")):
        for obj in yaml.safe_load_all(file.read_text()):
            if isinstance(obj, dict) and obj.get("kind") == "Namespace":
                client.call("POST", "/api/v1/namespaces", obj)
            if not isinstance(obj, dict) or not str(obj.get("apiVersion", "")).startswith("elasticgpu.io/"):
                continue
            seen += 1
            if obj["kind"] == "ElasticGPUClaim":
                obj["metadata"].setdefault("namespace", "default")
            status, answer = client.call("POST", collection(obj) + "?fieldValidation=Strict", obj)
            if status != 201:
                wrong.append(f"{file.name}: {obj['metadata']['name']}: {answer.get('message')}")
    return wrong if seen else ["no samples found"]


def race(client, base, writers=40, capacity=9):
    """Concurrent writers compete for a card with capacity for fewer of them: exactly that many succeed. Returns [what went wrong]."""
    filled = 1000 - capacity * 100
    change = {"spec": {"allocations": {"uid-1": {"core": filled, "memory": 0}, "uid-2": None}}}
    status, card = client.call("POST", collection(base), merge(base, change))
    if status != 201:
        return [f"card: {card.get('message')}"]

    def write(number):
        entry = {"device": f"egpu-r{number}", "claim": f"default/r{number}", "core": 100}
        own = client.another()
        for _ in range(100):
            status, _ = own.call("PATCH", path_of(card), {"spec": {"allocations": {f"race-{number}": entry}}}, MERGE_PATCH)
            if status not in (409, 429, 500, 503, 504):  # these statuses do not depend on the ledger: try again
                return status
        return status

    with concurrent.futures.ThreadPoolExecutor(writers) as pool:
        answers = list(pool.map(write, range(writers)))
    _, after = client.call("GET", path_of(card))
    entries = after["spec"]["allocations"]
    charged = sum(entry["core"] for entry in entries.values())
    wrong = []
    if answers.count(200) != capacity or answers.count(422) != writers - capacity:
        wrong.append(f"{answers.count(200)} accepted, {answers.count(422)} refused of {writers}; room for {capacity}")
    if charged != 1000 or len(entries) != capacity + 1:
        wrong.append(f"{len(entries)} entries charge {charged} milli-cards afterwards")
    return wrong


def report(outcomes):
    """Prints [(name, what went wrong)] and the totals. Returns the exit status."""
    failed = [(name, wrong) for name, wrong in outcomes if wrong]
    for name, wrong in failed:
        print(f"FAILED {name}: {wrong}")
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def run_all(client, table):
    """Runs all checks. Returns [(name, what went wrong or nothing)]."""
    outcomes = []
    runner = Table(client, table["bases"])
    for case in table["cases"]:
        try:
            outcomes.append((case["name"], runner.run(case)))
        except AssertionError as error:
            outcomes.append((case["name"], str(error)))
    outcomes.append(("samples", "; ".join(samples(client))))
    outcomes.append(("40 writers, room for 9", "; ".join(race(client, table["bases"]["card"]))))
    return outcomes


def main(arguments):
    if yaml is None:
        raise apiserver.Failure("python3-yaml is missing (apt-get install python3-yaml)")
    table = yaml.safe_load((HERE / "cases.yaml").read_text())
    if arguments:
        option, url = arguments
        assert option == "--server", __doc__
        return report(run_all(Client(url), table))
    with tempfile.TemporaryDirectory(prefix="egpu-crd-") as folder, apiserver.Cluster(folder) as cluster:
        client = Client(cluster.url, cluster.pki)
        install_crds(client)
        return report(run_all(client, table))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(apiserver.guarded(lambda: main(sys.argv[1:])))
