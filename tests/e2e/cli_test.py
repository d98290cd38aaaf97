"""What a user meets on the command line: flags, the nodes file, files and ports in use, the map.  cli_test.py BIN_DIR"""
import json
import os
import re
import subprocess
import sys
import tempfile

from standalone import Report, Standalone

NODES = """
nodes:
- name: n
  count: 2
  gpus: [{model: T4, count: 2, memory: 16Gi}]
"""
ANY = ["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]


def refused(r, binary, name, args, expected, status=None):
    """The command ends by itself, not with 0, and the last thing on standard error has the text and is no log line."""
    got = subprocess.run([binary, *args], capture_output=True, timeout=60, check=False)
    err = got.stderr.decode("utf-8", "replace")
    last = err[err.rfind("error: "):] if "error: " in err else ""
    right = got.returncode == status if status is not None else got.returncode in (1, 2)
    r.check(name, right and all(e in last for e in expected), (got.returncode, err[-600:]))


def flags(r, binary, nodes, work):
    refused(r, binary, "no command", [], ["subcommand is required", "--help"], 2)
    refused(r, binary, "an unknown command", ["stand-alone"], ['unknown command "stand-alone"', "standalone"], 2)
    refused(r, binary, "no nodes", ["standalone"], ["--nodes is required"], 2)
    refused(r, binary, "no such nodes file", ["standalone", "--nodes", "/nope"], ["--nodes", "/nope"], 2)
    refused(r, binary, "an unknown flag", ["standalone", "--nodes", nodes, "--colour"], ["--colour"], 2)
    refused(r, binary, "too few workers", ["standalone", "--nodes", nodes, "--workers", "0"], ["--workers", "256"], 2)
    refused(r, binary, "an unknown level", ["standalone", "--nodes", nodes, "--log-level", "loud"], ["--log-level", "debug"], 2)
    refused(r, binary, "no such plugin folder", ["standalone", "--nodes", nodes, "--plugins", "/nope", *ANY], ["--plugins", "/nope"], 2)
    refused(r, binary, "not on loopback", ["standalone", "--nodes", nodes, "--listen", "0.0.0.0:0"], ["--listen", "loopback"], 2)
    refused(r, binary, "no port", ["standalone", "--nodes", nodes, "--listen", "127.0.0.1:99999"], ["--listen", "99999"])
    refused(r, binary, "an unwritable data folder", ["standalone", "--nodes", nodes, "--data", os.path.join(nodes, "x"), *ANY], ["--data"])
    refused(r, binary, "an unwritable kubeconfig", ["standalone", "--nodes", nodes, "--write-kubeconfig", "/nope/k", *ANY],
            ["--write-kubeconfig", "/nope/k"])
    refused(r, binary, "no such kubeconfig", ["run", "--kubeconfig", os.path.join(work, "none")], ["--kubeconfig"])
    refused(r, binary, "nobody listens", ["map", "--server", "http://127.0.0.1:1"], ["--server", "Is the controller running"], 1)
    for command in ("run", "standalone", "map"):
        shown = subprocess.run([binary, command, "--help"], capture_output=True, timeout=60, check=False)
        found = re.findall(r"^  (?:-\w,)?(--[a-z-]+)\s*(.*(?:\n {20,}.*)?)", shown.stdout.decode(), re.M)
        r.check(f"{command} --help explains its flags", shown.returncode == 0 and len(found) >= 5 and all(t.strip() for _, t in found), found)


def nodes_files(r, binary, work):
    cases = [
        ("empty", "", "nodes"),
        ("another document", "foo: 1\n", "foo (line 1)"),
        ("an unknown field", "nodes:\n- {name: a, cpus: 4}\n", "nodes[0].cpus (line 2)"),
        ("a bad unit", "nodes:\n- name: a\n  gpus: [{model: x, memory: 1Gib}]\n", "nodes[0].gpus[0].memory (line 3)"),
        ("a bad link", "nodes:\n- name: a\n  gpus: [{model: x, memory: 1Gi, nvlinks: [[0, 3, 1]]}]\n", "nodes[0].gpus[0].nvlinks"),
        ("a bad taint", "nodes:\n- {name: a, taints: [{key: x, effect: No}]}\n", "nodes[0].taints[0].effect"),
        ("not YAML", "nodes:\n- {name: a\n", "line 3"),
    ]
    path = os.path.join(work, "bad.yaml")
    for name, text, expected in cases:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        refused(r, binary, f"nodes file: {name}", ["standalone", "--nodes", path, *ANY], [path, expected])


def running(r, binary, bin_dir, nodes, work):
    data = os.path.join(work, "data")
    s = Standalone(bin_dir, NODES, data=data)
    try:
        refused(r, binary, "the data folder is in use", ["standalone", "--nodes", nodes, "--data", data, *ANY], ["--data", "in use"], 1)
        ops = s.ops.removeprefix("http://")
        refused(r, binary, "the port is in use", ["standalone", "--nodes", nodes, "--listen", "127.0.0.1:0", "--ops-listen", ops],
                ["--ops-listen", ops, "in use"], 1)
        refused(r, binary, "map of an unknown node", ["map", "--server", ops, "--node", "m-7"], ['no node "m-7"'], 1)
        for extra, first in ([], "n-0"), (["--format", "json"], '{"nodes"'), (["--format", "backendai"], '{"GPU-'):
            got = subprocess.run([binary, "map", "--server", ops, *extra], capture_output=True, timeout=60, check=False)
            r.check(f"map {' '.join(extra)}", got.returncode == 0 and got.stdout.decode().startswith(first) and got.stdout.endswith(b"\n"),
                    got)
        one = subprocess.run([binary, "map", "--server", ops, "--node", "n-1", "--format", "json"], capture_output=True, timeout=60, check=False)
        r.check("map --node is for every format", b'"n-1"' in one.stdout and b'"n-0"' not in one.stdout, one.stdout)
        r.check("SIGTERM ends it with status 0", s.stop() == 0)
    finally:
        s.clean()


def json_log(r, bin_dir):
    s = Standalone(bin_dir, NODES, extra=["--log-format", "json"])
    try:
        r.check("SIGTERM, again", s.stop() == 0)
        with open(os.path.join(s.work, "log"), encoding="utf-8") as f:
            lines = [line for line in f.read().splitlines() if not line.startswith(("API server:", "operations:"))]
        r.check("every log line is a JSON object with time, level and message",
                len(lines) > 3 and all({"time", "level", "msg"} <= json.loads(line).keys() for line in lines), lines)
    finally:
        s.clean()


def main(bin_dir):
    r = Report()
    binary = os.path.join(os.path.realpath(bin_dir), "elastic-gpu-controller")
    with tempfile.TemporaryDirectory(prefix="egpu-cli-") as work:
        nodes = os.path.join(work, "nodes.yaml")
        with open(nodes, "w", encoding="utf-8") as f:
            f.write(NODES)
        flags(r, binary, nodes, work)
        nodes_files(r, binary, work)
        running(r, binary, bin_dir, nodes, work)
        json_log(r, bin_dir)
    return r.close()


sys.exit(main(sys.argv[1]))
