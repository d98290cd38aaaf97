"""The parts of a cluster: where each part's binary comes from, and the command that starts it."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess

from pki import Failure

SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent

API_SERVER = ("etcd", "kube-apiserver")
# With these, pods become Running: the stock scheduler places them, kwok plays the kubelets.
WHOLE = (*API_SERVER, "kube-controller-manager", "kube-scheduler", "kwok")
# The identity of each part to the API server. kwok acts for any node.
SUBJECTS = {"kube-controller-manager": "/CN=system:kube-controller-manager", "kube-scheduler": "/CN=system:kube-scheduler",
            "kwok": "/O=system:masters/CN=kwok"}
SIMULATED = "elasticgpu.io/simulated"  # the label of simulated nodes and cards


class Skip(Exception):
    """The cluster can't be built here; the message is the reason."""


def binaries(*names, version=None):
    """Returns the folder of the named parts; builds what is missing. version: overrides EGPU_KUBERNETES, in the same format; "": the newest."""
    environment = {**os.environ, **({"EGPU_KUBERNETES": version} if version is not None else {})}
    done = subprocess.run([HERE / "build.sh", *names], stdout=subprocess.PIPE, text=True, check=False, env=environment)
    if done.returncode == SKIPPED:
        why = f"Go >= 1.26 is missing, so {', '.join(names)} cannot be built to test against"
        if os.environ.get("EGPU_REQUIRE_CLUSTER") == "1":
            raise Failure(f"{why}, and EGPU_REQUIRE_CLUSTER asks for one")
        raise Skip(why)
    if done.returncode != 0:
        raise Failure("the cluster's parts could not be built")
    return pathlib.Path(done.stdout.splitlines()[-1])


def kubectl_for_folders():
    """Returns a kubectl that reads kustomizations which name folders: that of the machine if it is 1.21 or later, else one that is built."""
    if shutil.which("kubectl"):
        done = subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
        if int(re.match(r"\d+", json.loads(done.stdout)["clientVersion"]["minor"]).group()) >= 21:
            return "kubectl"
    return binaries("kubectl", version="") / "kubectl"


def free_ports(count):
    """Returns distinct ports without listeners. All are bound until the last one is known."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def etcd(binary, data, client_port, peer_port, fsync=False):
    url = f"http://127.0.0.1:{client_port}"
    return [binary, f"--data-dir={data}", "--log-level=warn", *([] if fsync else ["--unsafe-no-fsync"]),
            f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}"]


def kube_apiserver(binary, pki, etcd_url, port, service_accounts, audit=None, features=""):
    """service_accounts: whether the controller manager creates the service accounts that admission then requires. audit: (policy file, log file)."""
    return [binary, f"--etcd-servers={etcd_url}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={port}", f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            f"--client-ca-file={pki}/ca.crt", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
            "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            # For kubectl logs and exec on a real node.
            "--kubelet-preferred-address-types=InternalIP", f"--kubelet-client-certificate={pki}/admin.crt",
            f"--kubelet-client-key={pki}/admin.key",
            # Off by default, on in some distributions; it requires an additional right.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            *([f"--feature-gates={features}"] if features else []),
            *([] if service_accounts else ["--disable-admission-plugins=ServiceAccount"]),
            *([f"--audit-policy-file={audit[0]}", f"--audit-log-path={audit[1]}", "--audit-log-maxsize=2000"] if audit else [])]


def kube_controller_manager(binary, kubeconfig, pki, features=""):
    # Limits above the defaults, so that five hundred pods do not wait for the controller manager.
    return [binary, f"--kubeconfig={kubeconfig}", "--use-service-account-credentials", "--leader-elect=false", "--secure-port=0",
            "--kube-api-qps=300", "--kube-api-burst=600", f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={pki}/ca.crt",
            # A slow machine must not look like failed nodes.
            "--node-monitor-grace-period=300s", *([f"--feature-gates={features}"] if features else [])]


def kube_scheduler(binary, kubeconfig, features=""):
    return [binary, f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0", "--kube-api-qps=300",
            "--kube-api-burst=600", *([f"--feature-gates={features}"] if features else [])]


def stages(folder, without):
    """Writes kwok's stages for nodes and pods, except the named ones, to a file in the folder."""
    every = (binaries("kwok") / "kwok-stages.yaml").read_text().split("\n---\n")
    remaining = [each for each in every if not any(f"\n  name: {name}\n" in each for name in without)]
    assert len(remaining) == len(every) - len(without), without
    path = folder / "kwok-stages.yaml"
    path.write_text("\n---\n".join(remaining))
    return path


def kwok(binary, kubeconfig, config=None):
    """config: a file of stages(); without it kwok uses all stages."""
    return [binary, f"--kubeconfig={kubeconfig}", f"--config={config or binary.parent / 'kwok-stages.yaml'}",
            f"--manage-nodes-with-label-selector={SIMULATED}=true", "--enable-crds=",
            "--node-lease-duration-seconds=240"]
