"""Packs an installation of small stand-in files as a release, and checks each artefact.  dist_test.py

Exit status 77: skipped, because dpkg-deb, openssl, curl or Debian's busybox-static is missing.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "manifests" / "dist"))
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import dist  # noqa: E402  (the script is in another folder)
from standalone import Report  # noqa: E402

PROGRAM = "/usr/bin/curl"  # loads libraries of several packages
STATIC_PROGRAM = "/bin/busybox"


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    return done.returncode, done.stdout + done.stderr


def pack(installed, out, *options):
    return run(sys.executable, ROOT / "manifests" / "dist" / "dist.py", installed, out, *options)


def install(folder):
    """Writes an installation with a stand-in for each file."""
    for each in dist.PROGRAMS:
        (folder / "bin" / each).parent.mkdir(parents=True, exist_ok=True)
        if each == "kubectl_complete-egpu":
            (folder / "bin" / each).symlink_to("kubectl-egpu")
        else:
            (folder / "bin" / each).write_text(f"#!/bin/sh\necho {each}\n", encoding="utf-8")
            (folder / "bin" / each).chmod(0o755)
    for each, program in (("elastic-gpu-agent", PROGRAM), ("kubectl-egpu", STATIC_PROGRAM)):
        shutil.copy(program, folder / "bin" / each)
    (folder / dist.HOST_PROGRAM).parent.mkdir(parents=True)
    (folder / dist.HOST_PROGRAM).write_text("program\n", encoding="utf-8")
    for place, names in (("lib/provisioners", dist.PLUGINS), ("include/api/plugin", dist.HEADERS)):
        (folder / place).mkdir(parents=True)
        for each in names:
            (folder / place / each).write_text(f"content of {each}\n", encoding="utf-8")


def check_sums(r, out, key, folder):
    lines = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
    artefacts = {each.name for each in out.iterdir()} - {"SHA256SUMS", "SHA256SUMS.sig"}
    r.check("each artefact has its checksum", set(lines) == artefacts and all(hashlib.sha256((out / name).read_bytes()).hexdigest() == total for name, total in lines.items()))
    public, changed = folder / "public.pem", folder / "changed"
    run("openssl", "pkey", "-in", key, "-pubout", "-out", public)
    verify = ("openssl", "dgst", "-sha256", "-verify", public, "-signature", out / "SHA256SUMS.sig")
    r.check("the signature is valid", run(*verify, out / "SHA256SUMS")[0] == 0)
    changed.write_bytes((out / "SHA256SUMS").read_bytes() + b" ")
    r.check("the signature of a changed list is not", run(*verify, changed)[0] != 0)


def check_archives(r, out, name, system):
    def names(file):
        with tarfile.open(out / file) as tar:
            return {each.name: each for each in tar.getmembers()}

    product = names(f"{name}-{system}.tar.gz")
    r.check("the product has its programs", all(product[f"{name}/bin/{each}"].mode & 0o111 for each in dist.PROGRAMS) and f"{name}/LICENSE" in product, sorted(product))
    r.check("the files belong to root", all((each.uid, each.gid, each.mtime) == (0, 0, 1700000000) for each in product.values()))
    plugin = set(names(f"kubectl-egpu-{dist.version()}-{system}.tar.gz"))
    r.check("the plugin for kubectl", plugin == {"LICENSE", "kubectl-egpu", "kubectl_complete-egpu"}, plugin)
    r.check("the headers", "include/api/plugin/provisioner.h" in names(f"elastic-gpu-plugin-{dist.version()}.tar.gz"))
    chart = names(f"{name}.tgz")
    r.check("the chart", {"elastic-gpu/Chart.yaml", "elastic-gpu/values.schema.json", "elastic-gpu/templates/agent.yaml"} <= set(chart) and
            not [each for each in chart if each.endswith(".py") or "argocd" in each or "__pycache__" in each], sorted(chart))


def check_plugin(r, out, system):
    packed = out / f"kubectl-egpu-{dist.version()}-{system}.tar.gz"
    manifest = (out / "krew.yaml").read_text(encoding="utf-8")
    r.check("krew's manifest has its checksum and address", f'sha256: "{hashlib.sha256(packed.read_bytes()).hexdigest()}"' in manifest and
            f"uri: https://example.org/v1/{packed.name}" in manifest, manifest)


def check_debian(r, out, folder):
    package = out / f"elastic-gpu_{dist.version()}_{dist.architecture()}.deb"
    _, about = run("dpkg-deb", "--info", package)
    r.check("the Debian package needs the packages of its programs' libraries", "Depends: ca-certificates, libc6, libcurl4, zlib1g" in about, about)
    status, text = run("dpkg-deb", "--extract", package, folder / "unpacked")
    r.check("it has the programs", status == 0 and (folder / "unpacked/opt/elastic-gpu/bin/elastic-gpu-agent").is_file(), text)
    link = folder / "unpacked/usr/bin/kubectl-egpu"
    r.check("kubectl finds the plugin", os.readlink(link) == "/opt/elastic-gpu/bin/kubectl-egpu")


def check_sbom(r, out, name, installed):
    found = json.loads((out / f"{name}.spdx.json").read_text(encoding="utf-8"))
    wanted = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT"}
    r.check("the SBOM is SPDX 2.3", wanted.items() <= found.items() and re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", found["documentNamespace"]) and
            found["creationInfo"]["created"] == "2023-11-14T22:13:20Z", {key: found[key] for key in wanted})
    identities = [each["SPDXID"] for each in [found, *found["packages"], *found["files"]]]
    ends = {each[end] for each in found["relationships"] for end in ("spdxElementId", "relatedSpdxElement")}
    r.check("its ids are unique, valid and related", len(set(identities)) == len(identities) and ends == set(identities) and
            all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each) for each in identities), ends ^ set(identities))
    sums = {each["fileName"]: each["checksums"][1]["checksumValue"] for each in found["files"]}
    r.check("it has the checksum of each file", sums == {f"./{each.relative_to(installed)}": hashlib.sha256(each.read_bytes()).hexdigest()
                                                         for each in dist.files_of(installed) if not each.is_symlink()})
    r.check("it lists the libraries, also those in kubectl-egpu", {"elastic-gpu", "libcurl4", "libc6", "libssl-dev"} <= {each["name"] for each in found["packages"]})


def check_refused(r, installed, folder):
    status, text = pack(folder / "nothing", folder / "none")
    r.check("a missing installation is refused", status == 1 and "bin/elastic-gpu-agent" in text and "make install" in text, text)
    status, text = pack(installed, folder / "out")
    r.check("a folder with files is refused", status == 1 and "is not empty" in text, text)
    (folder / "bad.pem").write_text("no key\n", encoding="utf-8")
    status, text = pack(installed, folder / "unsigned", "--key", folder / "bad.pem")
    r.check("an invalid key is refused", status == 1 and "no private key" in text and not (folder / "unsigned").exists(), text)
    shutil.copy(PROGRAM, installed / "bin" / "kubectl-egpu")
    status, text = pack(installed, folder / "dynamic")
    r.check("a plugin that needs libraries is refused", status == 1 and "kubectl-egpu is not linked statically" in text, text)


def main():
    if not shutil.which("dpkg-deb") or not shutil.which("openssl") or not os.path.exists(PROGRAM) or not os.path.exists(STATIC_PROGRAM):
        print("skipped: dpkg-deb, openssl, curl or busybox-static is missing")
        return 77
    r = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-dist-") as work:
        folder = pathlib.Path(work)
        installed, out, key = folder / "installed", folder / "out", folder / "key.pem"
        install(installed)
        run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
        status, text = pack(installed, out, "--key", key, "--url", "https://example.org/v1/")
        r.check("the product is packed", status == 0, text)
        name, system = f"elastic-gpu-{dist.version()}", f"linux-{dist.architecture()}"
        check_sums(r, out, key, folder)
        check_archives(r, out, name, system)
        check_plugin(r, out, system)
        check_debian(r, out, folder)
        check_sbom(r, out, name, installed)
        pack(installed, folder / "again", "--url", "https://example.org/v1/")
        r.check("the same input gives the same bytes", (folder / "again/SHA256SUMS").read_bytes() == (out / "SHA256SUMS").read_bytes())
        check_refused(r, installed, folder)
    return r.close()


if __name__ == "__main__":
    sys.exit(main())
