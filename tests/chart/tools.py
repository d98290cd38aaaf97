"""Helm, promtool and kubectl for the tests of the chart and of the monitoring files, and the objects that they print."""

import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

import parts  # noqa: E402  (the cluster's modules are in another folder)
from pki import Failure  # noqa: E402

MANIFESTS = ROOT / "manifests"
CHART = MANIFESTS / "chart"
HELMS = ("helm-4", "helm-3")
RETAIN = {"helm.sh/resource-policy": "keep"}


def tool(name):
    """Returns the path of helm-3, helm-4 or promtool. Raises parts.Skip if it is not built, whatever the environment requires: `make tools` takes as long
    as the rest of a cluster."""
    status, folder, _ = run(ROOT / "tests" / "cluster" / "build.sh", "--built", name)
    if status == parts.SKIPPED:
        raise parts.Skip(f"{name} is not built; make tools builds it from its Go module (Go >= 1.26)")
    if status:
        raise Failure(f"build.sh --built {name} failed")
    return pathlib.Path(folder.strip()) / name


def run(*command, **options):
    """Returns (exit status, standard output, error output)."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def objects(text):
    """Returns the objects of a YAML stream: (apiVersion, kind, namespace, name) → object."""
    found = {}
    for each in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if each:
            key = (each["apiVersion"], each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
            if key in found:
                raise Failure(f"two objects {key}")
            found[key] = each
    return found


def without_empty_lines(value):
    """Returns the value with no empty lines in its texts: kubectl kustomize writes folded texts with additional ones."""
    if isinstance(value, dict):
        return {key: without_empty_lines(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_empty_lines(each) for each in value]
    return re.sub(r"\n+", "\n", value) if isinstance(value, str) else value


def kustomized(folder):
    """Returns the objects of a folder with a kustomization, below manifests/."""
    status, text, error = run(parts.kubectl_for_folders(), "kustomize", MANIFESTS / folder)
    if status:
        raise Failure(f"kubectl kustomize {folder}: {error}")
    return objects(text)


def without_retain(rendered):
    """Removes the annotation that only the chart sets, so that the objects can be compared with those of the kustomization."""
    for each in rendered.values():
        if each["metadata"].get("annotations") == RETAIN:
            del each["metadata"]["annotations"]
    return rendered
