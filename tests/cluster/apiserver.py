#!/usr/bin/env python3
"""A real Kubernetes on loopback, for tests: kube-apiserver and its etcd, or more of its parts.

apiserver.py run -- COMMAND...   start an API server in a temporary folder, run COMMAND
                                 with KUBECONFIG set, stop it; COMMAND's exit status
apiserver.py start DIR           start a server that keeps running, write DIR/kubeconfig
apiserver.py stop DIR            stop exactly the processes that start started
apiserver.py build [PART...]     only build what is missing (default: for the API server)

Exit status 77: skipped, because the binaries are not built and Go is missing
(a failure instead where EGPU_REQUIRE_CLUSTER is 1). Standard library only.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import parts
from parts import API_SERVER, SKIPPED, Skip, binaries, free_ports  # noqa: F401  (tests import these from here)
from pki import Failure, admin_context, issue, make_certificates, write_kubeconfig  # noqa: F401
from processes import Processes, die_with_parent, is_zombie, start_time, stop_recorded  # noqa: F401

READY_WITHIN = 600  # seconds; 4 on an idle machine, minutes on a machine that compiles meanwhile

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:elastic-gpu-system"]
- level: None
"""


class Cluster:
    """A Kubernetes in one folder. url, pki and kubeconfig give access as its administrator.

    wanted: names of parts, API_SERVER or more. stays: the cluster outlives this process. audit: audit.log in the folder records every request of the project's
    service accounts. features: feature gates of the API server, as its flag takes them; flags: more of its flags. client_features: feature gates of scheduler
    and controller manager.
    kwok_stages: the file of parts.stages(). fsync: etcd syncs its writes to the disk, for performance tests. Parts can be stopped, killed, paused and restarted
    by name (processes); they keep their ports and data. Not thread-safe."""

    def __init__(self, folder, stays=False, wanted=API_SERVER, audit=False, features="", flags=(), fsync=False, kwok_stages=None, client_features=""):
        self.folder = pathlib.Path(folder).resolve()
        self.pki = self.folder / "pki"
        self.kubeconfig = self.folder / "kubeconfig"
        self.audit_log = self.folder / "audit.log"
        self.url = ""
        self.etcd_url = ""
        self.wanted = wanted
        self.audit = audit
        self.features = features
        self.flags = flags
        self.client_features = client_features
        self.fsync = fsync
        self.kwok_stages = kwok_stages
        self.processes = Processes(self.folder, stays)
        self.binaries = None

    def start(self):
        """Blocks until the API server is ready. On failure raises the reason and leaves no process running."""
        self.binaries = binaries(*self.wanted)
        self.folder.mkdir(parents=True, exist_ok=True)
        make_certificates(self.pki)
        try:
            self._start_api_server()
            write_kubeconfig(self.kubeconfig, self.url, self.pki)
            for name in self.wanted:
                if name not in API_SERVER:
                    self._start_client(name)
            if "kube-controller-manager" in self.wanted:
                # Pods can be created only after the namespace has its service account.
                self.wait_for(f"{self.url}/api/v1/namespaces/default/serviceaccounts/default")
        except BaseException:
            self.stop()
            raise
        return self

    def _start_api_server(self):
        for attempt in range(3):
            try:
                return self._start_api_server_once()
            except Failure:
                # Another process may take a port between its choice and the listen.
                taken = any("address already in use" in self.processes.tail(name) for name in self.processes.children)
                self.processes.stop_all()
                if not taken or attempt == 2:
                    raise
        return None

    def _start_api_server_once(self):
        client, peer, secure = free_ports(3)
        self.etcd_url, self.url = f"http://127.0.0.1:{client}", f"https://127.0.0.1:{secure}"
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)
        for log in self.folder.glob("*.log"):
            log.unlink()
        audit = None
        if self.audit:
            (self.folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
            audit = (self.folder / "audit-policy.yaml", self.audit_log)
        self.processes.start("etcd", parts.etcd(self.binaries / "etcd", self.folder / "etcd", client, peer, self.fsync))
        self.processes.start("kube-apiserver", parts.kube_apiserver(
            self.binaries / "kube-apiserver", self.pki, self.etcd_url, secure,
            service_accounts="kube-controller-manager" in self.wanted, audit=audit, features=self.features) + list(self.flags))
        self.wait_ready()

    def _start_client(self, name):
        """Starts a part that is a client of the API server, with a certificate and a kubeconfig of its own."""
        issue(self.pki, name, parts.SUBJECTS[name])
        kubeconfig = self.folder / f"{name}.kubeconfig"
        write_kubeconfig(kubeconfig, self.url, self.pki, name)
        binary = self.binaries / name
        self.processes.start(name, {
            "kube-controller-manager": lambda: parts.kube_controller_manager(binary, kubeconfig, self.pki, self.client_features),
            "kube-scheduler": lambda: parts.kube_scheduler(binary, kubeconfig, self.client_features),
            "kwok": lambda: parts.kwok(binary, kubeconfig, self.kwok_stages),
        }[name]())

    def wait_ready(self):
        """Blocks until the API server reports that it is ready, after a start or a restart."""
        self.wait_for(f"{self.url}/readyz")

    def wait_for(self, url):
        """Blocks until the URL answers with 200."""
        context = admin_context(self.pki)
        deadline = time.monotonic() + READY_WITHIN
        why = "no answer"
        while time.monotonic() < deadline:
            if name := self.processes.ended():
                raise Failure(f"{name} ended with {self.processes.children[name].returncode}:\n{self.processes.tail(name)}")
            try:
                with urllib.request.urlopen(url, context=context, timeout=30):
                    return
            except OSError as error:
                why = str(error)
            time.sleep(0.1)
        raise Failure(f"{url} not there after {READY_WITHIN} s ({why}):\n{self.processes.tail('kube-apiserver')}")

    def stop(self):
        self.processes.stop_all()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


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
        case ["build", *names]:
            binaries(*(names or API_SERVER))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def guarded(function):
    """Runs function() and returns its exit status. Skip and Failure are printed in one line each."""
    try:
        return function()
    except Skip as skip:
        print(f"SKIPPED: {skip}")
        return SKIPPED
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1


if __name__ == "__main__":
    # A terminated test stops its servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(lambda: main(sys.argv[1:])))
