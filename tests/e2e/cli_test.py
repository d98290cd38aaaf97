"""Proves the behaviour of the command line: flags, the nodes file, files and ports in use, the map.  cli_test.py BIN_DIR"""
import http.server
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading

from standalone import Kubectl, Report, Standalone, until

NODES = """
nodes:
- name: n
  count: 2
  gpus: [{model: T4, count: 2, memory: 16Gi}]
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""
ANY = ["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]


def refused(r, binary, name, args, expected, status=None):
    """Checks that the command exits with a status other than 0, and that the last error message on standard error contains the text and is no log line."""
    got = subprocess.run([binary, *args], capture_output=True, timeout=60, check=False)
    err = got.stderr.decode("utf-8", "replace")
    last = err[err.rfind("error: "):] if "error: " in err else ""
    right = got.returncode == status if status is not None else got.returncode in (1, 2)
    r.check(name, right and all(e in last for e in expected), (got.returncode, err[-600:]))


def flags(r, binary, nodes, work):
    refused(r, binary, "no command", [], ["subcommand is required", "--help"], 2)
    refused(r, binary, "an unknown command", ["stand-alone"], ['unknown command "stand-alone"', "standalone"], 2)
    for name, args, shown in (
        ("a command", ["\033[31m"], 'unknown command "\\x1b[31m"'),
        ("a flag", ["defrag", "--\033[2J"], "--\\x1b[2J"),
        ("a file", ["defrag", "-f", "/\x9b31m"], "/\\x9b31m: "),
        ("an address", ["defrag", "--server", "http://\033[31m"], "\\x1b[31m"),
    ):
        got = subprocess.run([binary, *args], capture_output=True, timeout=60, check=False).stderr.decode("utf-8", "replace")
        r.check(f"control characters in {name} are shown, not obeyed", shown in got and "\033" not in got and "\x9b" not in got, got)
    refused(r, binary, "no nodes", ["standalone"], ["--nodes is required"], 2)
    refused(r, binary, "no such nodes file", ["standalone", "--nodes", "/nope"], ["--nodes", "/nope"], 2)
    refused(r, binary, "an unknown flag", ["standalone", "--nodes", nodes, "--colour"], ["--colour"], 2)
    refused(r, binary, "too few workers", ["standalone", "--nodes", nodes, "--workers", "0"], ["--workers", "256"], 2)
    refused(r, binary, "an unknown level", ["standalone", "--nodes", nodes, "--log-level", "loud"], ["--log-level", "debug"], 2)
    refused(r, binary, "no such plugin folder", ["standalone", "--nodes", nodes, "--plugins", "/nope", *ANY], ["--plugins", "/nope"], 2)
    refused(r, binary, "a file for a plugin folder", ["standalone", "--nodes", nodes, "--plugins", nodes, *ANY], ["--plugins", nodes], 2)
    refused(r, binary, "not on loopback", ["standalone", "--nodes", nodes, "--listen", "0.0.0.0:0"], ["--listen", "loopback"], 2)
    refused(r, binary, "no port", ["standalone", "--nodes", nodes, "--listen", "127.0.0.1:99999"], ["--listen", "99999"])
    refused(r, binary, "an unwritable data folder", ["standalone", "--nodes", nodes, "--data", os.path.join(nodes, "x"), *ANY], ["--data"])
    refused(r, binary, "an unwritable kubeconfig", ["standalone", "--nodes", nodes, "--write-kubeconfig", "/nope/k", *ANY],
            ["--write-kubeconfig", "/nope/k"])
    refused(r, binary, "no such kubeconfig", ["run", "--kubeconfig", os.path.join(work, "none")], ["--kubeconfig"])
    refused(r, binary, "no listener", ["defrag", "--server", "http://127.0.0.1:1"], ["--server", "Is the controller running"], 1)
    refused(r, binary, "operations of standalone off loopback", ["standalone", "--nodes", nodes, "--listen", "127.0.0.1:0", "--ops-listen", "[::]:0"],
            ["--ops-listen", "loopback"], 2)
    refused(r, binary, "no authentication off loopback", ["run", "--ops-auth=off", "--ops-listen", "[::]:0"],
            ["--ops-auth=off", "other machines", "--ops-listen"], 2)
    refused(r, binary, "no port after that of operations", ["standalone", "--nodes", nodes, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:65535"],
            ["--probes-listen (unless given, the port after --ops-listen's)", "65536"])
    refused(r, binary, "probes on no port", ["standalone", "--nodes", nodes, *ANY, "--probes-listen", "127.0.0.1:99999"], ["--probes-listen", "99999"])
    refused(r, binary, "no such token file", ["defrag", "--token-file", "/nope"], ["--token-file", "/nope"], 2)
    refused(r, binary, "two tokens", ["defrag", "--token", "a", "--token-file", "/nope"], ["--token"], 2)
    certificate = os.path.join(work, "certificate")
    with open(certificate, "w", encoding="utf-8") as f:
        f.write(KUBECONFIG)
    refused(r, binary, "a kubeconfig without a token", ["defrag", "--kubeconfig", certificate], ["has no token", "kubectl create token"], 2)
    empty = os.path.join(work, "empty")
    os.mkdir(empty)
    warned = subprocess.run([binary, "standalone", "--nodes", nodes, "--plugins", empty, "--listen", "0.0.0.0:0"], capture_output=True,
                            timeout=60, check=False)
    r.check("an empty plugin folder is warned of", b"warning: --plugins: " + empty.encode() + b" holds no .so" in warned.stderr, warned.stderr)
    listed = subprocess.run([binary, "--help"], capture_output=True, timeout=60, check=False).stdout.decode()
    commands = [c for c in re.findall(r"^  (\w+) {3,}", listed[listed.index("Subcommands:"):], re.M) if c != "help"]
    r.check("the commands are listed", len(commands) >= 4 and "run" in commands and "journal" in commands, commands)
    for command in commands:
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
        refused(r, binary, "defrag of an unknown node", ["defrag", "--server", ops, "--node", "m-7"], ['no node "m-7"'], 1)
        for form, first in ("text", "n-0"), ("json", '{"nodes"'), ("backendai", '{"GPU-'):
            got = s.http(f"/allocation-map?format={form}")
            r.check(f"the map as {form}", got.startswith(first), got)
        one = s.http("/allocation-map?format=json&node=n-1")
        r.check("the map of a node", '"n-1"' in one and '"n-0"' not in one, one)
        tokens(r, binary, work)
        questions(r, binary, s, ops, work)
        r.check("SIGTERM ends it with status 0", s.stop() == 0)
    finally:
        s.clean()


class Guarded(http.server.BaseHTTPRequestHandler):
    """An operations port that accepts one token."""

    def do_GET(self):
        token = self.headers.get("Authorization", "")
        status = {"": 401, "Bearer good": 200}.get(token, 403)
        body = b"the map" if status == 200 else json.dumps({"kind": "Status", "status": "Failure", "message": f"refused {status}", "code": status}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if status == 200 else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def tokens(r, binary, work):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    show = ["defrag", "--server", f"127.0.0.1:{server.server_port}"]
    refused(r, binary, "a token is asked for", show, ["refused 401", "--token", "--kubeconfig"], 1)
    refused(r, binary, "and a right", [*show, "--token", "other"], ["refused 403", "elasticgpus"], 1)
    file = os.path.join(work, "token")
    with open(file, "w", encoding="utf-8") as f:
        f.write("good\n")
    config = os.path.join(work, "with-token")
    with open(config, "w", encoding="utf-8") as f:
        f.write(KUBECONFIG.replace("user: {}", "user: {token: good}"))
    for how in (["--token", "good"], ["--token-file", file], ["--kubeconfig", config], ["--kubeconfig", config, "--context", "c"]):
        got = subprocess.run([binary, *show, *how], capture_output=True, timeout=60, check=False)
        r.check(f"{how[0]} shows the token", got.returncode == 0 and got.stdout == b"the map\n", got)
    server.shutdown()


CLASS = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: share}
provisioner: gpushare.provisioner.elasticgpu.io
"""


