"""Names without a meaning are refused: no Engine, Helper or Util. Role nouns of the field (Queue, Nominator, Reconciler, Allocator, Manager) are
allowed. No file has more than 900 lines, and no folder more than 30 files.  words_test.py SOURCE_DIR"""
import os
import re
import sys

root = sys.argv[1]
EMPTY = re.compile(r"\b(class|struct|namespace)\s+\w*(Engine|Helper|Util|Utils)\b")
bad, files = [], 0
for top in ("api", "controller", "provisioners", "tests", "bench"):
    for folder, _, names in os.walk(os.path.join(root, top)):
        if len(names) > 30 and not folder.endswith("__pycache__"):
            bad.append(f"{os.path.relpath(folder, root)}: {len(names)} files; split it by responsibility")
        for n in names:
            if not n.endswith((".h", ".hpp", ".c", ".cpp")):
                continue
            path = os.path.join(folder, n)
            rel = os.path.relpath(path, root)
            files += 1
            if re.search(r"(engine|helper|utils?)\b", os.path.splitext(n)[0]):
                bad.append(f"{rel}: the name of the file does not name its content")
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for m in EMPTY.finditer(text):
                bad.append(f"{rel}: {m.group(0)}")
            if text.count("\n") > 900:
                bad.append(f"{rel}: {text.count(chr(10))} lines; split it by responsibility")
print("\n".join(bad))
print(f"{files} files, {len(bad)} findings")
sys.exit(1 if bad or files < 20 else 0)
