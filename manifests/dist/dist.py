#!/usr/bin/env python3
"""Packs an installed product for a release.

dist.py INSTALLED OUT [--key FILE] [--url URL]

INSTALLED is the prefix of `cmake --install`. OUT gets an archive of the product, a Debian package, the Helm chart, the kubectl plugin, which needs
no library, krew's manifest of it, the headers for plugins, an SBOM in SPDX 2.3, and SHA256SUMS; with a private key in PEM also SHA256SUMS.sig, a detached
signature that openssl can verify. URL is the address at which the files will be published, for krew's manifest. The same input gives the same bytes:
times are those of SOURCE_DATE_EPOCH, by default of the last commit.
"""

import argparse
import fnmatch
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "manifests" / "chart"
PREFIX = "opt/elastic-gpu"  # place in the Debian package
PROGRAMS = ("elastic-gpu-controller", "elastic-gpu-agent", "elastic-gpu-standalone", "egpu-plugin-host", "egpu-sanity", "kubectl-egpu", "kubectl_complete-egpu")
PLUGINS = ("libgpushare.so", "libmig.so", "libphysical.so", "libqgpu.so", "libremote.so", "libremote.yaml")
HOST_PROGRAM = "lib/driver-limits/driver-limits"  # the agent installs it on the host
# Packages of the static libraries in kubectl-egpu.
STATIC_LIBRARIES = ("libc6-dev", "libcurl4-openssl-dev", "libfmt-dev", "libre2-dev", "libspdlog-dev", "libssl-dev", "libstdc++-12-dev", "libyaml-cpp-dev", "zlib1g-dev")
HEADERS = ("provisioner.h", "values.h", "provisioner.hpp")


class Failure(Exception):
    pass


def version():
    return re.search(r"project\(elastic-gpu VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


def libraries(installed):
    """Returns the Debian packages of the libraries that the programs and plugins name, and of the certificates that they read."""
    found = set()
    for file in files_of(installed / "bin") + files_of(installed / "lib"):
        listed = subprocess.run(["readelf", "--dynamic", file], capture_output=True, text=True, check=False).stdout
        needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.+)\]", listed))
        loaded = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout if needed else ""
        found |= {path for name, path in re.findall(r"(\S+) => (/\S+)", loaded) if name in needed}
    # Packages have their files in /usr/lib. Older packages have them in /lib, which is a link.
    paths = [f"{prefix}{each.removeprefix('/usr')}" for each in found for prefix in ("", "/usr")]
    owners = subprocess.run(["dpkg-query", "-S", *paths], capture_output=True, text=True, check=False).stdout if paths else ""
    return sorted({"ca-certificates", *(line.partition(":")[0] for line in owners.splitlines())})


def kubectl_plugin(installed):
    """Returns (name in the archive, file) of the plugin for kubectl, which runs on all distributions."""
    listed = subprocess.run(["readelf", "--program-headers", installed / "bin" / "kubectl-egpu"], capture_output=True, text=True, check=False).stdout
    if "INTERP" in listed:
        raise Failure("kubectl-egpu is not linked statically; install the static libraries that controller/cmd/kubectl/CMakeLists.txt names")
    return [("LICENSE", ROOT / "LICENSE"), *((each, installed / "bin" / each) for each in ("kubectl-egpu", "kubectl_complete-egpu"))]


def krew(plugin, url):
    """Returns krew's manifest with the checksum of the plugin's archive and, if a URL is given, its address."""
    text = (ROOT / "manifests" / "kubectl" / "krew.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^( +sha256: ).*", rf'\g<1>"{hashlib.sha256(plugin.read_bytes()).hexdigest()}"', text)
    return re.sub(r"(?m)^( +uri: ).*", rf"\g<1>{url.rstrip('/')}/{plugin.name}", text) if url else text


def architecture():
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def check(installed):
    """Raises Failure with the names of all files that an installation must have and this one lacks."""
    wanted = [f"bin/{each}" for each in PROGRAMS] + [f"lib/provisioners/{each}" for each in PLUGINS] + [f"include/api/plugin/{each}" for each in HEADERS]
    wanted.append(HOST_PROGRAM)
    missing = [each for each in wanted if not (installed / each).exists()]
    if missing:
        raise Failure(f"{installed} lacks {', '.join(missing)}; install the preset release: make install")


def files_of(folder):
    return [each for each in sorted(folder.rglob("*")) if each.is_file() or each.is_symlink()]


