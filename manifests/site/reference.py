#!/usr/bin/env python3
"""Writes the generated pages of manifests/guide/reference: fields, class parameters, flags and the plugin ABI.

reference.py --bin FOLDER            writes the pages; the flags are those of the programs in FOLDER, by their --help
reference.py --bin FOLDER --check    prints the pages that are not current; exit status 1 if there are any

Sources: manifests/crd, the tables of parameters in controller/scheduler/README.md and provisioners/*/README.md, the help texts of the programs,
and api/plugin/*.h. Without --bin, the pages of flags are left as they are.
"""

import argparse
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "manifests" / "guide" / "reference"
HEADER = "<!-- Written by manifests/site/reference.py; edit {}. -->\n\n"


def plain(text):
    """Returns the text in one line, as a sentence that Markdown does not change."""
    text = " ".join(text.split())
    return re.sub(r"([*|])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;")).rstrip(". ")


# Fields

# page → (title, kind, introduction, [(heading, path of a schema, paths below it that another page has)])
FIELDS = {
    "claim.md": ("ElasticGPUClaim", "elasticgpuclaims",
                 "A request for a GPU: [Concepts](../concepts.md). An ElasticGPUClaimTemplate has the fields of `spec` below `spec.spec`, and labels "
                 "and annotations of its claims in `spec.metadata`.",
                 [("spec", "spec", ())]),
    "claim-status.md": ("Status of an ElasticGPUClaim", "elasticgpuclaims", "Conditions: [Conditions of claims](../conditions.md#claims).",
                        [("status", "status", ())]),
    "class.md": ("ElasticGPUClass", "elasticgpuclasses", "The way to serve claims: [Classes and parameters](../classes.md).", [("Fields", "", ())]),
    "quota.md": ("ElasticGPUQuota", "elasticgpuquotas", "Limits for the claims of a namespace: [Quotas](../quotas.md).",
                 [("spec", "spec", ()), ("status", "status", ())]),
    "card.md": ("ElasticGPU: card", "elasticgpus", "The fields of a card, which its node's agent publishes. Other fields: [device](device.md), [status](gpu-status.md).",
                [("spec.card", "spec.card", ()), ("spec.allocations", "spec.allocations", ())]),
    "device.md": ("ElasticGPU: device", "elasticgpus", "The fields of a device, the GPU of one claim. Other fields: [card](card.md), [status](gpu-status.md).",
                  [("spec", "spec", ("spec.card", "spec.allocations"))]),
    "gpu-status.md": ("Status of an ElasticGPU", "elasticgpus", "Conditions: [Conditions of cards and devices](../card-conditions.md).", [("status", "status", ())]),
}
# Fields that each object has, or that all conditions have alike.
COMMON = {"apiVersion", "kind", "metadata"}


def plural(kind):
    return kind.removesuffix("y") + "ies" if kind.endswith("y") else kind + "s"


def kind_of(schema):
    """Returns the type of a field, with its valid values."""
    kind = "quantity" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "any")
    if kind == "array":
        kind = f"list of {plural(kind_of(schema['items']))}"
    if kind == "object" and "additionalProperties" in schema:
        kind = f"map of {plural(kind_of(schema['additionalProperties']))}"
    if "enum" in schema:
        kind = "one of " + ", ".join(str(each) or '""' for each in schema["enum"])
    if "minimum" in schema and "maximum" in schema and abs(schema["maximum"]) < 10**9:
        kind += f", {schema['minimum']} to {schema['maximum']}"
    return kind


def rows(schema, path, skipped):
    """Yields the line of each field below a schema."""
    for name, field in schema.get("properties", {}).items():
        at = f"{path}.{name}" if path else name
        if at in skipped or at in COMMON:
            continue
        required = "; required" if name in schema.get("required", []) else ""
        yield f"- `{at}` ({kind_of(field)}{required}): {plain(field.get('description', ''))}."
        if name == "conditions":
            continue
        inner = field.get("additionalProperties") if isinstance(field.get("additionalProperties"), dict) else field
        suffix = "." + "*" if inner is not field else ""
        while inner.get("type") == "array":
            inner, suffix = inner["items"], suffix + "[]"
        yield from rows(inner, at + suffix, skipped)


