"""Shared by the real node's scripts: a cluster with the controller, the node with the agent, claims and pods on it."""

import contextlib
import sys

import yaml

import installation
import real_node
from client import CLASSES, GPUS, claims, pods, until

SHARE = "gpushare.provisioner.elasticgpu.io"
GIB = 1 << 30
FILE = yaml.safe_load(real_node.A100.read_text())["devices"]
# Mounts of a container with isolation: hami-core, by their place.
LIMITER = {"/tmp/vgpu": "rw", "/tmp/vgpulock": "rw", "/usr/local/vgpu/libvgpu.so": "ro", "/etc/ld.so.preload": "ro"}
MINORS = {each["uuid"]: each["minor"] for each in FILE}


class Ground:
    """A cluster with the controller, and the real node with the agent."""

    def __init__(self, cluster, node, report):
        self.cluster, self.node, self.report, self.admin = cluster, node, report, node.admin

    def kubectl(self, *arguments):
        return installation.kubectl(self.cluster, *arguments, check=False)

    def claim(self, name, core=10, memory=4, cls="here"):
        self.admin.create(claims(), {
            "apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name},
            "spec": {"egpuClassName": cls, "resources": {"requests": {f"{SHARE}/gpu-core": core, f"{SHARE}/gpu-memory": memory}}}})

    def pod(self, name, wanted, init=None, **spec):
        """Creates a pod. wanted: container → the claims that it names; init: the same map for init containers, which end by themselves."""
        names = sorted({each for several in [*wanted.values(), *(init or {}).values()] for each in several})

        def containers(of, command):
            return [{"name": each, "image": real_node.IMAGE, **({"command": command} if command else {}),
                     "resources": {"claims": [{"name": claim} for claim in of[each]]}} for each in of]

        self.admin.create(pods(), {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": containers(wanted, None),
                     "resourceClaims": [{"name": each, "resourceClaimName": each} for each in names],
                     **({"initContainers": containers(init, ["sh", "-c", "env; find /dev -type c"])} if init else {}), **spec}})

    def runs(self, *names):
        for name in names:
            until(f"pod {name} runs", lambda name=name: self.admin.get(f"{pods()}/{name}")["status"]["phase"] == "Running")

    def printed(self, pod, container):
        return until(f"{pod} has printed", lambda: self.kubectl("logs", pod, "-c", container)).splitlines()

    def got(self, pod, container):
        """Returns (environment, device nodes) as the container printed them."""
        lines = self.printed(pod, container)
        variables = [each for each in lines if each.split("=", 1)[0].isidentifier()]  # a mount's options also contain "="
        return (dict(each.split("=", 1) for each in variables if "=" in each), {each for each in lines if each.startswith("/dev/nvidia")})

    def device(self, claim):
        return self.admin.get(f"{GPUS}/{self.admin.get(f'{claims()}/{claim}')['status']['elasticGPUName']}")

    def put_limiter(self, library=b"a library\n"):
        """Creates the folder that hami-core requires from the operator, as gpushare's README describes, with the operator's files. Returns the folder."""
        folder = f"{real_node.STATE}/hami-core"
        self.node.namespaces.run("install", "-d", "-g", "61184", "-m", "1775", folder)
        for name, content in (("libvgpu.so", library), ("ld.so.preload", b"/usr/local/vgpu/libvgpu.so\n")):
            self.node.namespaces.path(f"{folder}/{name}").write_bytes(content)
        return folder

    def delete(self, *names):
        for name in names:
            self.admin.delete(f"{pods()}/{name}")
        until("the pods are gone", lambda: not set(names) & {each["metadata"]["name"] for each in self.admin.items(pods())})

    def check_promise(self, what, pod, container, *named, isolation="none"):
        """Checks that the container gets the edits that gpushare's README promises for these claims, and no other card."""
        environment, devices = self.got(pod, container)
        cards = [card for claim in named for card in self.device(claim)["spec"]["cards"]]
        uuids = [each["uuid"] for each in cards]
        expected = {"ELASTICGPU_CARDS": ",".join(uuids), "NVIDIA_VISIBLE_DEVICES": ",".join(uuids), "ELASTICGPU_ISOLATION": isolation,
                    "ELASTICGPU_DEVICE": self.device(named[0])["metadata"]["name"], "ELASTICGPU_CLAIM": f"default/{named[0]}"}
        for index, each in enumerate(cards):
            expected |= {f"ELASTICGPU_CORE_{index}": str(each["core"]), f"ELASTICGPU_MEMORY_{index}": str(each["memory"])}
        given = {key: value for key, value in environment.items()
                if key.startswith(("ELASTICGPU_", "NVIDIA_VISIBLE")) and key != "ELASTICGPU_PREPARED_FOR"}  # the agent's own variable
        self.report.check(f"{what}: its environment", given == expected, (given, expected))
        numbered = {each for each in devices if each.removeprefix("/dev/nvidia").isdecimal()}
        self.report.check(f"{what}: its cards and no other", numbered == {f"/dev/nvidia{MINORS[each]}" for each in uuids}, devices)
        self.report.check(f"{what}: the driver's nodes", {"/dev/nvidiactl", "/dev/nvidia-uvm"} <= devices, devices)
        # Fields of /proc/self/mounts: source, place, type, options, 0, 0.
        mounts = {each[1]: each[3][:2] for each in map(str.split, self.printed(pod, container)) if len(each) == 6 and each[1] in LIMITER}
        self.report.check(f"{what}: the limiter's mounts", mounts == (LIMITER if isolation == "hami-core" else {}), mounts)

    def refused(self, what, pod, *words):
        """Checks that the pod starts no container, and that an event of the pod contains the words."""

        def refusals():
            return [each["message"] for each in self.admin.items("/api/v1/namespaces/default/events")
                    if each["involvedObject"].get("name") == pod and all(word in each["message"] for word in words)]

        try:
            until(f"{pod} is refused", refusals, patience=120)
        except AssertionError:
            everything = [each["message"] for each in self.admin.items("/api/v1/namespaces/default/events")
                          if each["involvedObject"].get("name") == pod]
            self.report.check(f"{what}: refused with words", False, everything)
        status = self.admin.get(f"{pods()}/{pod}")["status"]
        self.report.check(f"{what}: no container was started", status["phase"] == "Pending"
                          and not any(each.get("containerID") for each in status.get("containerStatuses", [])), status)


