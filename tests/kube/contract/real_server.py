#!/usr/bin/env python3
"""Runs the client's contract tests against a real kube-apiserver that processes few requests at once.

real_server.py TEST_BINARY [ARGUMENTS...]

Returns the binary's exit status, or 77 if there is no Go to build the server with (see tests/cluster/apiserver.py).
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cluster"))
import apiserver  # noqa: E402  (beside this folder, not a package)

# kInFlight of tests/kube/contract/server.h.
LIMITS = ["--enable-priority-and-fairness=false", "--max-requests-inflight=4", "--max-mutating-requests-inflight=4"]


def main(arguments):
    with tempfile.TemporaryDirectory(prefix="egpu-contract-") as folder, apiserver.Cluster(folder, flags=LIMITS) as cluster:
        return subprocess.run(arguments, check=False, preexec_fn=apiserver.die_with_parent, env={
            **os.environ,
            "EGPU_CONTRACT_KUBECONFIG": str(cluster.kubeconfig),
            "EGPU_CONTRACT_ETCD": cluster.etcd_url,
        }).returncode


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(apiserver.guarded(lambda: main(sys.argv[1:])))
