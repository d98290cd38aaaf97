"""Proves that each place with the version of the product has the same one.  release_test.py SOURCE_DIR"""
import pathlib
import re
import sys

# Place → pattern of the version. Each match in the file must be the version of CMakeLists.txt.
PLACES = {
    "manifests/chart/Chart.yaml": r"^(?:version|appVersion): \"?([\d.]+)",
    "manifests/deploy/controller.yaml": r"image: elastic-gpu-controller:([\d.]+)",
    "manifests/deploy/agent.yaml": r"image: elastic-gpu-controller:([\d.]+)",
    "manifests/kubectl/krew.yaml": r"^  version: v([\d.]+)",
    "manifests/guide/install.md": r"elastic-gpu-controller:(\d[\d.]+\d)",
    "manifests/guide/release.md": r"elastic-gpu-(\d[\d.]+\d)\.tgz",
    "Makefile": r"elastic-gpu-controller:(\d[\d.]+\d)",
    "README.md": r"elastic-gpu-controller:(\d[\d.]+\d)",
    "Containerfile": r"elastic-gpu-controller:(\d[\d.]+\d)",
    "CHANGELOG.md": r"\A# Changelog\s+## ([\d.]+)",
}


def findings(version, texts):
    for path, pattern in PLACES.items():
        found = re.findall(pattern, texts[path], re.M)
        if not found:
            yield f"{path}: no version"
        yield from (f"{path}: {each}, not {version}" for each in found if each != version)


def main(root):
    texts = {path: (root / path).read_text(encoding="utf-8") for path in PLACES}
    version = re.search(r"project\(elastic-gpu VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    bad = list(findings(version, texts))
    if len(list(findings("9.9.9", texts))) < len(PLACES):
        bad.append("another version would not be found in each place")
    for each in bad:
        print(each)
    print(f"version {version}, {len(PLACES)} places, {len(bad)} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