def claim(name, core):
    return f"""
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {{name: {name}}}
spec: {{egpuClassName: share, resources: {{requests: {{elasticgpu.io/gpu-core: {core}}}}}}}
"""


def questions(r, binary, s, ops, work):
    """defrag answers, and changes nothing."""
    kubectl = Kubectl("kubectl", s.kubeconfig, work)
    kubectl.ok("apply", "-f", "-", stdin=CLASS + "---" + claim("small", 30) + "---" + claim("large", 500))
    until(lambda: kubectl.json("get", "egpuc", "small").get("status", {}).get("phase") == "Bound")
    until(lambda: b"NoFit" in kubectl.run("get", "egpuc", "large").stdout)

    def ask(*args, stdin=None):
        got = subprocess.run([binary, *args, "--server", ops], input=stdin, capture_output=True, timeout=60, check=False)
        r.check(" ".join(args), got.returncode == 0, got)
        return got.stdout.decode()

    def shows(name, text, *parts):
        r.check(name, all(p in text for p in parts), text)

    def state():
        """Returns the parts of objects that affect decisions; summaries on cards are written with a delay."""
        objects = kubectl.json("get", "egpu,egpuc,egpuclass,nodes")["items"]
        return [(o["kind"], o["metadata"]["uid"], o.get("spec"), o.get("status", {}).get("phase")) for o in objects], s.http("/allocation-map?format=json")

    until(lambda: all(o.get("status", {}).get("phase") for o in kubectl.json("get", "egpu")["items"]))
    before = state()
    shows("defrag", ask("defrag", "--plan"), "no move would free a whole card; 0 claims that may move")
    shows("defrag for a claim", ask("defrag", "--plan", "large"), "claim default/large of class share", "no move would make it fit; 0 claims that may move")
    r.check("defrag -o json is JSON", json.loads(ask("defrag", "--class", "share", "--gpu", "1", "-o", "json"))["text"] == "it fits as it is")
    r.check("nothing has changed by asking", before == state(), before)
    refused(r, binary, "defrag for an unknown claim", ["defrag", "none", "--server", ops], ['no ElasticGPUClaim "default/none"'], 1)
    refused(r, binary, "an unknown class", ["defrag", "--class", "none", "--gpu", "1", "--server", ops], ["spec.egpuClassName", "there are share"], 1)
    refused(r, binary, "moves of a claim's plan", ["defrag", "large", "--moves", "2", "--server", ops], ["moves: applies to freeing whole cards"], 1)
    refused(r, binary, "no such file", ["defrag", "-f", "/nope", "--server", ops], ["--file", "/nope"], 2)
    odd = claim("odd", 10).replace("name: share", 'name: "\\e[31m"').replace("kind: ElasticGPUClaim", 'kind: "\\e[31m"')
    got = subprocess.run([binary, "defrag", "-f", "-", "--server", ops], input=odd.encode(), capture_output=True, timeout=60, check=False)
    r.check("control characters of a file are shown, not obeyed", b"\\x1b[31m" in got.stderr and b"\033" not in got.stderr, got)
    refused(r, binary, "an output that isn't there", ["defrag", "-o", "xml"], ["--output", "table"], 2)
    manifest = os.path.join(work, "claim.yaml")
    outputs(r, binary, ask, ops, manifest)
    asked = ["events", "--for", "elasticgpuclaim/large"]
    if kubectl.run("events", "--help").returncode:  # Debian's kubectl is too old for it
        asked = ["get", "events", "--field-selector", "involvedObject.kind=ElasticGPUClaim,involvedObject.name=large"]
    seen = until(lambda: b"NoFit" in kubectl.run(*asked).stdout, 20)
    r.check("kubectl finds a claim's events", seen, kubectl.run(*asked))