def fields(title, kind, introduction, parts):
    path = ROOT / "manifests" / "crd" / f"elasticgpu.io_{kind}.yaml"
    versions = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]["versions"]
    root = next(each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == "v1alpha")
    text = HEADER.format(path.relative_to(ROOT)) + f"# {title}\n\n{introduction}\n"
    for heading, at, skipped in parts:
        schema = root
        for name in filter(None, at.split(".")):
            schema = schema["properties"][name]
        what = f"\n{plain(schema['description'])}.\n" if at else ""
        # A map or list of objects is its own part: its entries follow.
        inner, suffix = schema, ""
        if isinstance(schema.get("additionalProperties"), dict):
            inner, suffix = schema["additionalProperties"], ".*"
        text += f"\n## {heading}\n{what}\n" + "\n".join(rows(inner, at + suffix, skipped)) + "\n"
    return text


# Class parameters

def tables(path):
    """Yields (heading, rows) of each table "Parameter | Value | Meaning" of a document."""
    heading, found = "", None
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        cells = [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if found is not None and not cells:
            yield heading, found
            found = None
        elif found is not None and not set("".join(cells)) <= set("-: "):
            found.append(cells)
        elif cells[:2] == ["Parameter", "Value"]:
            found = []


def beside(text, folder):
    """Returns the text with links as they are from the folder of the pages."""
    def moved(match):
        if match[1].startswith("#"):
            return f"](../../../{folder}/README.md{match[1]})"
        return f"](../../../{folder}/{match[1]})"
    return re.sub(r"\]\(([^)]+)\)", moved, text)


def parameters():
    text = HEADER.format("the tables in controller/scheduler/README.md and provisioners/*/README.md") + "# Class parameters\n\n"
    text += "All values are strings. An unknown parameter or value makes the class not Ready; the message lists the valid ones.\n"
    for folder in ("controller/scheduler", *sorted(str(each.parent.relative_to(ROOT)) for each in (ROOT / "provisioners").glob("*/README.md"))):
        path = ROOT / folder / "README.md"
        first = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        for _, found in tables(path):
            heading = "Every provisioner" if folder.startswith("controller") else f"`{first}`"
            lines = [" | ".join(beside(each, folder) for each in cells) for cells in found]
            text += f"\n## {heading}\n\n| Parameter | Value | Meaning |\n|---|---|---|\n" + "".join(f"| {each} |\n" for each in lines)
    return text


# Flags

def help_of(folder, *words):
    done = subprocess.run([folder / words[0], *words[1:], "--help"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def parsed(lines):
    """Returns (head, description) of each flag and positional argument of a help text. A description begins in column 30, or in the next line."""
    found = []
    for number, line in enumerate(lines):
        if line.startswith(" " * 30):
            found[-1] = (found[-1][0], " ".join(filter(None, (found[-1][1], line.strip()))))
        elif re.match(r"  \S", line):
            following = lines[number + 1] if number + 1 < len(lines) else ""
            whole = following.startswith(" " * 30) or line[29:30] != " "
            found.append((line.strip(), "") if whole else (line[:30].strip(), line[30:].strip()))
    return found


def shown(milliseconds):
    """Returns a duration in its largest whole unit."""
    for unit, size in (("h", 3600000), ("m", 60000), ("s", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def line_of(head, description):
    """Returns the line of a flag, or None for those that every program has."""
    names, _, rest = head.partition(" ")
    if names in ("-h,--help", "--version"):
        return None
    notes, (names, default) = [], re.match(r"([^{]*)(?:\{(.*)\})?$", names).groups()
    if default:
        notes.append(f"{default} without a value")
    if values := re.search(r"TEXT:\{([^}]*)\}", rest):
        notes.append("one of " + ", ".join(values[1].split(",")))
    if values := re.search(r"INT in \[(-?\d+) - (-?\d+)\]", rest):
        notes.append(f"{values[1]} to {values[2]}")
    for kind, what in (("TEXT:DIR", "folder"), ("TEXT:FILE", "file"), ("DURATION:", "duration"), (":SIZE", "size"), ("NONNEGATIVE", "number")):
        if kind in rest:
            notes.append(what)
    if "REQUIRED" in rest:
        notes.append("required")
    if rest.endswith("...") and "repeatable" not in description:
        notes.append("repeatable")
    if value := re.search(r"(?<==)[^\s()=]+(?=$| \(| Excludes| Needs)", re.sub(r"\[[^\]]*\]", "", rest)):
        duration = re.fullmatch(r"(\d+)(ms|s)", value[0])
        notes.append("default " + (shown(int(duration[1]) * (1 if duration[2] == "ms" else 1000)) if duration else value[0]))
    if value := re.search(r"\(Env:(\w+)\)", rest):
        notes.append(f"environment variable {value[1]}")
    for word, what in (("Excludes", "not with"), ("Needs", "only with")):
        if value := re.search(rf"{word}: ([-\w ]*?)(?=$| \(| Excludes| Needs)", rest):
            notes.append(f"{what} " + ", ".join(value[1].split()))
    name = ", ".join(f"`{each}`" for each in names.split(","))
    return f"- {name}" + (f" ({plain('; '.join(notes))})" if notes else "") + f": {plain(description)}."


def flags_of(folder, *words):
    return [each for each in (line_of(*pair) for pair in parsed(help_of(folder, *words))) if each and each.startswith("- `-")]


def name_of(line):
    return re.search(r"`(--[\w-]+)`", line)[1]


def flag_pages(folder):
    """Returns page → text of the flags of each program."""
    def page(title, introduction, *parts):
        text = HEADER.format("the help texts of the programs") + f"# {title}\n\n{introduction}\n"
        return text + "".join(f"\n## {heading}\n\n" + "\n".join(lines) + "\n" for heading, lines in parts if lines)

    run = flags_of(folder, "elastic-gpu-controller", "run")
    standalone = flags_of(folder, "elastic-gpu-standalone")
    agent = flags_of(folder, "elastic-gpu-agent")
    sanity = [f"- `{each[1]}`: {plain(each[2])}." for each in
              (re.match(r"  (--[\w-]+(?: [A-Z=]+)?)\s{2,}(.*)", line) for line in help_of(folder, "egpu-sanity")) if each]
    verbs = [each[1] for each in (re.match(r"  ([a-z][a-z-]+) {2,}\S", line) for line in help_of(folder, "kubectl-egpu")) if each and each[1] != "completion"]
    of_verb = {verb: flags_of(folder, "kubectl-egpu", verb) for verb in verbs}
    # All verbs have the same -o, except map, which has more outputs. bill reads files, so it has no flags of the cluster.
    everywhere = [line for line in of_verb["why"] if sum(line in lines for verb, lines in of_verb.items() if verb != "bill") >= len(verbs) - 2]
    shared = [name_of(line) for line in standalone if line in run]
    return {
        "flags-controller.md": page("Flags of the controller", "Flags of `elastic-gpu-controller run`. Commands: `controller/cmd/README.md`.", ("run", run)),
        "flags-agent.md": page("Flags of the agent", "Flags of `elastic-gpu-agent`: [Node requirements](../node-requirements.md).", ("elastic-gpu-agent", agent)),
        "flags-standalone.md": page(
            "Flags of the standalone mode", "Flags of `elastic-gpu-standalone`, which `elastic-gpu-controller standalone` also starts.",
            ("Own flags", [line for line in standalone if line not in run]),
            ("Flags with the same meaning as for the controller", ["[Flags of the controller](flags-controller.md): " + ", ".join(f"`{each}`" for each in shared) + "."])),
        "flags-kubectl-egpu.md": page(
            "Flags of kubectl egpu", "The verbs: [kubectl egpu](../kubectl-egpu.md).", ("Every verb except bill, unless it is listed again below", everywhere),
            *((verb, [line for line in lines if verb == "bill" or line not in everywhere]) for verb, lines in of_verb.items())),
        "flags-tools.md": page(
            "Flags of defrag, journal and egpu-sanity", "`defrag` and `journal` are commands of `elastic-gpu-controller`: `controller/cmd/README.md`.",
            ("defrag", flags_of(folder, "elastic-gpu-controller", "defrag")), ("journal", flags_of(folder, "elastic-gpu-controller", "journal")), ("egpu-sanity", sanity)),
    }


# Plugin ABI

def comment(text):
    """Returns the first sentence of a C comment."""
    text = " ".join(re.sub(r"^\s*\*(?!/)", "", line).strip() for line in text.splitlines())
    return plain(re.split(r"(?<=[.])\s+", text.strip())[0])


def members(body):
    """Yields (name, comment) of the members of a struct or table whose comment is before them, or after them in the line."""
    for text, name, slot, after in re.findall(r"(?:/\*\*([^/]*(?:/(?!\*)[^/]*)*?)\*/\s*)?\n  (?:[\w ]+?[ *]+(?:const\s*\*?\s*)?(\w+)|(?:\w+[ *]+)\(\*(\w+)\)\([^)]*\));"
                                              r"(?:[ \t]*/\*\*<(.*?)\*/)?", body, re.S):
        yield name or slot, comment(text or after)


def abi():
    contract = (ROOT / "api" / "plugin" / "provisioner.h").read_text(encoding="utf-8")
    values = (ROOT / "api" / "plugin" / "values.h").read_text(encoding="utf-8")
    version = re.search(r"#define EGPU_ABI_VERSION (\d+)u", contract)[1]
    text = HEADER.format("api/plugin/provisioner.h and api/plugin/values.h") + "# Plugin ABI\n\n"
    text += (f"The names of ABI version {version}, with the first sentence of each. The contract is `api/plugin/provisioner.h`; a first plugin: "
             "[provisioners](../../../provisioners/README.md).\n\n## Return codes\n\n")
    codes = re.search(r"enum egpu_code \{(.*?)\n\};", contract, re.S)[1]
    for name, number, what in re.findall(r"(EGPU_\w+) = (\d+),?\s*(?:/\*\*<(.*?)\*/)?", codes, re.S):
        text += f"- `{name}` = {number}: {comment(what) or 'success'}.\n"
    for heading, name in (("Slots of a plugin", "egpu_provisioner"), ("Functions of the host", "egpu_host")):
        body = re.search(rf"typedef struct {name} \{{(.*?)\n\}} {name};", contract, re.S)[1]
        text += f"\n## {heading}\n\n"
        text += "".join(f"- `{member}`: {what}.\n" for member, what in members(body) if what)
    text += "\n## Values\n\n"
    for what, name, body in re.findall(r"/\*\*((?:(?!\*/).)*?)\*/\s*typedef struct (\w+) \{(.*?)\n\} \2;", values, re.S):
        names = [each for each in re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", body, flags=re.S)) if each != "struct_size"]
        text += f"- `{name}`: {comment(what)}. Members: " + ", ".join(f"`{each}`" for each in names) + ".\n"
    return text


def wanted(programs):
    """Returns page → text."""
    found = {page: fields(*about) for page, about in FIELDS.items()} | {"parameters.md": parameters(), "abi.md": abi()}
    if programs:
        found |= flag_pages(programs)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    want = wanted(options.bin.resolve() if options.bin else None)
    have = {name: (PAGES / name).read_text(encoding="utf-8") if (PAGES / name).is_file() else None for name in want}
    different = sorted(name for name in want if want[name] != have[name])
    if options.check:
        for name in different:
            print(f"manifests/guide/reference/{name} is not current: run manifests/site/reference.py --bin FOLDER")
        print(f"{len(want)} pages, {len(different)} not current")
        return 1 if different else 0
    PAGES.mkdir(exist_ok=True)
    for name in different:
        (PAGES / name).write_text(want[name], encoding="utf-8")
    print(f"{len(different)} of {len(want)} pages written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
