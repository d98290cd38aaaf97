"""Proves that class parameters and metrics are in each list that must contain them.  lists_test.py SOURCE_DIR"""
import os
import re
import sys

root = sys.argv[1]
bad = []


def text(path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def same(what, first, where, second, elsewhere):
    for name in sorted(first - second):
        bad.append(f"{what} {name} stands in {where} and not in {elsewhere}")
    for name in sorted(second - first):
        bad.append(f"{what} {name} stands in {elsewhere} and not in {where}")


header = "api/v1alpha/parameters.h"
known = set(re.findall(r'"(\w+)"', text(header)))
crd = "manifests/crd/elasticgpu.io_elasticgpuclasses.yaml"
listed = re.search(r"The controller uses (.*?);", text(crd), re.S).group(1)
same("the parameter", known, header, set(re.findall(r"\w+", listed)) - {"and"}, crd)
table = "controller/scheduler/README.md"
rows = re.search(r"^## A class's parameters$(.*?)^## ", text(table), re.M | re.S).group(1)
firsts = [line.split(" | ")[0] for line in rows.splitlines() if line.startswith("| `")]
same("the parameter", known, header, {name for cell in firsts for name in re.findall(r"`(\w+)`", cell)}, table)

described = "controller/server/operations/prometheus_metrics.cpp"
helps = set(re.findall(r'^\s*\{"(elasticgpu_\w+)",', text(described), re.M))
used, read = set(), ""
for folder, _, files in os.walk(os.path.join(root, "controller")):
    for name in files:
        path = os.path.relpath(os.path.join(folder, name), root)
        if name.endswith((".cpp", ".h")) and path != described:
            source = text(path)
            used |= set(re.findall(r'"(elasticgpu_\w+)"', source))
            if path != header:
                read += source
same("the metric", used, "the sources of controller/", helps, described)
for name in sorted(known):
    if f'"{name}"' not in read:
        bad.append(f"the parameter {name} is read nowhere in controller/")

for each in bad:
    print(each)
print(f"{len(known)} class parameters, {len(used)} metrics, {len(bad)} wrong")
sys.exit(1 if bad or len(known) < 10 or len(used) < 20 else 0)
