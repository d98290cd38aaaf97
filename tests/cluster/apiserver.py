#!/usr/bin/env python3
"""A real kube-apiserver with its etcd on loopback, for tests.

    apiserver.py run -- COMMAND...   start one in a temporary folder, run COMMAND with
                                     KUBECONFIG set, stop it; COMMAND's exit status
    apiserver.py start DIR           start one that stays, write DIR/kubeconfig
    apiserver.py stop DIR            stop exactly what start started
    apiserver.py build               only build what is missing

Exit status 77: skipped, because the binaries are not built and Go is missing
(a failure instead where EGPU_REQUIRE_CLUSTER is 1). Standard library only.
"""

import base64
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

SKIPPED = 77
READY_WITHIN = 180  # seconds; 4 on an idle machine
HERE = pathlib.Path(__file__).resolve().parent


class Skip(Exception):
    """The cluster can't be built here; says why."""


class Failure(Exception):
    """The cluster did not come up; says why."""


def binaries(*names):
    """The folder that holds the named parts; builds what is missing."""
    done = subprocess.run([HERE / "build.sh", *names], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == SKIPPED:
        why = "Go >= 1.26 is missing, so there is no real kube-apiserver to test against"
        if os.environ.get("EGPU_REQUIRE_CLUSTER") == "1":
            raise Failure(f"{why}, and EGPU_REQUIRE_CLUSTER asks for one")
        raise Skip(why)
    if done.returncode != 0:
        raise Failure("the cluster's parts could not be built")
    return pathlib.Path(done.stdout.splitlines()[-1])


def free_ports(count):
    """Ports that nobody listens on right now; all held until the last is known, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def openssl(*arguments, cwd):
    done = subprocess.run(["openssl", *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"openssl {arguments[0]}: {done.stderr.strip()}")


def make_certificates(folder):
    """ca, apiserver, admin (.crt and .key each) and the service accounts' key pair (sa.key, sa.pub)."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-days", "30", "-subj", "/CN=test-ca", cwd=folder)
    for name, subject, extension in (
        ("apiserver", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth"),
        ("admin", "/O=system:masters/CN=admin", "extendedKeyUsage=clientAuth"),
    ):
        (folder / f"{name}.ext").write_text(extension + "\n")
        openssl("req", "-new", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject, cwd=folder)
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "30", "-extfile", f"{name}.ext", "-out", f"{name}.crt", cwd=folder)
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "sa.key", cwd=folder)
    openssl("pkey", "-in", "sa.key", "-pubout", "-out", "sa.pub", cwd=folder)


def write_kubeconfig(path, url, pki):
    def data(name):
        return base64.b64encode((pki / name).read_bytes()).decode()

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority-data": data("ca.crt")}}],
        "users": [{"name": "admin", "user": {"client-certificate-data": data("admin.crt"),
                                             "client-key-data": data("admin.key")}}],
    }
    path.write_text(json.dumps(config, indent=1) + "\n")  # JSON is YAML
    path.chmod(0o600)


def admin_context(pki):
    """TLS as the administrator, checking the server."""
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    return context


def start_time(pid):
    """When a process was started, in ticks: with its id what tells it from a later one of the same id."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def die_with_parent():
    """In the child: a test killed outright must not leave servers behind (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Cluster:
    """etcd and kube-apiserver in one folder. url and pki say how to reach it."""

    def __init__(self, folder, stays=False):
        self.folder = pathlib.Path(folder).resolve()
        self.pki = self.folder / "pki"
        self.kubeconfig = self.folder / "kubeconfig"
        self.url = ""
        self.stays = stays
        self.children = []

    def _spawn(self, name, command):
        with open(self.folder / f"{name}.log", "wb") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     start_new_session=self.stays, preexec_fn=None if self.stays else die_with_parent)
        self.children.append((name, child))
        started = [{"name": name, "pid": child.pid, "started": start_time(child.pid)} for name, child in self.children]
        (self.folder / "processes.json").write_text(json.dumps(started))

    def _wait_ready(self):
        context = admin_context(self.pki)
        deadline = time.monotonic() + READY_WITHIN
        why = "no answer"
        while time.monotonic() < deadline:
            for name, child in self.children:
                if child.poll() is not None:
                    raise Failure(f"{name} ended with {child.returncode}:\n{self.tail(name)}")
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", context=context, timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError as error:
                why = str(error)
            time.sleep(0.1)
        raise Failure(f"kube-apiserver not ready after {READY_WITHIN} s ({why}):\n{self.tail('kube-apiserver')}")

    def tail(self, name):
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])

    def start(self):
        parts = binaries("etcd", "kube-apiserver")
        self.folder.mkdir(parents=True, exist_ok=True)
        make_certificates(self.pki)
        for attempt in range(3):
            try:
                self._start_once(parts)
                return self
            except Failure:
                # Another process may have taken a port between choosing and listening.
                taken = any("address already in use" in self.tail(name) for name, _ in self.children)
                self.stop()
                if not taken or attempt == 2:
                    raise
            except BaseException:
                self.stop()
                raise
        return self

    def _start_once(self, parts):
        client, peer, secure = free_ports(3)
        etcd = f"http://127.0.0.1:{client}"
        self.url = f"https://127.0.0.1:{secure}"
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)
        self._spawn("etcd", [
            parts / "etcd", f"--data-dir={self.folder}/etcd", "--log-level=warn", "--unsafe-no-fsync",
            f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}"])
        self._spawn("kube-apiserver", [
            parts / "kube-apiserver", f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={secure}",
            f"--tls-cert-file={self.pki}/apiserver.crt", f"--tls-private-key-file={self.pki}/apiserver.key",
            f"--client-ca-file={self.pki}/ca.crt",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.pki}/sa.pub", f"--service-account-signing-key-file={self.pki}/sa.key",
            "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            "--disable-admission-plugins=ServiceAccount"])
        self._wait_ready()
        write_kubeconfig(self.kubeconfig, self.url, self.pki)

    def stop(self):
        for _, child in reversed(self.children):
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.children = []

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def stop_recorded(folder):
    """Stops what an earlier `start` recorded, and nothing that only has one of its ids."""
    record = pathlib.Path(folder) / "processes.json"
    if not record.exists():
        return
    for each in reversed(json.loads(record.read_text())):
        pid, started = each["pid"], each["started"]
        for sent, patience in ((signal.SIGTERM, 20), (signal.SIGKILL, 20)):
            if start_time(pid) != started:
                break
            os.kill(pid, sent)
            deadline = time.monotonic() + patience
            while start_time(pid) == started and not is_zombie(pid) and time.monotonic() < deadline:
                time.sleep(0.05)
            if is_zombie(pid):
                break
    record.unlink()


def is_zombie(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return False


def main(arguments):
    match arguments:
        case ["start", folder]:
            cluster = Cluster(folder, stays=True).start()
            print(f"{cluster.url} is ready; export KUBECONFIG={cluster.kubeconfig}")
        case ["stop", folder]:
            stop_recorded(folder)
        case ["run", "--", _, *_]:
            with tempfile.TemporaryDirectory(prefix="egpu-cluster-") as folder, Cluster(folder) as cluster:
                return subprocess.run(arguments[2:], env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
                                      preexec_fn=die_with_parent, check=False).returncode
        case ["build"]:
            binaries("etcd", "kube-apiserver")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def guarded(function):
    """function()'s exit status, with Skip and Failure turned into one line each."""
    try:
        return function()
    except Skip as skip:
        print(f"SKIPPED: {skip}")
        return SKIPPED
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1


if __name__ == "__main__":
    # A terminated test takes its servers down with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(lambda: main(sys.argv[1:])))