def outputs(r, binary, ask, ops, manifest):
    """-o, EGPU_SERVER, several documents, exit statuses, lines of at most 100 columns."""
    table, wide = ask("defrag", "large", "-o", "table"), ask("defrag", "large", "-o", "wide")
    r.check("tables have at most 100 columns", max(map(len, table.splitlines())) <= 100, table)
    r.check("-o wide is a table, too", len(wide) >= len(table) / 2 and not wide.startswith("{"), wide)
    r.check("-o yaml is YAML", re.match(r"\w+:( |\n)", ask("defrag", "large", "-o", "yaml")))
    for address in (ops, f"http://{ops}/"):
        got = subprocess.run([binary, "defrag"], capture_output=True, timeout=60, check=False, env={**os.environ, "EGPU_SERVER": address})
        r.check(f"EGPU_SERVER={address.split(':')[0]}… says where", got.returncode == 0 and b"no move" in got.stdout, got)
    with open(manifest, "w", encoding="utf-8") as f:
        f.write(claim("good", 10) + "---" + claim("bad", 10).replace("spec:", "sepc:"))
    refused(r, binary, "-f names file and document", ["defrag", "-f", manifest, "--server", ops], [f"{manifest}: document 2: "], 1)
    with open(manifest, "w", encoding="utf-8") as f:
        f.write(claim("bad", 10).replace("egpuClassName: share", "egpuClassName: none"))
    refused(r, binary, "-f names file and claim of an unknown class", ["defrag", "-f", manifest, "--server", ops],
            [f"{manifest}: claim default/bad: spec.egpuClassName"], 1)
    with open(manifest, "w", encoding="utf-8") as f:
        f.write(claim("large", 10) + "#" * 300_000)
    refused(r, binary, "-f names a file that is too large", ["defrag", "-f", manifest, "--server", ops],
            [f"{manifest}: Request entity too large: limit is 262144 bytes; ask about fewer objects at a time"], 1)


