"""Proves that the tree has no meaningless names (Manager, Engine, Helper or Util), no file over 900 lines and no
folder over 30 files.  words_test.py SOURCE_DIR"""
import os
import re
import sys

root = sys.argv[1]
EMPTY = re.compile(r"\b(class|struct|namespace)\s+\w*(Manager|Engine|Helper|Util|Utils)\b")
bad, files = [], 0
for top in ("api", "controller", "provisioners", "tests", "bench"):
    for folder, _, names in os.walk(os.path.join(root, top)):
        if len(names) > 30 and not folder.endswith("__pycache__"):
            bad.append(f"{os.path.relpath(folder, root)}: {len(names)} files; is it still one room?")
        for n in names:
            if not n.endswith((".h", ".hpp", ".c", ".cpp")):
                continue
            path = os.path.join(folder, n)
            rel = os.path.relpath(path, root)
            files += 1
            if re.search(r"(manager|engine|helper|utils?)\b", os.path.splitext(n)[0]):
                bad.append(f"{rel}: the file's name says nothing of what is in it")
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for m in EMPTY.finditer(text):
                bad.append(f"{rel}: {m.group(0)}")
            if text.count("\n") > 900:
                bad.append(f"{rel}: {text.count(chr(10))} lines; is it still one thing?")
print("\n".join(bad))
print(f"{files} files, {len(bad)} findings")
sys.exit(1 if bad or files < 20 else 0)
