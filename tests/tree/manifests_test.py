"""Proves that `kubectl apply -f manifests/` equals `kubectl apply -k manifests`, and that images can be set from outside.  manifests_test.py SOURCE_DIR

`kubectl apply -f` reads the .yaml, .yml and .json files directly in the folder, in the order of their names, and does not know the kind Kustomization.
Therefore the folder contains links to the kustomization's resources, and the Kustomization file has no extension."""
import os
import re
import sys

root = os.path.realpath(sys.argv[1])
top = os.path.join(root, "manifests")
bad = []


def resources(folder):
    """Yields every file that the kustomization of a folder names, in its order."""
    path = next(p for p in (os.path.join(folder, n) for n in ("Kustomization", "kustomization.yaml")) if os.path.exists(p))
    with open(path, encoding="utf-8") as f:
        listed = re.search(r"^resources:\n((?:- .*\n?)+)", f.read(), re.M).group(1)
    for entry in re.findall(r"- (\S+)", listed):
        found = os.path.realpath(os.path.join(folder, entry))
        yield from resources(found) if os.path.isdir(found) else [found]


named = set(resources(top))
old = set(resources(os.path.join(top, "overlays", "1.34")))
for path in sorted(named ^ (old | set(resources(os.path.join(top, "admission", "mutating"))))):
    bad.append(f"{os.path.relpath(path, root)}: manifests/Kustomization is what overlays/1.34 is, and admission/mutating")
read = sorted(n for n in os.listdir(top) if n.endswith((".yaml", ".yml", ".json")) and os.path.isfile(os.path.join(top, n)))
linked = {}
for n in read:
    path = os.path.join(top, n)
    if not os.path.islink(path) or os.path.isabs(os.readlink(path)):
        bad.append(f"manifests/{n}: kubectl apply -f manifests/ would apply it; only relative links to what the kustomization names may stand here")
    linked[os.path.realpath(path)] = n
for path in sorted(named - set(linked)):
    bad.append(f"{os.path.relpath(path, root)}: the kustomization names it, but no link in manifests/ does")
for path in sorted(set(linked) - named):
    bad.append(f"manifests/{linked[path]}: the kustomization does not name what it links to")


def position(kind):
    """Returns the position of the first file that has an object of that kind."""
    for index, n in enumerate(read):
        with open(os.path.join(top, n), encoding="utf-8") as f:
            if re.search(rf"^kind: {kind}$", f.read(), re.M):
                return index
    return -1


order = [position(kind) for kind in ("Namespace", "CustomResourceDefinition", "ServiceAccount", "Deployment")]
if order[0] != 0 or order != sorted(order):
    bad.append(f"manifests/: the namespace comes first, then the CRDs, accounts and the Deployment, not {order}")

# New expressions are checked against the CEL of the previous version: 1.34 accepts only the list functions of 1.33.
for path in sorted(old):
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if not line.lstrip().startswith("#") and (m := re.search(r"\.(sort|sortBy|flatten|distinct|reverse|slice|first|last)\(|lists\.range", line)):
                bad.append(f"{os.path.relpath(path, root)}:{number}: {m.group(0)} does not exist on Kubernetes 1.34")

# YAML keeps the line breaks around a line of a folded scalar (">") that is indented further than its first line. kustomize
# writes such a scalar with different line breaks, and then `kubectl apply -f` and `kubectl apply -k` change each other's objects.
for folder, _, files in os.walk(top):
    for path in sorted(os.path.join(folder, n) for n in files if n.endswith(".yaml")):
        key = text = None  # the indentation of the scalar's key and of its first line; None: not in a folded scalar
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                indent = len(line) - len(line.lstrip())
                if line.strip() and key is not None and indent <= key:
                    key = None
                if key is None:
                    key, text = (indent, None) if re.search(r"[:-] >[-+]?$", line) else (None, None)
                elif line.strip() and text is None:
                    text = indent
                elif line.strip() and indent > text:
                    bad.append(f"{os.path.relpath(path, root)}:{number}: indented further than the first line of its folded scalar")

# Allocations of remote devices, and kubectl egpu check, know the nodes with an agent by the labels of its DaemonSet.
with open(os.path.join(top, "deploy", "agent.yaml"), encoding="utf-8") as f:
    selected = set(re.findall(r"key: (\S+), operator: In, values: \[\"true\"\]", f.read()))
with open(os.path.join(root, "api", "v1alpha", "agent_nodes.h"), encoding="utf-8") as f:
    known = set(re.findall(r'"([\w.-]+/[\w.-]+)"', re.sub(r"#include.*", "", f.read())))
if not selected or selected != known:
    bad.append(f"api/v1alpha/agent_nodes.h: {sorted(known)} are not the labels of manifests/deploy/agent.yaml: {sorted(selected)}")

# The digest of each base image can be set from outside.
with open(os.path.join(root, "Containerfile"), encoding="utf-8") as f:
    lines = f.read().splitlines()
given = {m.group(1) for m in (re.match(r"ARG (\w+)=", line) for line in lines) if m}
for line in lines:
    if (m := re.match(r"FROM (\S+)", line)) and m.group(1) != "scratch" and not (m.group(1).startswith("${") and m.group(1)[2:-1] in given):
        bad.append(f"Containerfile: {line}: the base image must be an ARG, so that it can be given by digest")

for each in bad:
    print(each)
print(f"{len(named)} files named, {len(read)} links, {len(bad)} wrong")
sys.exit(1 if bad or len(named) < 10 else 0)
