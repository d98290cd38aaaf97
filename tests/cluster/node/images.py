"""Container images of one layer, each a tar for `ctr images import`: a statically linked busybox, also with programs of the tests, and the installed files of
Elastic GPU."""

import hashlib
import io
import json
import pathlib
import subprocess
import tarfile

# Prints the container's environment, devices and mounts at once; then waits for further commands.
COMMAND = ["/bin/sh", "-c", "got=$(env | sort; find /dev -type c -o -type b | sort; cat /proc/self/mounts); echo \"$got\"; "
           "trap exit TERM; sleep infinity & wait"]
IMAGE_ROOT = pathlib.Path(__file__).resolve().parents[3] / "manifests/dist/image_root.sh"


def busybox(path, program, names, more=()):
    """Writes the image under all these names. more: further programs, in /bin, and libraries; the libraries that they need are added."""
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    files = {"bin/busybox": program} | {f"bin/{each.name}": each for each in more if ".so" not in each.name} | _needed(more)
    _write(path, {"Cmd": COMMAND, "Env": ["PATH=/bin"]}, names, files,
           {f"bin/{each}": "busybox" for each in applets if each != "busybox"}, ("bin", "etc", "tmp", "lib", "lib64", "lib/x86_64-linux-gnu"))


def _needed(programs):
    """Returns the libraries that the dynamic linker loads for them, with their places in the image."""
    found = {}
    for each in programs:
        for line in subprocess.run(["ldd", each], capture_output=True, text=True, check=True).stdout.splitlines():
            words = line.replace("=>", " ").split()
            path = next((word for word in reversed(words) if word.startswith("/")), None)
            if path:
                name = pathlib.Path(path).name
                found[f"lib64/{name}" if name.startswith("ld-linux") else f"lib/x86_64-linux-gnu/{name}"] = path
    return found


def product(path, build_dir, names):
    """Writes an image like the one that the Containerfile builds."""
    stage, root = path.with_suffix(".stage"), path.with_suffix(".root")
    subprocess.run(["cmake", "--install", build_dir, "--strip", "--prefix", stage], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([IMAGE_ROOT, stage, root], check=True)
    found = [(str(each.relative_to(root)), each) for each in sorted(root.rglob("*"))]
    files = {name: each for name, each in found if each.is_file() and not each.is_symlink()}
    links = {name: str(each.readlink()) for name, each in found if each.is_symlink()}
    folders = [name for name, each in found if each.is_dir() and not each.is_symlink()]
    _write(path, {"Entrypoint": ["/opt/elastic-gpu/bin/elastic-gpu-controller"], "Cmd": ["run"], "Env": ["PATH=/opt/elastic-gpu/bin:/usr/bin"],
                  "User": "65532:65532", "ExposedPorts": {}}, names, files, links, folders)


def _write(path, config, names, files, links, folders):
    layer = _tar({name: pathlib.Path(each).read_bytes() for name, each in files.items()}, links, folders)
    described = json.dumps({"architecture": "amd64", "os": "linux", "config": config,
                            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"]}]).encode()
    path.write_bytes(_tar({"layer.tar": layer, "config.json": described, "manifest.json": manifest}))


def _tar(files, links=None, folders=()):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:

        def add(name, kind, content=b"", target=""):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.size, entry.linkname = kind, 0o755, len(content), target
            tar.addfile(entry, io.BytesIO(content))

        for name in folders:
            add(name, tarfile.DIRTYPE)
        for name, content in files.items():
            add(name, tarfile.REGTYPE, content)
        for name, target in (links or {}).items():
            add(name, tarfile.SYMTYPE, target=target)
    return buffer.getvalue()
