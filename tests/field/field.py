"""Fixtures of the tests that try public reports: builders of classes, claims, pods and quotas, and a World that applies and reads them."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "e2e"))
from standalone import Kubectl, Report, Standalone, until  # noqa: E402

API = "elasticgpu.io/v1alpha"
GI = 1 << 30
# The two classes that most tests need, by their binding mode. `World` creates both.
CLASSES = {"share": "Immediate", "wait": "WaitForFirstConsumer"}
TIMEOUT = 60
# API paths of the kinds that tests read.
PATHS = {"egpu": f"apis/{API}/elasticgpus", "egpuclass": f"apis/{API}/elasticgpuclasses", "egpuc": f"apis/{API}/namespaces/%s/elasticgpuclaims",
         "egpuquota": f"apis/{API}/namespaces/%s/elasticgpuquotas", "pod": "api/v1/namespaces/%s/pods", "events": "api/v1/namespaces/%s/events",
         "resourceclaim": "apis/resource.k8s.io/v1/namespaces/%s/resourceclaims", "lease": "apis/coordination.k8s.io/v1/namespaces/%s/leases",
         "node": "api/v1/nodes"}


def egpu_class(name, mode="Immediate", provisioner="gpushare", **parameters):
    return {"apiVersion": API, "kind": "ElasticGPUClass", "metadata": {"name": name}, "provisioner": f"{provisioner}.provisioner.elasticgpu.io",
            "egpuBindingMode": mode, "parameters": {key: str(value) for key, value in parameters.items()}}


def requests(**amounts):
    """Converts the keywords gpu, core, memory and tflops to the requests of a claim."""
    keys = {"core": "gpu-core", "memory": "gpu-memory"}
    return {f"elasticgpu.io/{keys.get(key, key)}": value for key, value in amounts.items()}


def claim(name, class_name="share", namespace="default", annotations=None, spec=None, **amounts):
    body = dict({"egpuClassName": class_name}, **(spec or {}))
    if amounts:
        body["resources"] = {"requests": requests(**amounts)}
    return {"apiVersion": API, "kind": "ElasticGPUClaim", "spec": body,
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}}}


def template(name, class_name="share", namespace="default", spec=None, **amounts):
    made = claim(name, class_name, namespace, spec=spec, **amounts)
    return {"apiVersion": API, "kind": "ElasticGPUClaimTemplate", "metadata": {"name": name, "namespace": namespace}, "spec": {"spec": made["spec"]}}


def pod(name, namespace="default", annotations=None, containers=("main",), **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
            "spec": dict({"containers": [{"name": each, "image": "cuda"} for each in containers]}, **spec)}


def pod_of(claim_name, name=None, namespace="default", annotations=None, **spec):
    """A pod that names an existing claim; both have one name unless `name` is given."""
    return pod(name or claim_name, namespace, dict({"egpuc.elasticgpu.io/gpu": claim_name}, **(annotations or {})), **spec)


def pod_with(name, class_name="share", namespace="default", annotations=None, spec=None, **amounts):
    """A pod with its amounts as annotations, for which a claim is created."""
    keys = {"core": "gpu-core", "memory": "gpu-memory"}
    wanted = {f"egpu.elasticgpu.io/{keys.get(key, key)}": str(value) for key, value in amounts.items()}
    return pod(name, namespace, dict({"egpu.elasticgpu.io/class": class_name}, **wanted, **(annotations or {})), **(spec or {}))


def quota(name, hard, namespace="default", **spec):
    return {"apiVersion": API, "kind": "ElasticGPUQuota", "metadata": {"name": name, "namespace": namespace}, "spec": dict({"hard": hard}, **spec)}


def namespace(name, labels=None):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}


def priority_class(name, value, **fields):
    return dict({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}, **fields)


def gang(name, size, topology=None):
    """Annotations of the members of a gang."""
    made = {"elasticgpu.io/gang": name, "elasticgpu.io/gang-size": str(size)}
    return dict(made, **{"elasticgpu.io/gang-topology": topology}) if topology else made


class World:
    """A standalone controller with kubectl, the classes of CLASSES, and a report of checks."""

    def __init__(self, bin_dir, nodes, data=None, extra=()):
        self.report = Report()
        self.server = Standalone(bin_dir, nodes, data=data, extra=extra)
        self.kubectl = Kubectl("kubectl", self.server.kubeconfig, self.server.work)
        self.apply(*(egpu_class(name, mode) for name, mode in CLASSES.items()))

    def close(self):
        """Stops the controller and returns the exit status of the test."""
        if self.report.failed:
            self.server.dump_log()
        self.server.clean()
        return self.report.close()

    def restart(self):
        """Kills the controller and starts it again on the same data."""
        self.server.kill()
        self.server.start()
        self.kubectl.env["KUBECONFIG"] = self.server.kubeconfig

    def write(self, verb, *objects):
        return self.kubectl.run(verb, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def apply(self, *objects):
        done = self.write("apply", *objects)
        if done.returncode != 0:
            raise AssertionError(f"kubectl apply: {done.stderr.decode()[:2000]}")

    def refusal(self, *objects):
        """Returns the error text of objects that are refused, or ""."""
        done = self.write("apply", *objects)
        return done.stderr.decode() if done.returncode != 0 else ""

    def delete(self, kind, *names, namespace="default", flags=()):
        self.kubectl.ok("delete", kind, *names, "-n", namespace, *flags)

    def address(self):
        """Returns the URL of the API server; each process has another port."""
        with open(self.server.kubeconfig, encoding="utf-8") as file:
            return next(line.split()[1] for line in file if line.strip().startswith("server:"))

    def read(self, path):
        """Returns an object or list of the API server, or {}. Reads without kubectl, whose start would dominate the time."""
        try:
            with urllib.request.urlopen(f"{self.address()}/{path}", timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return {}

    def patch_status(self, path, status):
        """Merges into the status of the object at the path and returns the HTTP status. Debian's kubectl has no --subresource."""
        request = urllib.request.Request(f"{self.address()}/{path}/status", json.dumps({"status": status}).encode(), method="PATCH",
                                         headers={"Content-Type": "application/merge-patch+json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def items(self, kind, namespace="default", labels=""):
        path = PATHS[kind]
        return self.read((path % namespace if "%s" in path else path) + (f"?labelSelector={labels}" if labels else "")).get("items", [])

    def list(self, kind, *flags):
        """Returns the objects of a kind in the namespace `default`, or as kubectl's flags select them."""
        return self.kubectl.json("get", kind, *flags)["items"] if flags or kind not in PATHS else self.items(kind)

    def get(self, kind, name, namespace="default"):
        """Returns the object, or {} if it does not exist."""
        if kind in PATHS:
            path = PATHS[kind]
            return self.read(f"{path % namespace if '%s' in path else path}/{name}")
        found = self.kubectl.run("get", kind, name, "-n", namespace, "-o", "json")
        return json.loads(found.stdout) if found.returncode == 0 else {}

    def condition(self, name, kind="Bound", namespace="default"):
        """Returns a condition of a claim, or {}."""
        conditions = self.get("egpuc", name, namespace).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def reason(self, name, namespace="default"):
        return self.get("egpuc", name, namespace).get("status", {}).get("reason", "")

    def message(self, name, namespace="default"):
        return self.get("egpuc", name, namespace).get("status", {}).get("message", "")

    def phase(self, name, namespace="default"):
        return self.get("egpuc", name, namespace).get("status", {}).get("phase", "")

    def pod_phase(self, name, namespace="default"):
        return self.get("pod", name, namespace).get("status", {}).get("phase", "")

    def claim_of(self, pod_name, namespace="default"):
        """Returns the name of the first claim created for the pod, or ""."""
        made = self.get("pod", pod_name, namespace).get("status", {}).get("resourceClaimStatuses") or [{}]
        return made[0].get("resourceClaimName", "")

    def awaited_claim_of(self, pod_name, namespace="default"):
        """Waits for the claim created for the pod and returns its name."""
        return self.awaited(lambda: self.claim_of(pod_name, namespace), bool)

    def claims(self, namespace="default"):
        """Phase, reason and message of each claim of a namespace, by name."""
        status = {each["metadata"]["name"]: each.get("status", {}) for each in self.items("egpuc", namespace)}
        return {name: (each.get("phase", ""), each.get("reason", ""), each.get("message", "")) for name, each in status.items()}

    def cards(self):
        """The card objects by name."""
        return {each["metadata"]["name"]: each for each in self.items("egpu", labels="elasticgpu.io/role=card")}

    def ledger(self):
        """Returns (card, namespace/claim, core in milli-cards, memory in bytes) of each entry, sorted."""
        return sorted((name, entry["claim"], entry.get("core", 0), entry.get("memory", 0))
                      for name, card in self.cards().items() for entry in (card["spec"].get("allocations") or {}).values())

    def cards_of(self, name, namespace="default"):
        """Returns the names of the cards on which a claim has entries."""
        return [card for card, holder, _, _ in self.ledger() if holder == f"{namespace}/{name}"]

    def overfull(self):
        """Returns the cards whose entries exceed the card's capacity."""
        return [name for name, card in self.cards().items() for key in ("core", "memory")
                if sum(entry.get(key, 0) for entry in (card["spec"].get("allocations") or {}).values()) > card["spec"]["card"][key]]

    def used(self, quota_name, namespace="default"):
        return self.get("egpuquota", quota_name, namespace).get("status", {}).get("used", {})

    def check(self, name, condition, detail=""):
        self.report.check(name, condition, detail)

    @staticmethod
    def awaited(read, accepts):
        """Returns the first value of `read()` that is accepted, or the last one."""
        seen = []

        def accepted():
            seen[:] = [read()]
            return accepts(seen[0])

        until(accepted, TIMEOUT)
        return seen[0]

    def equals(self, name, read, wanted):
        """Checks that `read()` becomes `wanted`."""
        value = self.awaited(read, lambda seen: seen == wanted)
        self.check(name, value == wanted, f"{value} instead of {wanted}")

    def contains(self, name, read, *parts):
        """Checks that the text of `read()` finally contains all parts."""
        value = self.awaited(read, lambda seen: all(part in seen for part in parts))
        self.check(name, all(part in value for part in parts), f"{value!r} lacks one of {parts}")

    def runs(self, *pods, namespace="default"):
        """Checks that all these pods finally run."""
        def others():
            phases = {each["metadata"]["name"]: each.get("status", {}).get("phase") for each in self.items("pod", namespace)}
            return {name: phases.get(name) for name in pods if phases.get(name) != "Running"}
        self.equals(f"{', '.join(pods)} run" + ("s" if len(pods) == 1 else ""), others, {})

    def empty(self, name):
        """Checks that all entries are gone, and that the controller found no drift of a ledger."""
        self.equals(name, self.ledger, [])
        drift = [line for line in self.server.http("/metrics").splitlines() if line.startswith("elasticgpu_ledger_drift_total{")]
        self.check(f"{name}: no drift", not drift, drift)


class Agent:
    """The node agent with the fake NVML, for a Node that the controller simulates without cards. It has no kubelet: it publishes its cards, and the
    simulated kubelet runs the pods. tests/nvml/README.md describes the format of `devices`."""

    def __init__(self, world, node, devices):
        self.world, self.node, self.devices, self.process = world, node, devices, None
        self.folder = tempfile.mkdtemp(prefix="egpu-agent-")
        os.chmod(self.folder, 0o755)  # plugins run as separate users
        self.write()
        self.start()

    def write(self):
        """Writes the hardware of `devices` for the driver and the kernel."""
        path = os.path.join(self.folder, "nvml.yaml")
        text = json.dumps({"driver": "535.104.05", "cuda": 12020, "devices": self.devices})
        with open(path, "r+" if os.path.exists(path) else "w", encoding="utf-8") as file:
            file.write(text)  # in place, because a plugin's sandbox keeps the opened file
            file.truncate()
        gpus = os.path.join(self.folder, "proc", "driver", "nvidia", "gpus")
        shutil.rmtree(gpus, ignore_errors=True)
        for device in self.devices:
            os.makedirs(os.path.join(gpus, device["pci"]))
            with open(os.path.join(gpus, device["pci"], "information"), "w", encoding="utf-8") as file:
                file.write(f"Model: \t {device['name']}\nGPU UUID: \t {device['uuid']}\nBus Location: \t {device['pci']}\n"
                           f"Device Minor: \t {device['minor']}\n")

    def start(self):
        server = self.world.server
        library = os.path.join(os.path.dirname(server.bin), "lib", "nvml")
        if not os.path.exists(os.path.join(library, "libnvidia-ml.so.1")):
            raise AssertionError(f"{library} has no libnvidia-ml.so.1: build the target fake_nvml")
        environment = dict(os.environ, LD_LIBRARY_PATH=library, ELASTICGPU_FAKE_NVML=os.path.join(self.folder, "nvml.yaml"),
                           ELASTICGPU_SYSTEM_ROOT=self.folder)
        command = [os.path.join(server.bin, "elastic-gpu-agent"), f"--node-name={self.node}", f"--kubeconfig={server.kubeconfig}",
                   f"--kubelet-dir={self.folder}/kubelet", f"--cdi-root={self.folder}/cdi", f"--plugin-state={self.folder}/state", "--probation=1s",
                   "--ops-listen=127.0.0.1:0", "--probes-listen=127.0.0.1:0"]
        os.makedirs(f"{self.folder}/kubelet", exist_ok=True)
        os.makedirs(f"{self.folder}/state", exist_ok=True)
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        """Kills the agent and starts it with the hardware of `devices`."""
        self.kill()
        self.write()
        self.start()

    def wake(self):
        """Changes all cards of the node, so that the agent evaluates their conditions immediately."""
        names = list(self.world.cards())
        if names:
            self.world.kubectl.ok("annotate", "egpu", *names, "--overwrite", f"field.test/woken={os.urandom(4).hex()}")

    def healthy(self, card):
        """Returns (status, reason) of the condition Healthy of a card, as the agent reports it next."""
        self.wake()
        conditions = self.world.get("egpu", card).get("status", {}).get("conditions", [])
        return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "Healthy"), ("", ""))

    def close(self):
        self.kill()
        if self.world.report.failed:
            with open(os.path.join(self.folder, "log"), "rb") as file:
                sys.stderr.write(file.read()[-8000:].decode("utf-8", "replace"))
        shutil.rmtree(self.folder, ignore_errors=True)


def a100(index, **fields):
    """A card for Agent. Its object is called gpu-a<index>."""
    return dict({"uuid": f"GPU-a{index}", "name": "NVIDIA A100-SXM4-80GB", "minor": index, "pci": f"0000:{index + 1:02x}:00.0", "numa": 0,
                 "path": [f"pci0000:{index:02x}"], "memory": 80 * GI, "reserved": 0, "cores": 6912, "clock": 1410, "compute": [8, 0]}, **fields)


def main(nodes, *parts, retain_data=False, extra=()):
    """Runs the parts, functions of a World, in order, and returns the exit status. BIN_DIR comes from the command line. `retain_data` gives the controller a
    folder, so that `restart` finds the objects again."""
    with tempfile.TemporaryDirectory(prefix="egpu-field-") as folder:
        world = World(sys.argv[1], nodes, data=os.path.join(folder, "data") if retain_data else None, extra=extra)
        try:
            for part in parts:
                part(world)
        except BaseException:
            world.report.failed += 1
            raise
        finally:
            status = world.close()
    return status
