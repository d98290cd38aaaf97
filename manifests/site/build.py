#!/usr/bin/env python3
"""Builds the documentation site from manifests/guide with MkDocs.

build.py FOLDER --mkdocs PROGRAM    writes FOLDER/site; warnings, such as broken links, are errors
build.py FOLDER --pages-only        writes only what MkDocs reads: FOLDER/mkdocs.yml and FOLDER/source

Pages link to documents and pictures beside the sources. MkDocs reads one folder only, so these files are copied to source/tree, with the files
that they link to in turn. llms.txt lists the pages of the navigation for programs that read the site.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

SITE = pathlib.Path(__file__).resolve().parent
ROOT = SITE.parents[1]
GUIDE = ROOT / "manifests" / "guide"
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")


class Pages:
    """The pages of the site: path below source/ → file of the repository."""

    def __init__(self):
        self.files = {}
        self.add(ROOT / "manifests" / "README.md")
        for path in sorted(GUIDE.rglob("*")):
            if path.is_file():
                self.add(path)

    @staticmethod
    def place(path):
        """Returns the path below source/ of a file of the repository."""
        if path == ROOT / "manifests" / "README.md":
            return pathlib.Path("index.md")
        if path.is_relative_to(GUIDE):
            return path.relative_to(GUIDE)
        return pathlib.Path("tree") / path.relative_to(ROOT)

    def add(self, path):
        """Adds a file, and the files that it links to. Returns its path below source/."""
        place = self.place(path)
        if place not in self.files:
            self.files[place] = path
            if path.suffix == ".md":
                for _, target in LINK.findall(path.read_text(encoding="utf-8")):
                    if linked := self.linked(path, target):
                        self.add(linked)
        return place

    @staticmethod
    def linked(path, target):
        """Returns the file that a relative link leads to. A link to a folder leads to its README.md. None: another site, or no file."""
        file = target.partition("#")[0]
        if not file or re.match(r"[a-z]+:", target):
            return None
        found = (path.parent / file).resolve()
        if found.is_dir():
            found /= "README.md"
        return found if found.is_file() else None

    def text(self, place):
        """Returns the Markdown of a page with links between places. A link to a folder without a README.md becomes its text."""
        path = self.files[place]

        def moved(match):
            label, target = match.groups()
            found = self.linked(path, target)
            if found is None:
                is_folder = not re.match(r"[a-z]+:|#", target) and (path.parent / target).is_dir()
                return label[1:-1] if is_folder else match.group()
            up = "/".join([".."] * (len(place.parts) - 1) + list(self.place(found).parts))
            return f"{label}({up}{''.join(target.partition('#')[1:])})"

        return LINK.sub(moved, path.read_text(encoding="utf-8"))

    def write(self, folder):
        for place, path in self.files.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                (folder / place).write_text(self.text(place), encoding="utf-8")
            else:
                shutil.copyfile(path, folder / place)


def summary(text):
    """Returns the first sentence of a page if it begins with one, otherwise its headings."""
    parts = [each for each in text.split("\n\n") if not each.startswith("<!--")]
    first = LINK.sub(lambda link: link[1].strip("[]"), parts[1].replace("\n", " "))
    if found := re.match(r"[A-Z`].*?\.(?=\s|$)", first):
        return found[0]
    return ("; ".join(re.findall(r"^## (.+)", text, re.M)) or "Links to all pages") + "."


def llms(pages):
    """Returns the text of llms.txt: the pages of the navigation, each with its summary."""
    text = "# Elastic GPU\n\n> GPUs in Kubernetes, claimed as storage is claimed: shares of a card, whole cards, or several cards on one node.\n"
    for line in (SITE / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].splitlines():
        if section := re.fullmatch(r"- (.+):", line):
            text += f"\n## {section[1]}\n\n"
        elif page := re.fullmatch(r"  - \"?(.+?)\"?: (\S+)\.md", line):
            name = pathlib.Path(f"{page[2]}.md")
            text += f"- [{page[1]}]({page[2]}.html): {summary(pages.text(name))}\n"
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--mkdocs", type=pathlib.Path)
    parser.add_argument("--pages-only", action="store_true")
    options = parser.parse_args()
    source = options.folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    pages = Pages()
    pages.write(source)
    (source / "llms.txt").write_text(llms(pages), encoding="utf-8")
    shutil.copyfile(SITE / "mkdocs.yml", options.folder / "mkdocs.yml")
    print(f"{len(pages.files)} files in {source}")
    if options.pages_only:
        return 0
    if not options.mkdocs:
        parser.error("--mkdocs PROGRAM or --pages-only is required")
    # Not --quiet, with which MkDocs does not count warnings.
    done = subprocess.run([options.mkdocs, "build", "--strict", "-f", options.folder / "mkdocs.yml"], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
    else:
        print(f"the site begins at {options.folder / 'site' / 'index.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
