"""Proves that CMake knows every source and test file.  sources_test.py SOURCE_DIR BINARY_DIR

Every .c and .cpp must be compiled by this build (compile_commands.json) or be named in a CMakeLists.txt (fuzz targets,
which need clang; plugins built by a test). Every header must be named in a CMakeLists.txt or included by a file."""
import json
import os
import re
import sys

root, build = os.path.realpath(sys.argv[1]), sys.argv[2]
with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
    compiled = {os.path.realpath(os.path.join(c["directory"], c["file"])) for c in json.load(f)}
for together in [path for path in compiled if "/Unity/unity_" in path and os.path.exists(path)]:
    with open(together, encoding="utf-8") as f:
        compiled.update(os.path.realpath(name) for name in re.findall(r'#include "([^"]+)"', f.read()))

sources, headers, named, included, scripts = [], [], {}, set(), []
for top in ("api", "controller", "provisioners", "tests", "bench"):
    for folder, _, names in os.walk(os.path.join(root, top)):
        for n in names:
            path = os.path.join(folder, n)
            if n == "CMakeLists.txt" or n.endswith(".cmake"):
                with open(path, encoding="utf-8") as f:
                    named[folder] = named.get(folder, "") + f.read()
            elif n.endswith((".c", ".cpp")):
                sources.append(path)
            elif n.endswith((".h", ".hpp")):
                headers.append(path)
            elif re.search(r"_test\.(py|sh)$", n):
                scripts.append(path)
for path in sources + headers:
    with open(path, encoding="utf-8") as f:
        for name in re.findall(r'#\s*include\s*"([^"]+)"', f.read()):
            included.add(os.path.realpath(os.path.join(root, name)))
            included.add(os.path.realpath(os.path.join(os.path.dirname(path), name)))


def known(path):
    """Returns true if the CMakeLists.txt of its folder or of a parent folder names the file."""
    folder, name = os.path.dirname(path), os.path.basename(path)
    stem = os.path.splitext(name)[0]
    while folder.startswith(root):
        text = named.get(folder, "")
        if re.search(r"(?<![\w-])" + re.escape(name) + r"(?![\w-])", text):
            return True
        # A list of names that a foreach turns into targets.
        if re.search(r"foreach\([^)]*(?<![\w-])" + re.escape(stem) + r"(?![\w-])[^)]*\)", text):
            return True
        folder = os.path.dirname(folder)
    return False


bad = [p for p in sources if os.path.realpath(p) not in compiled and not known(p)]
bad += [p for p in headers if os.path.realpath(p) not in included and not known(p)]
bad += [p for p in scripts if not known(p)]
for p in bad:
    print("not known to CMake:", os.path.relpath(p, root))
print(f"{len(sources)} sources, {len(headers)} headers, {len(scripts)} script tests, {len(bad)} unknown")
sys.exit(1 if bad or len(sources) < 10 else 0)
