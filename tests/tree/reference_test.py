"""Proves that the pages of manifests/guide/reference agree with the sources: the generated ones are current, keys.md has each annotation, label, finalizer
and gate, and each flag is on a page.  reference_test.py SOURCE_DIR"""
import os
import re
import sys

root = os.path.realpath(sys.argv[1])
sys.path.insert(0, os.path.join(root, "manifests", "site"))

import reference  # noqa: E402  (the generator is in another folder)

FOLDER = os.path.join(root, "manifests", "guide", "reference")
# Words after the group's name that are not keys: versions, the prefix of a pattern, a key of samples, and the first part of a key at the end of a line.
NO_KEYS = re.compile(r"v1alpha1?|mig-?|sample|is-default")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def files(*suffixes, below):
    for top in below:
        for folder, _, names in os.walk(os.path.join(root, top)):
            yield from (os.path.join(folder, each) for each in sorted(names) if each.endswith(suffixes))


def keys_of(constants, texts):
    """Returns the keys that the constants of keys.h and other texts contain. A key of any name is its prefix, with the slash."""
    found = set(re.findall(r'"((?:[a-z]+\.)*(?:elasticgpu|kubernetes)\.io/[a-z-]*)"', constants)) - {"elasticgpu.io/"}
    found |= {f"elasticgpu.io/{each}" for each in re.findall(r'k(?:Gpu|GpuCore|GpuMemory|Tflops) = "([a-z-]+)"', constants)}
    for text in texts:
        found.update(f"elasticgpu.io/{each}" for each in re.findall(r"(?<![\w./-])elasticgpu\.io/([a-z][a-z0-9-]*[a-z0-9])(?![\w.])", text) if not NO_KEYS.fullmatch(each))
    return found


def keys_on(page):
    """Returns the keys in the tables of a page, without placeholders such as <name>."""
    cells = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    return {re.sub(r"<[a-z]+>$", "", each) for cell in cells for each in re.findall(r"`([^`]+)`", cell) if "/" in each}


def missing_flags(code, pages):
    """Returns the flags that the code declares and no page has in its list."""
    declared = set(re.findall(r'(?:add_option|add_flag|add[A-Z]\w*)\(\s*(?:\*?\w+,\s*)?"(?:-\w,)?(--[a-z-]+)', code))
    listed = set(re.findall(r"^- (?:`-\w`, )?`(--[a-z-]+)", pages, re.M)) | set(re.findall(r"(?<=[ ,])`(--[a-z-]+)`", pages))
    return declared, sorted(declared - listed)


def self_check():
    constants = 'kA = "elasticgpu.io/role"; kB = "egpuc.elasticgpu.io/"; kDriver = "elasticgpu.io"; kL = "resource.kubernetes.io/admin-access"; kGpu = "gpu"'
    assert keys_of(constants, ["x.elasticgpu.io/y elasticgpu.io/v1alpha elasticgpu.io/migrate: nvidia"]) == {
        "elasticgpu.io/role", "elasticgpu.io/gpu", "egpuc.elasticgpu.io/", "resource.kubernetes.io/admin-access", "elasticgpu.io/migrate"}
    assert keys_on("| `egpuc.elasticgpu.io/<name>`, `elasticgpu.io/role` | `a/b` |\n") == {"egpuc.elasticgpu.io/", "elasticgpu.io/role"}
    assert missing_flags('add_option("-n,--name", x); addTimeout(app, "--all")', "- `-n`, `--name`: x\n") == ({"--name", "--all"}, ["--all"])
    lines = ["  -n,--name TEXT REQUIRED (Env:NAME)", " " * 30 + "The name", "  --size UINT:SIZE [b, ...]=2GiB", " " * 30 + "Size", "  --wait INT UNIT=60000ms     Time"]
    assert [reference.line_of(*each) for each in reference.parsed(lines)] == [
        "- `-n`, `--name` (required; environment variable NAME): The name.", "- `--size` (size; default 2GiB): Size.", "- `--wait` (default 1m): Time."]


def main():
    self_check()
    bad = []
    want = reference.wanted(None)
    for name, text in want.items():
        path = os.path.join(FOLDER, name)
        if not os.path.exists(path) or read(path) != text:
            bad.append(f"manifests/guide/reference/{name} is not current: run manifests/site/reference.py")
    manifests = files(".yaml", below=[f"manifests/{each}" for each in ("admission", "crd", "deploy", "migrate", "monitoring", "overlays", "rbac")])
    sources = list(files(".cpp", ".h", ".inc", below=("api", "controller", "provisioners")))
    keys = keys_of(read(os.path.join(root, "api/v1alpha/keys.h")), (read(each) for each in [*manifests, *sources]))
    listed = keys_on(read(os.path.join(FOLDER, "keys.md")))
    bad.extend(f"keys.md lacks {each}" for each in sorted(keys - listed))
    bad.extend(f"keys.md has {each}, which is not in the sources or manifests" for each in sorted(listed - keys))
    code = "\n".join(read(each) for each in sources)
    pages = "\n".join(read(each) for each in files(".md", below=("manifests/guide/reference",)) if os.path.basename(each).startswith("flags-"))
    flags, missing = missing_flags(code, pages)
    bad.extend(f"no page of flags has {each}: run manifests/site/reference.py --bin FOLDER" for each in missing)
    linked = read(os.path.join(FOLDER, "index.md"))
    names = sorted(os.listdir(FOLDER))
    bad.extend(f"index.md does not name {each}" for each in names if each != "index.md" and f"]({each})" not in linked)
    for each in bad:
        print(each)
    print(f"{len(want)} generated pages, {len(keys)} keys, {len(flags)} flags, {len(bad)} wrong")
    return 1 if bad or len(keys) < 20 or len(flags) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
