#!/usr/bin/env python3
"""Runs tests of a World against a real kube-apiserver.

real_server.py TEST_BINARY [ARGUMENTS...]

Returns the binary's exit status, or 77 if there is no Go to build the server with (see tests/cluster/apiserver.py).
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
import apiserver  # noqa: E402  (beside this folder, not a package)
import installation  # noqa: E402

# Lists come from etcd, so that a test reads its own writes without waiting for a cache. Only the test sets nodes ready, and pods have the numeric priority that
# the test gives them.
FLAGS = ["--watch-cache=false", "--disable-admission-plugins=ServiceAccount,Priority,TaintNodesByCondition,DefaultTolerationSeconds"]


def main(arguments):
    with tempfile.TemporaryDirectory(prefix="egpu-world-") as folder, apiserver.Cluster(folder, flags=FLAGS) as cluster:
        installation.kubectl(cluster, "apply", "-k", installation.MANIFESTS / "crd")
        installation.kubectl(cluster, "wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")
        return subprocess.run(arguments, check=False, preexec_fn=apiserver.die_with_parent,
                              env={**os.environ, "EGPU_WORLD_KUBECONFIG": str(cluster.kubeconfig)}).returncode


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(apiserver.guarded(lambda: main(sys.argv[1:])))