def running_containers(ground):
    return {(each["metadata"]["name"], status["containerID"]): status["restartCount"] for each in ground.admin.items(pods())
            for status in each["status"].get("containerStatuses", []) if "running" in status["state"]}


def check_away(ground):
    """After all objects are deleted, the node is as it was before."""
    ground.admin.delete_all(pods())
    ground.admin.delete_all(claims())
    until("nothing is prepared any more", lambda: not ground.node.prepared())
    until("all claims are gone", lambda: not ground.admin.items(claims()))
    left = [str(each) for each in (ground.node.folder / "run" / "cdi").iterdir()]
    ground.report.check("no file of ours is left", not [each for each in left if "elasticgpu" in each], left)


def prepare_cluster(cluster, node, bin_dir, *arguments):
    """Prepares the controller, agent and classes. arguments: the agent's."""
    admin = node.admin
    node.start_agent(bin_dir, *arguments)
    installation.start_controller(cluster, bin_dir)
    for name, parameters in (("here", {"model": "A100-SXM4-80GB"}), ("there", {"model": "H100-SXM5-80GB"}),
                             ("limited", {"model": "A100-SXM4-80GB", "isolation": "hami-core"})):
        admin.create(CLASSES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClass", "metadata": {"name": name},
                               "provisioner": SHARE, "egpuBindingMode": "Immediate", "reclaimPolicy": "Delete",
                               "parameters": parameters})


@contextlib.contextmanager
def logs_if_it_fails(cluster):
    """If the body fails, prints the last log lines of the controller and of all processes of the node to stderr."""
    try:
        yield
    except BaseException:
        for name in cluster.processes.children:
            if name == "controller" or name.startswith(real_node.NAME):
                print(f"{name}:\n{cluster.processes.tail(name, 30)}", file=sys.stderr)
        raise
