"""Runs the commands of the guide's tutorials in standalone mode with a real kubectl, as a reader would type them.

commands_test.py BIN_DIR

Each line of each `sh` block is run, in the order of the page. A line that needs a real cluster or a build is in ELSEWHERE, with the
test that runs it, which must contain the given text. No line can be omitted in another way.
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
# A simulated cluster with the claims and pods of the samples.
START = """export KUBECONFIG=$HOME/kubeconfig
elastic-gpu-standalone --nodes manifests/samples/nodes/mixed.yaml --write-kubeconfig $KUBECONFIG 2>$HOME/log &
timeout 60 sh -c 'until kubectl get nodes >/dev/null 2>&1; do sleep 0.2; done'
kubectl apply -f manifests/samples/seed.yaml
kubectl apply -f manifests/samples/seed-pods.yaml
kubectl wait --for=condition=Ready --timeout=60s pods --all
export CARD=$(kubectl get egpu -l elasticgpu.io/role=card,elasticgpu.io/node=train-1 -o jsonpath='{.items[0].metadata.name}')
"""
# Sessions: lines of shell, then the pages, which run one after the other in one shell. The last page may delete the objects of the others.
SESSIONS = [("", ["tutorial.md"]),
            (START, ["how-it-works.md", "operations.md", "other-systems.md", "threat-model.md", "workloads.md", "first-node.md"])]
# Names that pages use for objects of the reader → objects of the simulated cluster.
PLACES = {"NODE": "train-1", "CLAIM": "gpushare-egpuc-1", "POD": "test-cuda-1", "CARD": "$CARD", "NAMESPACE": "default"}
# Line → test that runs it, and the text that shows it there.
ELSEWHERE = {
    "make run": ("tests/setup/fresh.sh", "make run"),
    "helm install elastic-gpu manifests/chart --namespace elastic-gpu-system --create-namespace "
    "--set image.repository=registry.example.com/elastic-gpu-controller --wait": ("tests/chart/helm_test.py", '"install"'),
    "export PATH=$PWD/build/release/bin:$PATH": ("tests/e2e/demo.sh", "$bin/kubectl-egpu"),
}
# `elastic-gpu-standalone` with any free port, so that several tests can run at a time.
WRAPPER = '#!/bin/sh\nexec "{bin}/elastic-gpu-standalone" "$@" --listen 127.0.0.1:0 --ops-listen 127.0.0.1:0\n'


def lines_of(page):
    """Yields (number, line) of the sh blocks of a page. A line that ends in a backslash continues in the next one."""
    language, held = None, ""
    for number, line in enumerate((GUIDE / page).read_text(encoding="utf-8").splitlines(), 1):
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


def script_of(page, bad):
    """Returns the shell script of a page, and the number of its lines. Each line names itself if it fails. kubectl egpu may answer in the negative (3)."""
    script, count = [], 0
    for number, line in lines_of(page):
        count += 1
        plain = re.sub(r"\s+#.*$", "", line)
        if plain in ELSEWHERE:
            path, text = ELSEWHERE[plain]
            if text not in (ROOT / path).read_text(encoding="utf-8"):
                bad.append(f"{page}:{number}: {path} does not run: {plain}")
            continue
        here = re.sub(r"(?<![\w.-])(" + "|".join(PLACES) + r")(?![\w.-])", lambda found: PLACES[found[1]], plain)
        accepted = " || [ $? = 3 ]" if re.match(r"kubectl egpu (try|check|drain-card)\b", here) else ""
        ending = "" if here.endswith("&") else f'{accepted} || {{ echo "{page}:{number}: failed" >&2; exit 1; }}'
        script.append(here + ending)
    return "\n".join(script), count


def run(what, script, programs, bad):
    """Runs a script in a new home folder. Its working folder has the manifests."""
    with tempfile.TemporaryDirectory(prefix="egpu-docs-") as home:
        work = pathlib.Path(home) / "work"
        work.mkdir()
        (work / "manifests").symlink_to(ROOT / "manifests")
        wrapper = pathlib.Path(home) / "elastic-gpu-standalone"
        wrapper.write_text(WRAPPER.format(bin=programs), encoding="utf-8")
        wrapper.chmod(0o755)
        environment = {**os.environ, "HOME": home, "PATH": f"{home}:{programs}:{os.environ['PATH']}"}
        # Into a file, because a program that keeps running after a page keeps the output open. `kill %1` needs job control.
        with open(pathlib.Path(home) / "output", "w+", encoding="utf-8") as output:
            shell = subprocess.Popen(["bash", "-c", "set -m -u -o pipefail\n" + script], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = shell.wait(timeout=120)
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


def main(programs):
    if subprocess.run(["which", "kubectl"], capture_output=True, check=False).returncode:
        print("skipped: kubectl is missing")
        return SKIPPED
    bad, total = [], 0
    for start, pages in SESSIONS:
        scripts = [script_of(page, bad) for page in pages]
        total += sum(count for _, count in scripts)
        run(", ".join(pages), "\n".join([start, *(script for script, _ in scripts)]), programs, bad)
    unused = set(ELSEWHERE) - {re.sub(r"\s+#.*$", "", line) for _, pages in SESSIONS for page in pages for _, line in lines_of(page)}
    bad.extend(f"no page has the line of ELSEWHERE: {each}" for each in sorted(unused))
    for each in bad:
        print(each)
    print(f"{sum(len(pages) for _, pages in SESSIONS)} pages, {total} lines, {len(bad)} wrong")
    return 1 if bad or total < 20 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
