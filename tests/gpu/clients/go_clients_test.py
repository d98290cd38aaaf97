#!/usr/bin/env python3
"""Unmodified Go clients of NVML on the fake: go-nvml and go-nvlib (go/main.go) in a limited container and on a card in MIG mode, nvidia-ctk and nvidia-cdi-hook.

go_clients_test.py BUILD_DIR

They are built once, in a cache outside the tree. Exit status 77 (skipped) if Go is missing or too old, or a module is out of reach.
"""
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
MODULE = HERE / "go"
NODES = HERE.parents[1] / "nvml" / "nodes"
TOOLKIT = "github.com/NVIDIA/nvidia-container-toolkit/cmd/"
PROGRAMS = {"cards": ".", "nvidia-ctk": TOOLKIT + "nvidia-ctk", "nvidia-cdi-hook": TOOLKIT + "nvidia-cdi-hook"}
SHARE = 1 << 30
SKIPPED = 77


class Failure(Exception):
    pass


def run(*command, **options):
    return subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False, **options)


def output(*command, **options):
    done = run(*command, **options)
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def build():
    """Returns the folder of the programs."""
    if not shutil.which("go"):
        skip("Go is missing")
    key = hashlib.sha256(b"".join((MODULE / each).read_bytes() for each in ("main.go", "go.mod", "go.sum"))).hexdigest()[:16]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "elastic-gpu"
    folder = cache / f"gpu-clients-go-{key}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "gpu-clients-go.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        environment = os.environ | {"GOFLAGS": "-buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "1"}
        fetched = run("go", "mod", "download", cwd=MODULE, env=environment)
        if fetched.returncode != 0:
            if "checksum mismatch" in fetched.stderr:
                raise Failure(fetched.stderr)
            skip(f"a Go module is out of reach, or Go is too old: {fetched.stderr.strip().splitlines()[-1]}")
        with tempfile.TemporaryDirectory(dir=cache) as beside:
            for name, package in PROGRAMS.items():
                output("go", "build", "-trimpath", "-o", f"{beside}/new/{name}", package, cwd=MODULE, env=environment)
            os.rename(f"{beside}/new", folder)
    return folder


def node(name):
    return yaml.safe_load((NODES / f"{name}.yaml").read_text())


def check(what, seen, expected):
    if seen != expected:
        raise Failure(f"{what}: {seen} instead of {expected}")


def check_share(build_dir, programs):
    """In a limited container, the share is the memory of each card."""
    cards = json.loads(output(build_dir / "bin" / "run_limited", SHARE, programs / "cards"))
    check("cards with a share", [(each["total"], each["used"]) for each in cards], [(SHARE, 0)] * 2)


def check_mig(environment, programs, folder):
    """A MIG device, with the name and memory of its profile, and the profiles of the card."""
    profile = next(each for each in node("a100-mig")["each"]["migProfiles"] if each["name"] == "2g.10gb")
    # Layout of tests/nvml/mig_state.h: a GPU instance 1 with a compute instance 0 of all slices.
    instance = struct.pack("15I", 1, 0, 1, profile["id"], 0, profile["size"], profile["slices"], profile["slices"], *[0] * 7)
    (folder / "mig").write_bytes(instance.ljust(64 * len(instance), b"\0"))
    cards = json.loads(output(programs / "cards", env=environment | {
        "ELASTICGPU_FAKE_NVML": str(NODES / "a100-mig.yaml"), "ELASTICGPU_FAKE_MIG": str(folder / "mig")}))
    check("MIG mode of the cards", [each["mig"] for each in cards], [True, False])
    check("MIG devices", [(each["profile"], each["memory"]) for each in cards[0]["devices"]], [("2g.10gb", profile["memoryMib"] << 20)])
    names = {each["name"] for each in node("a100-mig")["each"]["migProfiles"]}
    check("profiles that go-nvlib does not see", names - set(cards[0]["profiles"]), set())


def driver_root(build_dir, root, driver):
    """Makes a driver root with the fake's libraries and device nodes, as an installation has them."""
    libraries = root / "usr/lib/x86_64-linux-gnu"
    for each in (libraries, root / "dev", root / "usr/bin"):
        each.mkdir(parents=True)
    for name, folder in (("libcuda", "gpu"), ("libnvidia-ml", "nvml")):
        shutil.copy(build_dir / "lib" / folder / f"{name}.so.1", libraries / f"{name}.so.{driver}")
        (libraries / f"{name}.so.1").symlink_to(f"{name}.so.{driver}")
    for name, minor in [("ctl", 255), ("-uvm", 254), *((str(each["minor"]), each["minor"]) for each in node("a100")["devices"])]:
        os.mknod(root / "dev" / f"nvidia{name}", 0o020666, os.makedev(195, minor))


def check_toolkit(build_dir, environment, programs, folder):
    """nvidia-ctk describes the cards of the machine as CDI devices; nvidia-cdi-hook makes the links that it names."""
    root, written = folder / "driver", folder / "cdi" / "nvidia.yaml"
    machine = node("a100")
    driver_root(build_dir, root, machine["driver"])
    written.parent.mkdir()
    output(programs / "nvidia-ctk", "cdi", "generate", "--mode=nvml", f"--driver-root={root}", "--device-name-strategy=uuid",
           f"--nvidia-cdi-hook-path={programs / 'nvidia-cdi-hook'}", f"--output={written}", env=environment)
    spec = yaml.safe_load(written.read_text())
    found = {each["name"]: [n["path"] for n in each["containerEdits"]["deviceNodes"]] for each in spec["devices"] if each["name"] != "all"}
    check("nodes of the CDI devices", found, {each["uuid"]: [f"/dev/nvidia{each['minor']}"] for each in machine["devices"]})
    mounted = {pathlib.Path(each["containerPath"]).name for each in spec["containerEdits"]["mounts"]}
    check("libraries of the driver", {f"libcuda.so.{machine['driver']}", f"libnvidia-ml.so.{machine['driver']}"} - mounted, set())
    listed = output(programs / "nvidia-ctk", "cdi", "list", f"--spec-dir={written.parent}", env=environment).split()
    check("listed CDI devices", {f"nvidia.com/gpu={each}" for each in found} - set(listed), set())
    bundle = folder / "bundle"
    (bundle / "rootfs/usr/lib").mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({"ociVersion": "1.0.0", "root": {"path": "rootfs"}}))
    state = json.dumps({"ociVersion": "1.0.0", "id": "c", "status": "creating", "pid": os.getpid(), "bundle": str(bundle)})
    output(programs / "nvidia-cdi-hook", "create-symlinks", "--link", "libcuda.so.1::/usr/lib/libcuda.so", input=state, env=environment)
    check("link of the hook", os.readlink(bundle / "rootfs/usr/lib/libcuda.so"), "libcuda.so.1")


def main():
    build_dir = pathlib.Path(sys.argv[1]).resolve()
    programs = build()
    environment = os.environ | {"ELASTICGPU_FAKE_NVML": str(NODES / "a100.yaml"), "LD_LIBRARY_PATH": str(build_dir / "lib" / "nvml")}
    with tempfile.TemporaryDirectory(prefix="egpu-go-clients-") as folder:
        check_share(build_dir, programs)
        check_mig(environment, programs, pathlib.Path(folder))
        if os.geteuid() == 0:
            check_toolkit(build_dir, environment, programs, pathlib.Path(folder))
        else:
            print("without root, nvidia-ctk and nvidia-cdi-hook are not run: their device nodes need it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