TWO_CARDS = """
nodes:
- name: n
  gpus: [{model: T4, count: 2, memory: 16Gi, uuids: [GPU-b, GPU-a]}]
"""
OTHERS = """apiVersion: v1
kind: Config
clusters: [{name: prod, cluster: {server: "https://prod:6443"}}]
contexts: [{name: prod, context: {cluster: prod, user: admin}}]
users: [{name: admin, user: {token: "0123"}}]
current-context: prod
"""


def private_files(r, binary, nodes, work):
    """Written files are private to their owner; links are not followed; foreign kubeconfig entries are kept."""
    path, data, ops = (os.path.join(work, n) for n in ("config", "new/data", "ops-address"))
    with open(path, "w", encoding="utf-8") as f:
        f.write(OTHERS)
    os.chmod(path, 0o644)
    victim, link = os.path.join(work, "victim"), os.path.join(work, "link")
    with open(victim, "w", encoding="utf-8") as f:
        f.write(OTHERS)
    os.symlink(victim, link)
    refused(r, binary, "a kubeconfig that is a link", ["standalone", "--nodes", nodes, "--write-kubeconfig", link, *ANY], [link, "symbolic link"], 1)
    refused(r, binary, "no kubeconfig", ["standalone", "--nodes", nodes, "--write-kubeconfig", nodes, *ANY], [nodes, "is not a kubeconfig", "is not changed"], 1)
    with open(victim, encoding="utf-8") as f:
        r.check("the link's file is as it was", f.read() == OTHERS)
    with open(nodes, "w", encoding="utf-8") as f:
        f.write(TWO_CARDS)
    pipe = os.path.join(work, "pipe")
    os.mkfifo(pipe)
    for flag in ("--write-ops-address", "--write-probes-address"):
        refused(r, binary, f"{flag} where a pipe is", ["standalone", "--nodes", nodes, flag, pipe, *ANY], [flag, pipe, "no regular file"], 1)
        r.check("the pipe is still one", stat.S_ISFIFO(os.lstat(pipe).st_mode))
    os.symlink(victim, ops)
    before = os.umask(0)
    started = subprocess.Popen([binary, "standalone", "--nodes", nodes, "--data", data, "--write-kubeconfig", path, "--write-ops-address", ops,
                                "--log-level", "off", *ANY], stdout=subprocess.PIPE)
    os.umask(before)
    try:
        r.check("it starts", until(lambda: not os.path.islink(ops) and os.path.exists(ops)))
        modes = {p: oct(os.stat(p).st_mode & 0o777) for p in (path, ops, data, *(os.path.join(data, n) for n in os.listdir(data)))}
        r.check("files are 0600, folders 0700", all(m == ("0o700" if os.path.isdir(p) else "0o600") for p, m in modes.items()), modes)
        kubectl = Kubectl("kubectl", path, work)
        names = kubectl.ok("config", "get-contexts", "-o", "name").split()
        r.check("others' contexts stay beside ours", names == ["elastic-gpu-standalone", "prod"], names)
        r.check("and theirs stays the current one", kubectl.ok("config", "current-context").strip() == "prod")
        token = kubectl.ok("config", "view", "--raw", "-o", "jsonpath={.users[?(@.name=='admin')].user.token}")
        r.check("with its credentials", token == "0123", token)
        r.check("ours works", "n" in kubectl.ok("--context", "elastic-gpu-standalone", "get", "nodes", "-o", "name"))
        line = started.stdout.readline().decode()
        r.check("the hint names the context", "kubectl --context elastic-gpu-standalone" in line, line)
        backend_ai(r, binary, kubectl)
    finally:
        started.terminate()
        started.wait(timeout=60)


