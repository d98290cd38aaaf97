"""Builds the container image of the Containerfile from programs that are already built, and runs each program in it.  image_test.py BUILD_DIR

Exit status 77: skipped, because buildah is missing or cannot run here.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from standalone import Report  # noqa: E402  (the script is in another folder)

MAX_SIZE = 60_000_000  # bytes
PROGRAMS = "/opt/elastic-gpu/bin"


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=240)
    return done.returncode, (done.stdout + done.stderr).strip()


class Buildah:
    """buildah with a separate storage, and without namespaces, which can be missing in a container of a test machine."""

    def __init__(self, folder):
        self.folder = folder
        os.environ.update(STORAGE_DRIVER="vfs", BUILDAH_ISOLATION="chroot")

    def __call__(self, *arguments):
        return run("buildah", "--root", self.folder / "storage", "--runroot", self.folder / "run", *arguments)

    def obstacle(self):
        """Returns why containers cannot run here; empty = they can."""
        status, container = self("from", "scratch")
        for command in (("copy", container, "/bin/busybox", "/busybox"), ("run", container, "--", "/busybox", "true")):
            if status == 0:
                status, text = self(*command)
        return "" if status == 0 else text or container


def check_image(r, buildah, stages):
    # The stage "build" of the Containerfile is replaced by a folder with its result.
    status, text = buildah("bud", "--quiet", "--build-context", f"build={stages}", "-f", ROOT / "Containerfile", "-t", "product", ROOT)
    r.check("the image is built", status == 0, text)
    _, listed = buildah("inspect", "--type", "image", "localhost/product")
    config = json.loads(listed)["OCIv1"]["config"]
    r.check("it runs the controller, not as root", (config["User"], config["Entrypoint"], config["Cmd"]) ==
            ("65532:65532", [f"{PROGRAMS}/elastic-gpu-controller"], ["run"]), config)


def check_content(r, buildah):
    _, container = buildah("from", "localhost/product")
    for program, argument, wanted in (("elastic-gpu-controller", "--version", "0."), ("elastic-gpu-agent", "--help", "--node"),
                                      ("egpu-plugin-host", "", "usage"), ("tar", "--version", "GNU tar")):
        status, text = buildah("run", container, "--", program, *([argument] if argument else []))
        r.check(f"the image runs {program}", wanted.lower() in text.lower() and "cannot open shared object" not in text, (status, text))
    r.check("it has no shell", buildah("run", container, "--", "/bin/sh", "-c", "true")[0] != 0)


def check_files(r, root):
    size = sum(each.stat().st_size for each in root.rglob("*") if each.is_file() and not each.is_symlink())
    print(f"the image has {size / 1e6:.0f} MB")
    r.check("it has at most 60 MB", size <= MAX_SIZE, size)
    packages = {each.name for each in (root / "var/lib/dpkg/status.d").iterdir()}
    r.check("scanners find the packages of its libraries", {"libc6", "libcurl4", "libssl3", "zlib1g"} <= packages, packages)
    unlicensed = [each for each in packages if not (root / "usr/share/doc" / each / "copyright").is_file()]
    r.check("each package has its licence", not unlicensed, unlicensed)
    r.check("it has certificates of public authorities", (root / "etc/ssl/certs/ca-certificates.crt").stat().st_size > 100_000)
    plugins = {each.name for each in (root / "opt/elastic-gpu/lib/provisioners").iterdir()}
    wanted = {"libgpushare.so", "libmig.so", "libphysical.so", "libqgpu.so", "libremote.so", "libremote.yaml"}
    r.check("it has the plugins for real GPUs only", plugins == wanted, plugins)


def main():
    build_dir = pathlib.Path(sys.argv[1]).resolve()
    if not shutil.which("buildah") or not os.path.exists("/bin/busybox") or os.geteuid() != 0:
        print("skipped: buildah or busybox is missing, or this is not root")
        return 77
    r = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-image-") as work:
        folder = pathlib.Path(work)
        buildah = Buildah(folder)
        if why := buildah.obstacle():
            print(f"skipped: buildah cannot run here: {why}")
            return 77
        script = ROOT / "manifests" / "dist" / "image_root.sh"
        subprocess.run(["cmake", "--install", build_dir, "--strip", "--prefix", folder / "installed"], check=True, stdout=subprocess.DEVNULL)
        status, text = run(script, folder / "installed", folder / "stages" / "image")
        r.check("its files are collected", status == 0, text)
        r.check("a folder with files is refused", run(script, folder / "installed", folder / "stages" / "image")[0] == 1)
        check_image(r, buildah, folder / "stages")
        check_content(r, buildah)
        check_files(r, folder / "stages" / "image")
    return r.close()


if __name__ == "__main__":
    sys.exit(main())
