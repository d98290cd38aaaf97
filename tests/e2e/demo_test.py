"""Runs the demonstration of `make run`, and checks its suggestions.  demo_test.py BIN_DIR

Each suggestion is a page of the guide or a target of the Makefile. Other tests run the target and the commands of the guide."""
import os
import re
import subprocess
import sys

from standalone import ROOT, Report

# Target that a suggestion may name -> file and text of the test that runs it.
TARGETS = {"make cluster": ("tests/cluster/up_test.py", "`make cluster`")}


def suggestions(text):
    """Returns (purpose, page or command) for each line after "Next:"."""
    _, found, after = text.partition("\nNext:\n")
    return [re.split(r"  +", line.strip(), maxsplit=1) for line in after.splitlines() if line.strip()] if found else []


def works(what):
    """Returns why a suggestion does not work, or an empty text."""
    if not what.startswith("make "):
        if not os.path.isfile(os.path.join(ROOT, what)):
            return "there is no such file"
        with open(os.path.join(ROOT, "manifests", "README.md"), encoding="utf-8") as index:
            return "" if f"({what.removeprefix('manifests/')})" in index.read() else "manifests/README.md does not list it"
    if what not in TARGETS:
        return "no test runs it: add it to TARGETS"
    file, text = TARGETS[what]
    with open(os.path.join(ROOT, file), encoding="utf-8") as test:
        if text not in test.read():
            return f"{file} does not mention it"
    tried = subprocess.run(["make", "--dry-run", "-C", ROOT, *what.split()[1:]], capture_output=True, text=True, check=False)
    return tried.stderr if tried.returncode else ""


def main():
    r = Report()
    done = subprocess.run([os.path.join(ROOT, "tests", "e2e", "demo.sh"), sys.argv[1]], stdout=subprocess.PIPE, text=True, check=False)
    r.check("the demonstration ends well", done.returncode == 0, done.stdout)
    found = suggestions(done.stdout)
    r.check("it ends with what to try next", len(found) >= 5 and all(len(each) == 2 for each in found), found or done.stdout[-2000:])
    for purpose, what in (each for each in found if len(each) == 2):
        why = works(what)
        r.check(f"{purpose} {what}", not why, why)
    return r.close()


if __name__ == "__main__":
    sys.exit(main())