def backend_ai(r, binary, kubectl):
    """backend.ai's published case: two devices, and claims of 0.2 and then 1.2 devices."""
    kubectl.ok("--context", "elastic-gpu-standalone", "apply", "-f", "-", stdin=CLASS.rstrip() + "\nparameters: {split: evenly}\n")
    for name, share in (("first", 20), ("second", 120)):
        kubectl.ok("--context", "elastic-gpu-standalone", "apply", "-f", "-", stdin=claim(name, share))
        kubectl.ok("--context", "elastic-gpu-standalone", "wait", "--for=condition=Bound", "--timeout=60s", f"egpuc/{name}")
    got = subprocess.run([os.path.join(os.path.dirname(binary), "kubectl-egpu"), "map", "-o", "backendai", "--context", "elastic-gpu-standalone"],
                         env=kubectl.env, capture_output=True, timeout=60, check=False)
    r.check("backend.ai's case gives its map, in the devices' order", got.stdout.decode().strip() == '{"GPU-b":"0.60","GPU-a":"0.80"}', got)


def helped(r, binary):
    def shown(*args):
        return subprocess.run([binary, *args], capture_output=True, timeout=60, check=False)

    r.check("help lists the commands", all(c in shown("help").stdout for c in (b"standalone", b"defrag", b"help")), shown("help"))
    r.check("help COMMAND is COMMAND --help", shown("help", "defrag").stdout == shown("defrag", "--help").stdout, shown("help", "defrag"))
    r.check("help ends with 0", shown("help").returncode == 0 and shown("help", "run").returncode == 0)
    refused(r, binary, "help of an unknown command", ["help", "nope"], ['unknown command "nope"'], 2)


def json_log(r, bin_dir):
    s = Standalone(bin_dir, NODES, extra=["--log-format", "json"])
    try:
        r.check("SIGTERM, again", s.stop() == 0)
        with open(os.path.join(s.work, "log"), encoding="utf-8") as f:
            lines = [line for line in f.read().splitlines() if not line.startswith(("API server:", "operations:", "page:", "probes:"))]
        r.check("every log line is a JSON object with time, level and message",
                len(lines) > 3 and all({"time", "level", "msg"} <= json.loads(line).keys() for line in lines), lines)
    finally:
        s.clean()


