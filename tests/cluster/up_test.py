#!/usr/bin/env python3
"""What `make cluster` and `make cluster-down` run: it comes up as it says, and ends with nothing left.  up_test.py BIN_DIR"""

import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import parts
import processes
from apiserver import guarded
from client import Report

TOOL = pathlib.Path(__file__).resolve().parent / "cluster.py"


def tool(*arguments):
    return subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True, check=False)


def of_folder(folder):
    """Command lines of processes that name the folder, whoever recorded them."""
    found = []
    for each in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def check_up(folder, bin_dir, report):
    done = tool("up", folder, bin_dir, 1, 2)
    if not report.check("up", done.returncode == 0, done.stdout + done.stderr):
        return
    report.check("all parts run", set(processes.running(folder)) == {*parts.WHOLE, "controller"}, processes.running(folder))
    kubeconfig = re.search(r"export KUBECONFIG=(\S+)", done.stdout).group(1)
    shown = subprocess.run(["kubectl", "--kubeconfig", kubeconfig, "get", "nodes,egpu", "-o", "name"], capture_output=True, text=True,
                           check=False)
    report.check("the kubeconfig that it names shows the nodes and cards",
                 shown.stdout.split() == ["node/gpu-0", "elasticgpu.elasticgpu.io/gpu-gpu-0-0", "elasticgpu.elasticgpu.io/gpu-gpu-0-1"],
                 shown.stdout + shown.stderr)
    listed = re.search(r"(\S+/elastic-gpu-controller map --server \S+)", done.stdout).group(1).split()
    shown = subprocess.run(listed, capture_output=True, text=True, check=False)
    report.check("the map that it names shows the node", "gpu-0" in shown.stdout, shown.stdout + shown.stderr)
    again = tool("up", folder, bin_dir)
    report.check("a second one says that one runs", again.returncode == 1 and "still run; make cluster-down" in again.stdout, again.stdout)


def main():
    parts.binaries(*parts.WHOLE)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-up-") as name:
        folder = pathlib.Path(name).resolve() / "cluster"
        other = folder / "other"
        other.mkdir(parents=True)
        refused = tool("up", folder, sys.argv[1])
        report.check("a folder with other things in it is left alone", refused.returncode == 1 and other.exists(), refused.stdout)
        other.rmdir()
        try:
            check_up(folder, sys.argv[1], report)
        finally:
            done = tool("down", folder)
        report.check("down says what it ended", "controller" in done.stdout and "etcd" in done.stdout, done.stdout)
        report.check("nothing runs any more", not of_folder(folder), of_folder(folder))
        done = tool("down", folder)
        report.check("down again does nothing", done.returncode == 0 and "nothing runs" in done.stdout, done.stdout)
    return report.close()


if __name__ == "__main__":
    # What it starts is made to outlive its starter: end it also when this is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(main))
