#!/usr/bin/env python3
"""Derives the schema of an ElasticGPUClaimTemplate's claims from the schema of ElasticGPUClaim, which is its only source.

template_schema.py          exit status 1 if the template's CRD does not contain the derived schema
template_schema.py --write  writes it there

A template is immutable as a whole, so the rules that compare with the old object and the sentences about immutable fields are omitted.
"""

import pathlib
import re
import sys

CRDS = pathlib.Path(__file__).resolve().parents[2] / "manifests" / "crd"
CLAIM = CRDS / "elasticgpu.io_elasticgpuclaims.yaml"
TEMPLATE = CRDS / "elasticgpu.io_elasticgpuclaimtemplates.yaml"
DEEPER = "    "  # a template has the claim's spec at spec.spec

# Descriptions that differ, by field; None is the spec itself.
DESCRIPTIONS = {
    None: "Spec of each ElasticGPUClaim.",
    "elasticGPUName": "The card to take the GPUs from (without requests: all of it, which is enough for one claim).",
}


def section(lines, indent, key):
    """Returns the range of the lines of `key` at that indent, the first of its name."""
    first = next((i for i, line in enumerate(lines) if line == f"{indent}{key}:"), None)
    if first is None:
        raise SystemExit(f"no line {indent}{key}: in the CRD")
    end = next((i for i in range(first + 1, len(lines)) if lines[i].strip() and not lines[i].startswith(indent + " ")), len(lines))
    return first, end


def entries(lines, indent):
    """Splits the lines of a list whose items begin with `indent` and a dash."""
    found = []
    for line in lines:
        if line.startswith(indent + "- "):
            found.append([])
        found[-1].append(line)
    return found


def described(lines, indent, text):
    """Replaces the description at that indent, a scalar of one line or a folded one."""
    first = next(i for i, line in enumerate(lines) if line.startswith(f"{indent}description:"))
    end = next(i for i in range(first + 1, len(lines) + 1) if i == len(lines) or not lines[i].startswith(indent + " "))
    return lines[:first] + [f"{indent}description: >-", f"{indent}  {text}"] + lines[end:]


def derived(claim):
    """Returns the lines of the template's spec.spec."""
    lines = claim.splitlines()
    first, end = section(lines, " " * 10, "spec")
    lines = described(lines[first:end], " " * 12, DESCRIPTIONS[None])
    first, end = section(lines, " " * 12, "x-kubernetes-validations")
    # The items of a list have the indent of its key.
    end = next(i for i in range(first + 1, len(lines)) if re.match(r" {12}[^ -]", lines[i]))
    rules = [entry for entry in entries(lines[first + 1:end], " " * 12) if not any("oldSelf" in line for line in entry)]
    lines = lines[:first + 1] + [line for entry in rules for line in entry] + lines[end:]
    for field, text in DESCRIPTIONS.items():
        if field is not None:
            first, end = section(lines, " " * 14, field)
            lines = lines[:first] + described(lines[first:end], " " * 16, text) + lines[end:]
    text = re.sub(r"\s+Immutable(, except [^.]*)?\.(?=\n)", "", "\n".join(lines) + "\n")
    if "Immutable" in text or "oldSelf" in text:
        raise SystemExit("the claim's spec has a text about immutability that this script does not know")
    text = text.replace("serves the claim;", "serves the claims;")
    return [DEEPER + line if line else line for line in text.splitlines()]


def rewritten(claim, template):
    lines = template.splitlines()
    inner = next(i for i, line in enumerate(lines) if line == " " * 14 + "spec:")
    end = next(i for i in range(inner + 1, len(lines)) if lines[i].strip() and not lines[i].startswith(" " * 15))
    return "\n".join(lines[:inner] + derived(claim) + lines[end:]) + "\n"


def main():
    have = TEMPLATE.read_text()
    want = rewritten(CLAIM.read_text(), have)
    if "--write" in sys.argv[1:]:
        TEMPLATE.write_text(want)
    elif have != want:
        print(f"{TEMPLATE.name} differs from the schema of a claim's spec in {CLAIM.name}; run tests/crd/template_schema.py --write", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
