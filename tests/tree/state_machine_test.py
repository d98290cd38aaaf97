"""Proves that every state and write of the claim's state machine has a test whose name contains its id.  state_machine_test.py SOURCE_DIR

The ids are read from controller/reconcile/state_machine.h and the headers that it refers to: (C1) and so on, W0 to W10, V1 to V6; and from controller/agent/prepare/preparer.h: (P1) and so on."""
import os
import re
import sys

root = sys.argv[1]
machine = ""
for part in ("state_machine.h", "priority/victim.h", "resize/resizing.h"):
    with open(os.path.join(root, "controller/reconcile", part), encoding="utf-8") as f:
        machine += f.read()
with open(os.path.join(root, "controller/agent/prepare/preparer.h"), encoding="utf-8") as f:
    steps = f.read()
ids = sorted(set(re.findall(r"\(([CDS]\d+)\b", machine)) | set(re.findall(r"\b(?:W\d+|V\d)\b", machine)) | set(re.findall(r"\(([PUL]\d)\)", steps)))
names = []
for folder, _, files in os.walk(os.path.join(root, "tests")):
    for name in files:
        if name.endswith("_test.cpp"):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                names += re.findall(r"^TEST(?:_F|_P)?\(\w+,\s*(\w+)\)", f.read(), re.M)
missing = [i for i in ids if not any(re.search(rf"(?:^|_){i}_", n) for n in names)]
for i in missing:
    print(f"{i}: no test's name carries it")
print(f"{len(ids)} ids, {len(names)} tests, {len(missing)} missing")
sys.exit(1 if missing or len(ids) < 25 else 0)
