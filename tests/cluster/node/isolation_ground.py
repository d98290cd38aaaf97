"""Shared by the isolation tests: the node's hardware with the fake driver of tests/gpu, claims and pods with its program, and the check of their cards and limits."""

import json
import shutil

import yaml

import installation
import real_node
from client import CLASSES, claims, pods
from ground import SHARE

IMAGE = "localhost/gpu-client:1"
CLIENT = "/bin/container_client"
DRIVER_ROOT = "/run/nvidia/driver"  # on the node
LIBRARIES = f"{DRIVER_ROOT}/usr/lib/x86_64-linux-gnu"
MIG_NODE = real_node.A100.with_name("a100-mig.yaml")
MIG_PLACE, PLAIN_CARDS = 3, 4  # place of the card in MIG mode, and number of the others
MPS = installation.ROOT / "tests" / "gpu" / "mps"
MIB = 1 << 20
OUT_OF_MEMORY = 2
CAPS_MAJOR = 196  # not used by the kernel
CAPABILITIES = "/run/mig-minors"  # on the node and in containers
INSTANCES = f"{real_node.STATE}/fake-instances"  # where plugins may write
PROFILE = "1g.5gb"
# Calls before which a GPU instance has no compute instance. They take longer, so that kills come there.
HALF_MADE, HALF_MADE_MS = ("nvmlGpuInstanceCreateComputeInstance", "nvmlGpuInstanceDestroy"), 300
SMS = 108  # of an A100
# guide/isolation.md: status.isolation by the value of the class parameter.
PROMISED = {
    "none": {"mode": "none", "memory": "None", "compute": "None", "faults": "Soft"},
    "limiter": {"mode": "limiter", "memory": "Soft", "compute": "Soft", "faults": "Soft"},
    "mps": {"mode": "mps", "memory": "Soft", "managedMemory": "None", "compute": "Soft", "faults": "None"},
    "hami-core": {"mode": "hami-core", "memory": "Soft", "compute": "Soft", "faults": "Soft"},
}
WHOLE = {"mode": "whole-card", "memory": "Enforced", "compute": "Enforced", "faults": "Enforced"}
MIG = WHOLE | {"mode": "mig"}


def machine():
    """Returns the node's hardware: four A100, and one in MIG mode."""
    plain, mig = (yaml.safe_load(each.read_text()) for each in (real_node.A100, MIG_NODE))
    cards = [plain["each"] | each for each in plain["devices"]]
    cards[MIG_PLACE] |= mig["each"] | {"mig": 1}
    cards.append(cards[0] | {"uuid": "GPU-a1000000-0000-4000-8000-000000000004", "minor": 4, "pci": "0000:e1:00.0"})
    # The driver has memory limits, so that only the machine's cgroups are an obstacle to the mode driver.
    return {"driver": plain["driver"], "cuda": plain["cuda"], "deviceNodes": True, "capabilities": CAPABILITIES,
            "memoryLimits": "dmem", "devices": cards, "slow": dict.fromkeys(HALF_MADE, HALF_MADE_MS)}


def minors_of_capabilities(cards):
    """Returns the lines of /proc/driver/nvidia-caps/mig-minors."""
    names = ["config", "monitor"]
    for card in cards:
        for instance in range(15):
            names += [f"gpu{card['minor']}/gi{instance}/access", *(f"gpu{card['minor']}/gi{instance}/ci{each}/access" for each in range(8))]
    return "".join(f"{name} {minor}\n" for minor, name in enumerate(names, 1))


def install_driver(node, bin_dir):
    """Installs the fake driver in a driver root of the node, and the kernel's files of the driver."""
    hardware = machine()
    node.cards = node.folder / "machine.yaml"
    node.cards.write_text(yaml.safe_dump(hardware))
    (node.folder / "run" / "mig-minors").write_text(minors_of_capabilities(hardware["devices"]))
    node.namespaces.run("sh", "-ec", f"mkdir -p {LIBRARIES} {DRIVER_ROOT}/usr/bin; touch {INSTANCES}; chmod 666 {INSTANCES}; ln -s {INSTANCES} /run/nvml.yaml.mig")
    for name, folder in (("libcuda", "gpu"), ("libnvidia-ml", "nvml")):
        file = f"{name}.so.{hardware['driver']}"
        node.namespaces.run("cp", bin_dir.parent / "lib" / folder / f"{name}.so.1", f"{LIBRARIES}/{file}")
        node.namespaces.run("ln", "-s", file, f"{LIBRARIES}/{name}.so.1")
    for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
        node.namespaces.run("ln", "-s", MPS / name, f"{DRIVER_ROOT}/usr/bin/{name}")
    node.namespaces.run("ln", "-s", shutil.which("sleep"), f"{DRIVER_ROOT}/usr/bin/nvidia-cuda-mps-server")
    node.namespaces.run("sh", "-ec", "mount -t tmpfs tmpfs /proc/driver; mkdir /proc/driver/nvidia-caps; "
                        f"cp {CAPABILITIES} /proc/driver/nvidia-caps/; cat /proc/devices > /run/devices; "
                        f"sed -i '/^Character/a {CAPS_MAJOR} nvidia-caps' /run/devices; mount --bind /run/devices /proc/devices")


def make_class(admin, name, provisioner, parameters):
    admin.create(CLASSES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": name}, "provisioner": provisioner,
                           "egpuBindingMode": "Immediate", "reclaimPolicy": "Delete", "parameters": parameters})


