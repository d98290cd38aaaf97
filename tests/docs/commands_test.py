"""Runs the commands of all documents in standalone mode with a real kubectl, as a reader would type them.

commands_test.py BIN_DIR

Each line of each `sh` block is run, in the order of the page. A line that another test runs is in ELSEWHERE, with this test, which must contain the given
text; NOT_RUN has the lines that no test can run, with the reason. No line can be omitted in another way: cluster_commands_test.py runs the pages of
CLUSTER_PAGES on a real cluster, and every page with a command is in a session of either.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "manifests" / "guide"
SKIPPED = 77
# A simulated cluster with the claims and pods of the samples, and a journal.
START = """export KUBECONFIG=$HOME/kubeconfig
elastic-gpu-standalone --nodes manifests/samples/nodes/mixed.yaml --write-kubeconfig $KUBECONFIG --journal $HOME/journal 2>$HOME/log &
timeout 60 sh -c 'until kubectl get nodes >/dev/null 2>&1; do sleep 0.2; done'
kubectl apply -f manifests/samples/seed.yaml
kubectl apply -f manifests/samples/seed-pods.yaml
kubectl wait --for=condition=Ready --timeout=60s pods --all
export CARD=$(kubectl get egpu -l elasticgpu.io/role=card,elasticgpu.io/node=train-1 -o jsonpath='{.items[0].metadata.name}')
"""
# A class whose claims can be resized and moved, and the claims that pages name.
CLAIMS = """kubectl apply -f - <<'END'
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: shared, annotations: {elasticgpu.io/is-default-class: "true"}}
provisioner: gpushare.provisioner.elasticgpu.io
parameters: {resizable: "true", movable: "true"}
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: train}
spec: {egpuClassName: shared, resources: {requests: {elasticgpu.io/gpu-core: 30}}}
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: notebook}
spec: {egpuClassName: shared, resources: {requests: {elasticgpu.io/gpu-core: 30}}}
END
kubectl wait --for=condition=Bound --timeout=60s egpuc --all
"""
# The plugin of provisioners/README.md, beside a copy of the programs.
# It is outside /tmp, which plugins cannot see, and in a folder that their user may read.
PLUGIN = """folder=$(mktemp -d -p $PROGRAMS/.. docs-XXXXXX)
trap 'rm -rf $folder' EXIT
chmod 755 $folder
export EGPU=$PWD BIN=$folder/bin
mkdir -p $BIN $folder/lib && cp -r $PROGRAMS/../lib/provisioners $folder/lib/
cp $PROGRAMS/egpu-sanity $PROGRAMS/egpu-plugin-host $BIN/ && cp $PROGRAMS/elastic-gpu-standalone $BIN/standalone
printf '#!/bin/sh\\nexec %s "$@" --listen 127.0.0.1:0 --ops-listen 127.0.0.1:0\\n' $BIN/standalone >$BIN/elastic-gpu-standalone
chmod +x $BIN/elastic-gpu-standalone
awk '$0 == "```cpp" && !done {on = 1; next} on && /^```/ {exit} on' provisioners/README.md >hello.cpp
awk '/save as `hello.yaml`/ {near = 1} near && $0 == "```yaml" {on = 1; next} on && /^```/ {exit} on' provisioners/README.md >hello.yaml
"""
# Sessions: lines of shell, then the pages, which run one after the other in one shell. The last page may delete the objects of the others.
SESSIONS = [("", ["tutorial.md"]),
            ("export CLAIM=train", ["README.md"]),
            (START, ["how-it-works.md", "operations.md", "other-systems.md", "threat-model.md", "workloads.md", "first-node.md"]),
            (START + CLAIMS, ["kubectl-egpu.md", "moves.md", "resize.md", "isolation.md", "reservations.md", "quotas.md", "classes.md", "troubleshooting.md"]),
            (PLUGIN, ["provisioners/README.md"]),
            ("", ["CONTRIBUTING.md"])]
# Pages of cluster_commands_test.py.
CLUSTER_PAGES = ["admission.md", "card-maintenance.md", "chargeback.md", "claim-per-pod.md", "existing-gpu-software.md", "migration.md", "monitoring.md",
                 "node-requirements.md", "runbooks.md", "runbooks-cards.md", "schedulers.md", "dashboard.md", "install.md", "controller/cmd/README.md",
                 "upgrade.md"]
# Pages whose commands another test reads and runs.
READ_BY = {"helm.md": ("tests/chart/helm_test.py", '"helm.md"')}
# Names that pages use for objects of the reader → objects of the simulated cluster.
PLACES = {"NODE": "train-1", "CLAIM": "gpushare-egpuc-1", "POD": "test-cuda-1", "CARD": "$CARD", "UUID": "$CARD", "NAMESPACE": "default", "NAME": "gpushare-egpuc-1",
          "CLASS": "shared", "FOLDER": "$HOME/journal", "localhost:9440": "$(cat $HOME/ops)"}
# Line → test that runs it, and the text that shows it there.
ELSEWHERE = {
    "make run": ("tests/setup/fresh.sh", "make run"),
    "make test": ("tests/setup/fresh.sh", "make test"),
    "make deps": ("tests/setup/fresh.sh", "make test"),
    "make build": ("tests/setup/fresh.sh", "make test"),
    "make cluster": ("tests/cluster/up_test.py", 'tool("up"'),
    "make cluster-down": ("tests/cluster/up_test.py", 'tool("down"'),
    "podman build -t elastic-gpu-controller:0.1.0 .": ("tests/docs/image_test.py", '"bud"'),
    "podman build -t registry.example.com/elastic-gpu-controller:0.1.0 .": ("tests/docs/image_test.py", '"bud"'),
    "kubectl apply -f manifests/": ("tests/docs/cluster_commands_test.py", '("-f", installation.MANIFESTS)'),
    "elastic-gpu-controller run --kubeconfig ~/.kube/config": ("tests/cluster/installation.py", '"run", f"--kubeconfig='),
    "elastic-gpu-controller run --kubeconfig FILE": ("tests/cluster/installation.py", '"run", f"--kubeconfig='),
    "helm install elastic-gpu manifests/chart --namespace elastic-gpu-system --create-namespace "
    "--set image.repository=registry.example.com/elastic-gpu-controller --wait": ("tests/chart/helm_test.py", '"install"'),
    "helm install elastic-gpu manifests/chart --namespace elastic-gpu-system --create-namespace "
    "--set image.repository=registry.example.com/elastic-gpu-controller": ("tests/chart/chart_test.py", "the README's command is that of the guide"),
    "export PATH=$PWD/build/release/bin:$PATH": ("tests/e2e/demo.sh", "$bin/kubectl-egpu"),
    "kubectl create clusterrolebinding ann-asks --clusterrole=elastic-gpu-cluster-reader --user=ann":
        ("tests/docs/cluster_commands_test.py", "kubectl create clusterrolebinding ann-asks --clusterrole=elastic-gpu-cluster-reader --user=ann"),
    "install -d -g 61184 -m 1775 /var/lib/elasticgpu/hami-core": ("tests/cluster/node/ground.py", '"61184", "-m", "1775"'),
    "kubectl -n elastic-gpu-system logs -l app.kubernetes.io/name=elastic-gpu-agent --prefix": ("tests/cluster/node/install_test.py", '"elastic-gpu-agent"'),
    "kubectl -n elastic-gpu-system logs -l app.kubernetes.io/name=elastic-gpu-controller --prefix": ("tests/cluster/node/install_test.py", '"elastic-gpu-controller"'),
    "kubectl -n elastic-gpu-system port-forward deploy/elastic-gpu-controller 9440": ("tests/cluster/node/install_test.py", '"port-forward"'),
    "ELASTICGPU_FAKE_NVML=tests/gpu/nodes/two-cards.yaml LD_LIBRARY_PATH=build/dev/lib/gpu PROGRAM": ("tests/gpu/README.md", "two-cards.yaml"),
    "LD_LIBRARY_PATH=build/dev/lib/nvml ELASTICGPU_FAKE_NVML=tests/nvml/nodes/dgx-1v.yaml build/dev/bin/egpu-sanity build/dev/lib/provisioners/libphysical.so":
        ("tests/provisioners/CMakeLists.txt", "_nvml COMMAND egpu-sanity"),
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=pool -addext subjectAltName=IP:127.0.0.1 "
    "-keyout key.pem -out cert.pem": ("tests/provisioners/remote_sanity.sh", "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"),
    "provisioners/remote/pool_server.py --gpus 2 --cert cert.pem --key key.pem --port 7443":
        ("tests/provisioners/remote_sanity.sh", 'provisioners/remote/pool_server.py" --gpus 64 --cert'),
}
# Line → the missing part of the test machines.
NOT_RUN = {
    "nvidia-smi --gpu-reset -i GPU-…": "a card",
    "nvidia-smi -i GPU-… -mig 1": "a card",
    "kubectl get egpu gpu-… -o jsonpath='{.spec.card.mig}'": "a card",
    "podman push --digestfile digest registry.example.com/elastic-gpu-controller:0.1.0": "a registry",
    "skopeo inspect --format '{{.Digest}}' docker://registry.example.com/elastic-gpu-controller:0.1.0": "a registry",
    "skopeo inspect --format '{{.Digest}}' docker://docker.io/library/debian:12": "a registry",
    "D=/var/lib/elasticgpu U=GPU-…": "a card",
    "mkdir -p $D/mps/$U $D/mps-shm/$U && mount -t tmpfs -o mode=1777,nosuid,nodev,size=8g tmpfs $D/mps-shm/$U": "a card",
    "nvidia-smi -i $U -c EXCLUSIVE_PROCESS": "a card",
    "CUDA_VISIBLE_DEVICES=$U CUDA_MPS_PIPE_DIRECTORY=$D/mps/$U unshare --mount sh -c \"mount --bind $D/mps-shm/$U /dev/shm && exec nvidia-cuda-mps-control -f\"":
        "a card",
}
# Programs with any free port, so that several tests can run at a time.
WRAPPERS = {"elastic-gpu-standalone": 'exec "{bin}/elastic-gpu-standalone" "$@" --listen 127.0.0.1:0 --ops-listen 127.0.0.1:0 --write-ops-address $HOME/ops',
            "elastic-gpu-controller": 'EGPU_SERVER=http://$(cat $HOME/ops) exec "{bin}/elastic-gpu-controller" "$@"'}


def path_of(page):
    return GUIDE / page if (GUIDE / page).is_file() else ROOT / page


def plain_of(line):
    """Returns a line without its comment."""
    return re.sub(r"\s+#.*$", "", line)


def lines_of(page):
    """Yields (number, line) of the sh blocks of a page. A line that ends in a backslash continues in the next one."""
    language, held = None, ""
    for number, line in enumerate(path_of(page).read_text(encoding="utf-8").splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("```"):
            language = stripped.strip("` ") if language is None else None
        elif language == "sh" and stripped:
            held += stripped
            if held.endswith("\\"):
                held = held[:-1]
                continue
            yield number, held
            held = ""


def is_elsewhere(plain, where, bad):
    """Returns true if this test does not run the line."""
    if plain in ELSEWHERE:
        path, text = ELSEWHERE[plain]
        if text not in (ROOT / path).read_text(encoding="utf-8"):
            bad.append(f"{where}: {path} does not run: {plain}")
    return plain in ELSEWHERE or plain in NOT_RUN


def script_of(page, bad, places=PLACES):
    """Returns the shell script of a page, and the number of its lines. Each line names itself if it fails. kubectl egpu may answer in the negative (3)."""
    script, count = [], 0
    for number, line in lines_of(page):
        count += 1
        plain = plain_of(line)
        if is_elsewhere(plain, f"{page}:{number}", bad):
            continue
        here = re.sub(r"(?<![\w.-])(" + "|".join(places) + r")(?![\w.-])", lambda found: places[found[1]], plain)
        accepted = " || [ $? = 3 ]" if re.match(r"kubectl egpu (try|check|drain-card)\b", here) else ""
        ending = "" if here.endswith("&") else f'{accepted} || {{ echo "{page}:{number}: failed" >&2; exit 1; }}'
        script.append(here + ending)
    return "\n".join(script), count


def run(what, script, programs, bad, patience=240):
    """Runs a script in a new home folder. Its working folder has files of the repository."""
    with tempfile.TemporaryDirectory(prefix="egpu-docs-") as home:
        work = pathlib.Path(home) / "work"
        work.mkdir()
        for each in ("manifests", "api", "provisioners", "Makefile", "tests"):
            (work / each).symlink_to(ROOT / each)
        for name, text in WRAPPERS.items():
            wrapper = pathlib.Path(home) / name
            wrapper.write_text(f"#!/bin/sh\n{text.format(bin=programs)}\n", encoding="utf-8")
            wrapper.chmod(0o755)
        environment = {**os.environ, "HOME": home, "PATH": f"{home}:{programs}:{os.environ['PATH']}", "PROGRAMS": str(programs)}
        # Into a file, because a program that keeps running after a page keeps the output open. `kill %1` needs job control.
        with open(pathlib.Path(home) / "output", "w+", encoding="utf-8") as output:
            shell = subprocess.Popen(["bash", "-c", "set -m -u -o pipefail\n" + script], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = shell.wait(timeout=patience)
            except subprocess.TimeoutExpired:
                status = "none: it did not end"
                shell.kill()
            finally:
                stop(home)
            if status:
                output.seek(0)
                bad.append(f"{what}: exit status {status}:\n{output.read()[-3000:]}")


def stop(home):
    """Ends programs that still run after a page: those with this home folder."""
    for each in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"HOME={home}".encode() in (each / "environ").read_bytes().split(b"\0"):
                os.kill(int(each.name), signal.SIGTERM)
        except (OSError, ValueError):
            continue


def check_complete(bad):
    """Every command of every document is run: its page is in a session, or its lines are in ELSEWHERE or NOT_RUN."""
    run_pages = {path_of(page) for page in [*(page for _, pages in SESSIONS for page in pages), *CLUSTER_PAGES, *READ_BY]}
    for page, (path, text) in READ_BY.items():
        if text not in (ROOT / path).read_text(encoding="utf-8"):
            bad.append(f"{page}: {path} does not read it")
    seen = set()
    for path in sorted(ROOT.glob("**/*.md")):
        page = str(path.relative_to(ROOT))
        if page.startswith("build"):
            continue
        for number, line in lines_of(page):
            seen.add(plain_of(line))
            if path not in run_pages and not is_elsewhere(plain_of(line), f"{page}:{number}", bad):
                bad.append(f"{page}:{number}: no test runs: {line}")
    bad.extend(f"no page has the line of ELSEWHERE or NOT_RUN: {each}" for each in sorted({*ELSEWHERE, *NOT_RUN} - seen))


def main(programs):
    if subprocess.run(["which", "kubectl"], capture_output=True, check=False).returncode:
        print("skipped: kubectl is missing")
        return SKIPPED
    bad, total = [], 0
    for start, pages in SESSIONS:
        scripts = [script_of(page, bad) for page in pages]
        total += sum(count for _, count in scripts)
        run(", ".join(pages), "\n".join([start, *(script for script, _ in scripts)]), programs, bad)
    check_complete(bad)
    for each in bad:
        print(each)
    print(f"{sum(len(pages) for _, pages in SESSIONS)} pages, {total} lines, {len(bad)} wrong")
    return 1 if bad or total < 20 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
