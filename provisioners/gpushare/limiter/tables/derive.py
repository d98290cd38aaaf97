"""Derives the tables of this folder from public facts: names and version numbers only, no text of NVIDIA's headers.

  derive.py HEADERS SYMBOLS NVML_CLIENT

HEADERS      folder with one subfolder per CUDA release, each with cuda.h and cudaTypedefs.h from the PyPI wheels
             nvidia-cuda-runtime, nvidia-cuda-runtime-cu11 and -cu12. The subfolder's name ends with the release (13.5.37).
SYMBOLS      folder with Debian's symbols files: libcuda1-<driver> and libnvidia-ml1-<driver>
NVML_CLIENT  pynvml.py of the PyPI wheel nvidia-ml-py

Writes cuda_exports.tsv  (name, first driver or CUDA release that lists it, drivers whose symbols file lists it),
       cuda_versions.tsv (name for cuGetProcAddress, 1 for a per-thread default stream, CUDA version, symbol), and
       nvml_exports.tsv  (name, first driver that lists it, or "client")."""
import collections
import os
import re
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
DEBIAN = re.compile(r"^ (?:\(arch=!?[\w ]+\))?(\w+)@Base ([\d.]+)", re.M)
DECLARED = re.compile(r"^\s*CUresult\s+CUDAAPI\s+(cu[A-Z]\w+)\s*\(", re.M)
ALIAS = re.compile(r"^\s*#\s*define\s+(cu[A-Z]\w+)\s+(?:(__CUDA_API_PT\w\w)\s*\(\s*)?(cu\w+)", re.M)
TYPEDEF = re.compile(r"\*\s*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\s*\)")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def release(folder):
    return tuple(int(part) for part in re.search(r"(\d+)\.(\d+)[\d.]*$", folder).groups())


def debian(folder, package):
    """{driver: {name: first driver}} of a library's symbols files."""
    out = {}
    for name in sorted(os.listdir(folder)):
        if match := re.fullmatch(re.escape(package) + r"-(\d+)", name):
            out[int(match[1])] = dict(DEBIAN.findall(read(os.path.join(folder, name))))
    return out


def declared(text):
    """Names that the header's functions have in the library."""
    names = set(DECLARED.findall(text))
    for _, per_thread, target in ALIAS.findall(text):
        names.add(target)
        if per_thread:
            names.add(target + per_thread[len("__CUDA_API"):].lower())
    return names


def number(symbol):
    match = re.search(r"_v(\d+)(?:_pt\w\w)?$", symbol)
    return int(match[1]) if match else 1


def version_rows(headers, names):
    """(name, per thread, version, symbol): the n-th version of a name belongs to the n-th symbol."""
    versions = collections.defaultdict(set)
    for text in headers:
        for base, version, suffix in TYPEDEF.findall(text):
            versions[base, suffix].add(int(version))
    for (base, suffix), found in sorted(versions.items()):
        symbols = sorted((n for n in names if re.fullmatch(re.escape(base) + r"(_v\d+)?" + suffix, n)), key=number)
        if len(symbols) != len(found):
            sys.exit(f"derive.py: {base}{suffix} has the versions {sorted(found)}, but the symbols {symbols}")
        for version, symbol in zip(sorted(found), symbols):
            yield base, 1 if suffix else 0, version, symbol


def write(name, rows):
    with open(os.path.join(HERE, name), "w", encoding="ascii") as file:
        for row in rows:
            file.write("\t".join(str(cell) for cell in row) + "\n")


def exports(listed, others):
    """Rows of all names: Debian's own with their drivers, then those of other sources."""
    first = {}
    for driver in sorted(listed):
        first.update(listed[driver])
    drivers = {name: ",".join(str(d) for d in sorted(listed) if name in listed[d]) for name in first}
    rows = {name: (name, since, drivers[name]) for name, since in first.items()}
    for name, source in others.items():
        rows.setdefault(name, (name, source, "-"))
    return [rows[name] for name in sorted(rows)]


def main(headers, symbols, client):
    releases = sorted((f for f in os.listdir(headers) if re.search(r"\d+\.\d+", f)), key=release)
    seen = {}
    for folder in releases:
        for name in declared(read(os.path.join(headers, folder, "cuda.h"))):
            seen.setdefault(name, "cuda" + ".".join(map(str, release(folder))))
    cuda = {d: {n: v for n, v in names.items() if re.match("cu[A-Z]", n)} for d, names in debian(symbols, "libcuda1").items()}
    rows = exports(cuda, seen)
    write("cuda_exports.tsv", rows)
    typedefs = [read(os.path.join(headers, folder, "cudaTypedefs.h")) for folder in releases]
    write("cuda_versions.tsv", version_rows(typedefs, {row[0] for row in rows}))
    nvml = {d: {n: v for n, v in names.items() if n.startswith("nvml")} for d, names in debian(symbols, "libnvidia-ml1").items()}
    asked = {name: "client" for name in re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)', read(client))}
    write("nvml_exports.tsv", exports(nvml, asked))


if __name__ == "__main__":
    main(*sys.argv[1:])