class Tenant:
    """Creates claims and pods, and asks the program in their containers."""

    def __init__(self, ground):
        self.ground, self.admin = ground, ground.admin

    def claim(self, name, cls, requests):
        self.admin.create(claims(), {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name},
                                     "spec": {"egpuClassName": cls, "resources": {"requests": requests}}})

    def share(self, name, cls, core=10, memory=4, prefix=SHARE):
        self.claim(name, cls, {f"{prefix}/gpu-core": core, f"{prefix}/gpu-memory": memory})

    def instance(self, name):
        """Creates a claim of a MIG instance."""
        self.claim(name, "mig", {f"elasticgpu.io/mig-{PROFILE}": 1})

    def pod(self, name, claim):
        """Creates a pod that uses the claim. The files of the fake driver take the place of the kernel's driver."""
        files = {"node": ("/run/nvml.yaml",) * 2, "instances": (INSTANCES, "/run/nvml.yaml.mig"), "capabilities": (CAPABILITIES,) * 2}
        self.admin.create(pods(), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "card", "resourceClaimName": claim}],
            "volumes": [{"name": each, "hostPath": {"path": path, "type": "File"}} for each, (path, _) in files.items()],
            "containers": [{"name": "main", "image": IMAGE, "resources": {"claims": [{"name": "card"}]},
                            "env": [{"name": "ELASTICGPU_FAKE_NVML", "value": files["node"][1]}],
                            "volumeMounts": [{"name": each, "mountPath": path} for each, (_, path) in files.items()]}]}})

    def remove(self, name):
        """Deletes the pod and the claim of that name."""
        self.ground.delete(name)
        self.admin.delete(f"{claims()}/{name}")

    def seen(self, pod, *before):
        """Returns the output of the program. before: words of the command before it."""
        text = self.ground.kubectl("exec", pod, "--", *before, CLIENT)
        try:
            return json.loads(text)
        except ValueError as error:
            raise AssertionError(f"the program in {pod} failed: {text}") from error

    def isolation(self, claim):
        return self.admin.get(f"{claims()}/{claim}")["status"].get("isolation")

    def bound(self, claim):
        """Returns the condition Bound of the claim; {} = it has none."""
        conditions = self.admin.get(f"{claims()}/{claim}").get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == "Bound"), {})


def plain(uuid):
    """Returns a uuid as the CUDA driver does: without its prefix and hyphens."""
    return uuid.split("-", 1)[1].replace("-", "")


def check_reports(tenant, what, claim, promised):
    """Checks that claim and device report these levels. Returns the device."""
    device, status = tenant.ground.device(claim), tenant.isolation(claim)
    tenant.ground.report.check(f"{what}: the claim reports what is promised", status == promised, (status, promised))
    tenant.ground.report.check(f"{what}: its device reports the same", device["status"].get("isolation") == status, device["status"])
    return device


def check_mode(tenant, what, pod, claim, promised):
    """Checks that the container sees its card and no other, and gets as much memory as status.isolation and the amounts of the claim say."""
    ground, report = tenant.ground, tenant.ground.report
    card, seen = check_reports(tenant, what, claim, promised)["spec"]["cards"][0], tenant.seen(pod)
    environment, _ = ground.got(pod, "main")
    hardware = next(each for each in machine()["devices"] if each["uuid"] == card["uuid"])
    told = {key: environment.get(key) for key in ("ELASTICGPU_ISOLATION", "ELASTICGPU_CORE_0", "ELASTICGPU_MEMORY_0", "ELASTICGPU_CARDS")}
    amounts = {} if promised == MIG else {"ELASTICGPU_CORE_0": str(card["core"]), "ELASTICGPU_MEMORY_0": str(card["memory"])}
    expected = dict.fromkeys(told) | {"ELASTICGPU_ISOLATION": promised["mode"], "ELASTICGPU_CARDS": card["uuid"]} | amounts
    report.check(f"{what}: the container is told the same", told == expected, (told, expected))
    report.check(f"{what}: NVML shows its card and no other", [each["uuid"] for each in seen["nvml"]] == [card["uuid"]], seen)
    if promised != MIG:
        report.check(f"{what}: so does CUDA", [each["uuid"] for each in seen["cuda"]] == [plain(card["uuid"])], seen)
    got, mode = seen["cuda"][0], promised["mode"]
    limit = hardware["memory"] if promised["memory"] == "None" or mode == "whole-card" else card["memory"]
    report.check(f"{what}: its memory ends at the limit", got["filled"] == limit, (got, limit))
    report.check(f"{what}: with OUT_OF_MEMORY", got["refusal"] == OUT_OF_MEMORY, got)
    if mode in ("limiter", "mig"):
        totals = {got["total"], got["free"], (seen["mig"] or seen["nvml"])[0]["total"]}
        report.check(f"{what}: CUDA and NVML report the limit as the memory of the card", totals == {card["memory"]}, seen)
    report.check(f"{what}: the limiter limits compute to the amount of the claim", seen["cores"] == ([card["core"]] if mode == "limiter" else []), seen)
    if mode == "mps":
        report.check(f"{what}: the SMs are those of the amount of the claim", got["sms"] == SMS * card["core"] // 1000, got)
    elif mode != "mig":
        report.check(f"{what}: all SMs of the card", got["sms"] == SMS, got)
    return seen
