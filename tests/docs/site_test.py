"""Builds the documentation site: it has each page of the guide, needs no other host, llms.txt lists its pages, and a broken link fails the build.

site_test.py FOLDER    with MkDocs in the folder EGPU_VENV (tests/setup/venv.sh)
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "manifests" / "guide"
MKDOCS = pathlib.Path(os.environ["EGPU_VENV"]) / "mkdocs"
# A script, style, font or picture of another host. Links that a reader follows are permitted.
FOREIGN = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//|<link[^>]*\shref="(?:https?:)?//|@import\s+url\((?:https?:)?//')


def build(folder):
    done = subprocess.run([sys.executable, ROOT / "manifests" / "site" / "build.py", folder, "--mkdocs", MKDOCS], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def wrong_in_llms(site, source):
    """llms.txt has a line with a summary for each page of the guide, by a link that exists."""
    listed = re.findall(r"^- \[.+?\]\((\S+)\.html\): (.+)$", (site / "llms.txt").read_text(encoding="utf-8"), re.M)
    names = {name for name, _ in listed}
    yield from (f"llms.txt: there is no {name}.html" for name in sorted(names) if not (site / f"{name}.html").is_file())
    yield from (f"llms.txt: {name} has no summary" for name, text in listed if len(text.split()) < 3)
    expected = {str(each.relative_to(GUIDE).with_suffix("")) for each in GUIDE.rglob("*.md")}
    yield from (f"llms.txt lacks {each}" for each in sorted(expected - names) if (source / f"{each}.md").is_file())


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    status, text = build(folder)
    bad = [f"the build fails: {text}"] if status else []
    site = folder / "site"
    pages = sorted(GUIDE.rglob("*.md"))
    for page in pages:
        if not (site / page.relative_to(GUIDE).with_suffix(".html")).is_file():
            bad.append(f"{page.relative_to(ROOT)} is not in the site")
    built = sorted(site.rglob("*.html"))
    bad.extend(f"{each} needs another host" for each in built if FOREIGN.search(each.read_text(encoding="utf-8")))
    bad.extend(wrong_in_llms(site, folder / "source"))
    page = folder / "source" / "concepts.md"
    broken = ("no-such-page.md", "install.md#no-such-heading", "no-such-picture.svg")
    with open(page, "a", encoding="utf-8") as f:
        f.writelines(f"\n[x]({each})\n" for each in broken)
    done = subprocess.run([MKDOCS, "build", "--strict", "-f", folder / "mkdocs.yml", "-d", folder / "broken"], capture_output=True, text=True, check=False)
    bad.extend(f"the link to {each} does not fail the build: {done.stderr}" for each in broken if done.returncode == 0 or f"'{each}'" not in done.stderr)
    for each in bad:
        print(each)
    print(f"{len(pages)} pages, {len(built)} HTML files, {len(bad)} wrong")
    return 1 if bad or len(pages) < 20 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
