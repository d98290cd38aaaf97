#!/usr/bin/env python3
"""Proves that apiserver.py starts a server that answers, stops exactly that server, and leaves no process behind."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import apiserver

TOOL = pathlib.Path(apiserver.__file__)
failures = []


def check(what, holds):
    if not holds:
        failures.append(what)
        print(f"FAILED {what}")


def tool(*arguments, **options):
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False, **options)


def alive(record):
    return [each["name"] for each in record
            if apiserver.start_time(each["pid"]) == each["started"] and not apiserver.is_zombie(each["pid"])]


def gone_soon(record):
    """Waits until the processes end, at most a minute: signals take effect with a delay."""
    deadline = time.monotonic() + 60
    while alive(record) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(record)


def start_and_stop(folder):
    first, second = folder / "first", folder / "second"
    for each in (first, second):
        done = tool("start", str(each))
        check(f"start {each.name}: {done.stdout}{done.stderr}", done.returncode == 0)
    record = json.loads((first / "processes.json").read_text())
    other = json.loads((second / "processes.json").read_text())
    check("two servers run beside each other", len(alive(record)) == 2 and len(alive(other)) == 2)
    check("the kubeconfig is the owner's alone", (first / "kubeconfig").stat().st_mode & 0o077 == 0)
    config = json.loads((first / "kubeconfig").read_text())
    check("the server is on loopback", config["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:"))

    check("stop", tool("stop", str(first)).returncode == 0)
    check("stop stopped the first", not alive(record))
    check("stop left the second alone", len(alive(other)) == 2)
    check("stop again does nothing", tool("stop", str(first)).returncode == 0)

    # A record with process ids that now belong to other processes.
    stale = [{**each, "started": each["started"] - 1} for each in other]
    (first / "processes.json").write_text(json.dumps(stale))
    tool("stop", str(first))
    check("stop takes no later process of the same id", len(alive(other)) == 2)
    tool("stop", str(second))
    check("nothing runs any more", not alive(other))


def run_passes_on(folder):
    script = 'test -s "$KUBECONFIG" && cat "$KUBECONFIG" && exit 7'
    done = tool("run", "--", "sh", "-c", script, env={**os.environ, "TMPDIR": str(folder)})
    check(f"run ends with the command's status, got {done.returncode}: {done.stderr}", done.returncode == 7)
    check("run sets KUBECONFIG", '"server"' in done.stdout)
    check("run leaves no folder", not list(folder.glob("egpu-cluster-*")))


def killed_outright(folder):
    with subprocess.Popen([sys.executable, TOOL, "run", "--", "sh", "-c", "echo up; exec sleep 1000"],
                          stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)}) as child:
        check("the command runs", child.stdout.readline() == "up\n")
        record = json.loads(next(folder.glob("egpu-cluster-*/processes.json")).read_text())
        check("both servers run", len(alive(record)) == 2)
        child.send_signal(signal.SIGKILL)
        child.wait()
    check("a killed test takes its servers with it", gone_soon(record))


def killed_and_restarted(folder):
    with apiserver.Cluster(folder / "one") as cluster:
        address = f"{cluster.url}/api/v1/namespaces/kept"
        body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}).encode()
        make = urllib.request.Request(f"{cluster.url}/api/v1/namespaces", body, {"Content-Type": "application/json"})
        context = apiserver.admin_context(cluster.pki)
        with urllib.request.urlopen(make, context=context):
            pass
        for name in ("kube-apiserver", "etcd"):
            cluster.processes.kill(name)
        for name in ("etcd", "kube-apiserver"):
            cluster.processes.restart(name)
        cluster.wait_ready()
        with urllib.request.urlopen(address, context=context) as answer:
            check("both killed, the server answers where it did, with what it had", answer.status == 200)


def without_go(folder):
    """With an older Go nothing is built, and the test is skipped with that reason, or fails where a cluster is required."""
    (folder / "go").write_text("#!/bin/sh\necho go1.20.1\n")
    (folder / "go").chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "EGPU_CLUSTER_CACHE": str(folder / "cache")}
    for required, status, word in (("0", apiserver.SKIPPED, "SKIPPED"), ("1", 1, "FAILED")):
        done = tool("build", env={**env, "EGPU_REQUIRE_CLUSTER": required})
        check(f"required {required}: {done.returncode}, {done.stdout}{done.stderr}",
              done.returncode == status and done.stdout.startswith(f"{word}: Go >= 1.26 is missing") and "go1.20.1" in done.stderr)
    script = [pathlib.Path(TOOL).parent / "build.sh", "no-such-part"]
    done = subprocess.run(script, capture_output=True, text=True, check=False, env=env)
    check("an unknown part is named", done.returncode == 1 and "unknown part: no-such-part" in done.stderr)


def main():
    apiserver.binaries("etcd", "kube-apiserver")
    with tempfile.TemporaryDirectory(prefix="egpu-lifecycle-") as folder:
        for part in (start_and_stop, run_passes_on, killed_outright, killed_and_restarted, without_go):
            own = pathlib.Path(folder) / part.__name__
            own.mkdir()
            part(own)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(apiserver.guarded(main))
