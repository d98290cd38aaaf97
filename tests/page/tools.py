"""Tools of page_test.py from package registries, kept in a folder for the next run. A tool that is missing skips the test: exit status 77."""
import fcntl
import glob
import os
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.realpath(__file__))
AXE = "axe-core@4.14.1"
SKIPPED = 77


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def run(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def client(folder):
    """Makes the DevTools client importable. Concurrent tests wait for each other."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install_client(folder)
    sys.path += glob.glob(os.path.join(folder, "python", "lib", "python*", "site-packages"))


def install_client(folder):
    wanted = os.path.join(HERE, "clients.txt")
    installed = os.path.join(folder, "python", "installed")
    with open(wanted, encoding="utf-8") as file:
        text = file.read()
    if not os.path.exists(installed) or open(installed, encoding="utf-8").read() != text:
        shutil.rmtree(os.path.join(folder, "python"), ignore_errors=True)
        made = run(sys.executable, "-m", "venv", os.path.join(folder, "python"))
        if made.returncode != 0:
            skip("cannot make a virtual environment; Debian has it in python3-venv")
        pip = os.path.join(folder, "python", "bin", "pip")
        got = run(pip, "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", wanted)
        if got.returncode != 0 and run(pip, "--quiet", "index", "versions", "websocket-client").returncode == 0:
            sys.exit(f"the package index is reachable, but does not give the versions of {wanted}: {got.stderr}")
        if got.returncode != 0:
            skip("the package index is out of reach")
        with open(installed, "w", encoding="utf-8") as file:
            file.write(text)


def axe(folder):
    """Returns the source of axe-core, a checker of WCAG rules."""
    source = os.path.join(folder, AXE, "package", "axe.min.js")
    if not os.path.exists(source):
        if not shutil.which("npm"):
            skip("npm is missing, with which axe-core is fetched")
        os.makedirs(os.path.join(folder, AXE), exist_ok=True)
        got = run("npm", "pack", "--silent", AXE, cwd=os.path.join(folder, AXE))
        archives = glob.glob(os.path.join(folder, AXE, "*.tgz"))
        if got.returncode != 0 or not archives:
            skip("the npm registry is out of reach")
        with tarfile.open(archives[0]) as archive:
            archive.extract("package/axe.min.js", os.path.join(folder, AXE))
    with open(source, encoding="utf-8") as file:
        return file.read()
