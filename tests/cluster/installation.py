"""Installation of Elastic GPU on a test cluster: the manifests applied with kubectl, the controller started under its own account."""

import os
import pathlib
import subprocess
import time

import parts
from client import Client, Refused, until
from pki import Failure, admin_context, write_kubeconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MANIFESTS = ROOT / "manifests"
VERSION = os.environ.get("EGPU_KUBERNETES")  # an older Kubernetes, in the format of build.sh; None: the newest
# The installed manifests. An overlay lacks the policy that turns annotations into resourceClaims: there pods write them.
PODS_WRITE_CLAIMS = bool(VERSION) and (MANIFESTS / "overlays" / VERSION).is_dir()
INSTALLED = MANIFESTS / "overlays" / VERSION if PODS_WRITE_CLAIMS else MANIFESTS
SAMPLE_PODS = MANIFESTS / "samples" / (f"seed-pods-{VERSION}.yaml" if PODS_WRITE_CLAIMS else "seed-pods.yaml")
NAMESPACE = "elastic-gpu-system"
ACCOUNT = "elastic-gpu-controller"
CONTROLLER = "elastic-gpu-controller"
TOKEN_SECONDS = 30 * 24 * 3600  # for `make cluster`, which may stay up


def client_of(cluster):
    return Client(cluster.url, admin_context(cluster.pki))


def kubectl(cluster, *arguments, check=True):
    """Runs the first kubectl in PATH, of any version; for a kustomization that names folders, one that can read it. Returns its standard output, and with
    check=False also the error output of a failed command (`kubectl exec` writes client warnings there even when it succeeds)."""
    program = "kubectl" if "-k" not in arguments or MANIFESTS in arguments else parts.kubectl_for_folders()
    done = subprocess.run([program, "--kubeconfig", str(cluster.kubeconfig), f"--cache-dir={cluster.folder}/kubectl-cache",
                           *map(str, arguments)], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise Failure(f"kubectl {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout + (done.stderr if done.returncode else "")


def apply_manifests(cluster, what=("-k", INSTALLED)):
    """Applies the manifests and waits until the API server enforces them. Scales the Deployment to 0, because simulated nodes would only report its pods as
    running."""
    output = kubectl(cluster, "apply", *what)
    kubectl(cluster, "-n", NAMESPACE, "scale", "deployment", CONTROLLER, "--replicas=0")
    admin = client_of(cluster)
    kubectl(cluster, "wait", "--for=condition=Established", "--timeout=120s", "crd", "elasticgpus.elasticgpu.io",
            "elasticgpuclaims.elasticgpu.io", "elasticgpuclaimtemplates.elasticgpu.io", "elasticgpuclasses.elasticgpu.io", "elasticgpuquotas.elasticgpu.io")
    until("the policies are in force", lambda: are_policies_in_force(admin))
    return output


def are_policies_in_force(admin):
    """Policies take effect some time after their creation, in the order of their names; these dry runs detect that."""
    annotated = {"annotations": {"egpuc.elasticgpu.io/Not.A.Label": "c"}}
    return _refuses(admin, annotated, {}, "DNS label") and _refuses(admin, {}, {"limits": {"elasticgpu.io/gpu": "1"}}, "requested here")


def _refuses(admin, metadata, resources, words):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-", **metadata},
           "spec": {"containers": [{"name": "c", "image": "none", "resources": resources}]}}
    try:
        admin.create("/api/v1/namespaces/default/pods?dryRun=All", pod)
    except Refused as refused:
        return refused.status == 422 and words in refused.body.get("message", "")
    return False


def run_help(bin_dir):
    """Returns the binary's help text for its flags."""
    return subprocess.run([pathlib.Path(bin_dir) / CONTROLLER, "run", "--help"], capture_output=True, text=True, check=True).stdout


def controller_kubeconfig(cluster):
    """Returns a kubeconfig with only the identity of the controller's service account."""
    token = client_of(cluster).token_for(NAMESPACE, ACCOUNT, expirationSeconds=TOKEN_SECONDS)
    path = cluster.folder / "controller.kubeconfig"
    write_kubeconfig(path, cluster.url, cluster.pki, ACCOUNT, token)
    return path


def start_controller(cluster, bin_dir, name="controller", arguments=(), patience=120):
    """Starts the binary against the cluster, with only the rights of its service account. Blocks until it publishes its operations address and returns it."""
    address = cluster.folder / f"{name}.address"
    address.unlink(missing_ok=True)
    cluster.processes.start(name, [
        pathlib.Path(bin_dir) / CONTROLLER, "run", f"--kubeconfig={controller_kubeconfig(cluster)}",
        "--ops-listen=127.0.0.1:0", f"--write-ops-address={address}", *arguments])
    deadline = time.monotonic() + patience
    while not (address.exists() and address.read_text()):
        if cluster.processes.children[name].poll() is not None or time.monotonic() > deadline:
            raise Failure(f"the controller did not come up:\n{cluster.processes.tail(name)}")
        time.sleep(0.05)
    return address.read_text().strip()
