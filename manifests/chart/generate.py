#!/usr/bin/env python3
"""Writes the folder files/ of the chart from the manifests, so that both have one source.

generate.py           write files/
generate.py --check   print the files that are not current; exit status 1 if there are any

The copies have no comments. The templates of the chart read them and change the fields that depend on values.
"""

import pathlib
import sys

import yaml

CHART = pathlib.Path(__file__).resolve().parent
MANIFESTS = CHART.parent
FILES = CHART / "files"
# Folders of the manifests, each copied with all of its objects.
FOLDERS = ("crd", "rbac", "admission", "deploy", "migrate", "monitoring")
# Overlays that set a driver root, with the name of the preset.
PRESETS = ("gpu-operator", "gke", "bottlerocket")
HEADER = "# Written by manifests/chart/generate.py from {}; edit that file.\n"


def without_comments(path):
    """Returns the text without comment lines. Raises ValueError if a line of a block scalar looks like a comment."""
    text = path.read_text(encoding="utf-8")
    text_only = "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))
    if list(yaml.safe_load_all(text_only)) != list(yaml.safe_load_all(text)):
        raise ValueError(f"{path}: a line of a text begins with '#'")
    return text_only.removeprefix("---\n")


def copied():
    """Yields (path below files/, text) of each file with objects."""
    for folder in FOLDERS:
        for path in sorted((MANIFESTS / folder).rglob("*")):
            name = path.relative_to(MANIFESTS)
            if path.suffix == ".json":
                yield name, path.read_text(encoding="utf-8")
            elif path.suffix == ".yaml" and path.name not in ("kustomization.yaml", "prometheusrule.yaml", "rules_test.yaml"):
                yield name, HEADER.format(f"manifests/{name}") + without_comments(path)


def quota_of(overlay):
    """Returns the ResourceQuota of an overlay, or None."""
    path = MANIFESTS / "overlays" / overlay / "quota.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


def driver_root(overlay):
    """Returns the changes of an overlay to the agent: the argument, the mount and the volume."""
    kustomization = yaml.safe_load((MANIFESTS / "overlays" / overlay / "kustomization.yaml").read_text(encoding="utf-8"))
    patch = kustomization["patches"][0]["patch"]
    return dict(zip(("argument", "mount", "volume"), (each["value"] for each in yaml.safe_load(patch))))


def wanted():
    """Returns path below files/ → text."""
    found = dict(copied())
    presets = {each: driver_root(each) | ({"quota": quota} if (quota := quota_of(each)) else {}) for each in PRESETS}
    found[pathlib.Path("driver-roots.yaml")] = HEADER.format("manifests/overlays") + yaml.safe_dump(presets, sort_keys=True)
    return found


def main():
    want = wanted()
    have = {path.relative_to(FILES): path.read_text(encoding="utf-8") for path in FILES.rglob("*") if path.is_file()}
    different = sorted(path for path in want.keys() | have.keys() if want.get(path) != have.get(path))
    if "--check" in sys.argv:
        for path in different:
            print(f"manifests/chart/files/{path} is not current: run manifests/chart/generate.py")
        print(f"{len(want)} files, {len(different)} not current")
        return 1 if different else 0
    for path in different:
        if path in want:
            (FILES / path).parent.mkdir(parents=True, exist_ok=True)
            (FILES / path).write_text(want[path], encoding="utf-8")
        else:
            (FILES / path).unlink()
    print(f"{len(different)} of {len(want)} files written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