def archive(path, entries, seconds):
    """Writes a tar.gz. entries: (name in the archive, file or symbolic link)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, file in sorted(entries, key=lambda entry: entry[0]):
            info = tar.gettarinfo(str(file), arcname=name)
            info.mtime, info.uid, info.gid, info.uname, info.gname = seconds, 0, 0, "root", "root"
            if info.issym():
                info.mode = 0o777
                tar.addfile(info)
            else:
                info.type, info.mode = tarfile.REGTYPE, 0o755 if os.access(file, os.X_OK) else 0o644
                info.size = file.stat().st_size
                with open(file, "rb") as content:
                    tar.addfile(info, content)
    path.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=seconds))


def chart_entries():
    """Yields the files of the chart that `helm package` would pack."""
    ignored = [each for each in (CHART / ".helmignore").read_text(encoding="utf-8").splitlines() if each]
    for file in files_of(CHART):
        name = file.relative_to(CHART)
        if not any(fnmatch.fnmatch(part, pattern.rstrip("/")) for part in name.parts for pattern in ignored):
            yield f"elastic-gpu/{name}", file


def debian(path, installed, seconds):
    control = (f"Package: elastic-gpu\nVersion: {version()}\nArchitecture: {architecture()}\nMaintainer: Elastic GPU maintainers <maintainers@localhost>\nSection: admin\n"
               f"Priority: optional\nDepends: {', '.join(libraries(installed))}\nDescription: GPUs in Kubernetes, claimed as storage is claimed\n"
               " Controller, agent, standalone mode, kubectl plugin, and header for plugins.\n")
    with tempfile.TemporaryDirectory(prefix="egpu-deb-") as folder:
        root = pathlib.Path(folder) / "package"
        shutil.copytree(installed, root / PREFIX, symlinks=True)
        for name, text in (("DEBIAN/control", control), ("usr/share/doc/elastic-gpu/copyright", (ROOT / "LICENSE").read_text(encoding="utf-8"))):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        (root / "usr/bin").mkdir()
        for each in ("kubectl-egpu", "kubectl_complete-egpu"):
            (root / "usr/bin" / each).symlink_to(f"/{PREFIX}/bin/{each}")
        for each in sorted(root.rglob("*")):
            if not each.is_symlink():
                each.chmod(0o755 if each.is_dir() or os.access(each, os.X_OK) else 0o644)
        root.chmod(0o755)
        done = subprocess.run(["dpkg-deb", "--root-owner-group", "--build", "-Zxz", root, path], capture_output=True, text=True, check=False,
                              env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds)})
        if done.returncode:
            raise Failure(f"dpkg-deb: {done.stderr}")


def installed_version(package):
    """Returns the version of a Debian package on this machine, with which the programs were built, or NOASSERTION."""
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else "NOASSERTION"


def sbom(installed, seconds):
    """Returns the SBOM: the product, its files, and the Debian packages that it needs or contains."""
    files, relations = [], [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-elastic-gpu"}]
    for number, file in enumerate(each for each in files_of(installed) if not each.is_symlink()):
        content, identity = file.read_bytes(), f"SPDXRef-File-{number}"
        files.append({"SPDXID": identity, "fileName": f"./{file.relative_to(installed)}", "licenseConcluded": "Apache-2.0", "copyrightText": "NOASSERTION",
                      "checksums": [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, content).hexdigest()} for name in ("sha1", "sha256")]})
        relations.append({"spdxElementId": "SPDXRef-elastic-gpu", "relationshipType": "CONTAINS", "relatedSpdxElement": identity})
    code = hashlib.sha1("".join(sorted(each["checksums"][0]["checksumValue"] for each in files)).encode()).hexdigest()
    packages = [{"SPDXID": "SPDXRef-elastic-gpu", "name": "elastic-gpu", "versionInfo": version(), "downloadLocation": "NOASSERTION", "filesAnalyzed": True,
                 "packageVerificationCode": {"packageVerificationCodeValue": code}, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
                 "copyrightText": "NOASSERTION"}]
    depends = [(name, "DEPENDS_ON") for name in libraries(installed)] + [(name, "STATIC_LINK") for name in STATIC_LIBRARIES]
    for name, relation in depends:
        identity = "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)
        packages.append({"SPDXID": identity, "name": name, "versionInfo": installed_version(name), "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                         "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
                         "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": f"pkg:deb/debian/{name.replace('+', '%2B')}"}]})
        relations.append({"spdxElementId": "SPDXRef-elastic-gpu", "relationshipType": relation, "relatedSpdxElement": identity})
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"elastic-gpu-{version()}",
            "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, code + version() + created)}",
            "creationInfo": {"created": created, "creators": ["Tool: manifests/dist/dist.py"]}, "packages": packages, "files": files, "relationships": relations}


def pack(installed, out, key, url):
    check(installed)
    if key and not key.is_file():
        raise Failure(f"--key: there is no file {key}")
    if key and subprocess.run(["openssl", "pkey", "-in", key, "-noout"], capture_output=True, check=False).returncode:
        raise Failure(f"--key: {key} is no private key in PEM")
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True).stdout
    seconds, name = int(seconds), f"elastic-gpu-{version()}"
    system = f"linux-{architecture()}"
    if out.exists() and any(out.iterdir()):
        raise Failure(f"{out} is not empty")
    out.mkdir(parents=True, exist_ok=True)
    product = [(f"{name}/{each.relative_to(installed)}", each) for each in files_of(installed)]
    archive(out / f"{name}-{system}.tar.gz", [*product, (f"{name}/LICENSE", ROOT / "LICENSE")], seconds)
    plugin = out / f"kubectl-egpu-{version()}-{system}.tar.gz"
    archive(plugin, kubectl_plugin(installed), seconds)
    (out / "krew.yaml").write_text(krew(plugin, url), encoding="utf-8")
    archive(out / f"elastic-gpu-plugin-{version()}.tar.gz",
            [("LICENSE", ROOT / "LICENSE"), *((str(each.relative_to(installed)), each) for each in files_of(installed / "include"))], seconds)
    archive(out / f"{name}.tgz", chart_entries(), seconds)
    debian(out / f"elastic-gpu_{version()}_{architecture()}.deb", installed, seconds)
    (out / f"{name}.spdx.json").write_text(json.dumps(sbom(installed, seconds), indent=1) + "\n", encoding="utf-8")
    sums = out / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in sorted(out.iterdir())), encoding="utf-8")
    if key:
        done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key, "-out", out / "SHA256SUMS.sig", sums], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"--key: openssl cannot sign with {key}: {done.stderr}")
    for each in sorted(out.iterdir()):
        print(f"{each.stat().st_size:>12}  {each.name}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("installed", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--key", type=pathlib.Path)
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    try:
        pack(options.installed.resolve(), options.out, options.key, options.url)
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