def journal(r, binary, bin_dir, nodes, work):
    """Decisions are journalled, and a replay gives the same decisions."""
    folder = os.path.join(work, "journal")
    s = Standalone(bin_dir, NODES, extra=["--journal", folder])
    try:
        kubectl = Kubectl("kubectl", s.kubeconfig, work)
        kubectl.ok("apply", "-f", "-", stdin="---".join([CLASS, claim("small", 30), claim("other", 40), claim("large", 500)]))
        kubectl.ok("wait", "--for=condition=Bound", "--timeout=60s", "egpuc/small", "egpuc/other")
        until(lambda: b"NoFit" in kubectl.run("get", "egpuc", "large").stdout)
        refused(r, binary, "a journal of another process", ["standalone", "--nodes", nodes, "--journal", folder, *ANY],
                ["--journal", folder, "another process"], 1)
        r.check("SIGTERM with a journal", s.stop() == 0)
    finally:
        s.clean()

    def shown(*args):
        return subprocess.run([binary, "journal", folder, *args], capture_output=True, timeout=60, check=False)

    r.check("the journal is its owner's", os.stat(folder).st_mode & 0o777 == 0o700 and
            all(os.stat(os.path.join(folder, n)).st_mode & 0o777 == 0o600 for n in os.listdir(folder)), os.listdir(folder))
    lines = shown().stdout.decode().splitlines()
    r.check("it shows where claims went", any("default/small  1 card, 300 milli-cards" in x and "n-" in x for x in lines), lines)
    r.check("and what fits nowhere", any("default/large" in x and "fits nowhere" in x for x in lines), lines)
    only = shown("--claim", "default/other", "-o", "json").stdout.decode().splitlines()
    r.check("as JSON, of one claim", only and all(json.loads(x)["decision"]["asks"][0]["claim"] == "default/other" for x in only), only)
    r.check("with all changes", any("card" in json.loads(x) for x in shown("--all", "-o", "json").stdout.splitlines()))
    again = shown("--replay")
    r.check("decided again, it comes out the same", again.returncode == 0 and b"decisions came out as recorded" in again.stdout, again)
    other = json.loads(shown("--replay", "--policy", "spread", "-o", "json").stdout)
    r.check("another policy is replayed", (other["recorded"]["claims"], other["replayed"]["placed"]) == (3, 2), other)
    table = shown("--replay", "--policy", "spread")
    r.check("as a table", b"AS RECORDED" in table.stdout and b"UNDER spread" in table.stdout, table)
    refused(r, binary, "an unknown policy", ["journal", folder, "--replay", "--policy", "best"], ['unknown policy "best"', "binpack"], 2)
    refused(r, binary, "a policy without --replay", ["journal", folder, "--policy", "spread"], ["--policy", "--replay"], 2)
    refused(r, binary, "no journal there", ["journal", work], [work, "no journal-"], 1)
    refused(r, binary, "a journal that is too small", ["standalone", "--nodes", nodes, "--journal", folder, "--journal-size", "10KiB", *ANY],
            ["--journal", "at least 1MiB"], 1)


def main(bin_dir):
    r = Report()
    binary = os.path.join(os.path.realpath(bin_dir), "elastic-gpu-controller")
    with tempfile.TemporaryDirectory(prefix="egpu-cli-") as work:
        nodes = os.path.join(work, "nodes.yaml")
        with open(nodes, "w", encoding="utf-8") as f:
            f.write(NODES)
        flags(r, binary, nodes, work)
        helped(r, binary)
        nodes_files(r, binary, work)
        running(r, binary, bin_dir, nodes, work)
        json_log(r, bin_dir)
        journal(r, binary, bin_dir, nodes, work)
        private_files(r, binary, nodes, work)
    return r.close()


sys.exit(main(sys.argv[1]))
