#!/usr/bin/env python3
"""Proves that each field of the API group, and each key of a quota, is handled wherever it must be, and names the place where it is not.

schema_test.py ROOT

The fields are those that controller/codec/fields_v1alpha.h and fields_card.h declare, the keys those of controller/scheduler/quota/quota.cpp.
"""

import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(sys.argv[1])
FIELDS = [ROOT / "controller/codec/fields_v1alpha.h", ROOT / "controller/codec/fields_card.h"]
KEYS = ROOT / "controller/scheduler/quota/quota.cpp"

# Struct, the CRD that has its fields and where; "+" is a field that is written for people only and never read.
SCHEMAS = [
    ("ElasticGPUClaimSpec", "elasticgpuclaims", "spec", []),
    ("ElasticGPUClaimStatus", "elasticgpuclaims", "status", ["reason", "message"]),
    ("ElasticGPUSpec", "elasticgpus", "spec", ["physicalGPU", "gpuShare", "qGPU", "mig", "remote"]),
    ("Card", "elasticgpus", "spec.card", []),
    ("ElasticGPUStatus", "elasticgpus", "status", []),
    ("ElasticGPUQuotaSpec", "elasticgpuquotas", "spec", []),
    ("ElasticGPUQuotaStatus", "elasticgpuquotas", "status", []),
    ("ElasticGPUClass", "elasticgpuclasses", "", ["apiVersion", "kind", "metadata"]),
]

# Files that must name each field of a claim's spec, with the reason. {member} is the field's name in api/v1alpha/types.h.
CLAIM_PLACES = [
    ("api/v1alpha/validation_claim.cpp", r"\b{member}\b", "validate() must check it"),
    ("tests/crd/cases.yaml", r"\b{name}\b", "the table must have a case that the CRD and validate() agree on"),
    ("manifests/guide", r"\b{name}\b", "the guide must say what it does"),
    ("controller/reconcile", r"spec\.{member}\b|\b{member}\b", "the controller must obey it"),
]
# A field with another name in one of these places.
BY_ANOTHER_NAME = {"classNameAlias": "effectiveClass|classNameAlias"}

QUOTA_PLACES = [
    ("api/v1alpha/validation_quota.cpp", r"\b{name}\b|keys::k{constant}\b", "validate() must accept it"),
    ("manifests/crd/elasticgpu.io_elasticgpuquotas.yaml", r"'{name}'", "the CRD's rules must list it"),
    ("manifests/guide/quotas.md", r"^\| `{name}(<profile>)?`", "the guide's table must have a row for it"),
    ("tests/crd/cases.yaml", r"hard: .*\b{name}\b", "the table must have a case with it"),
]


def declared(text, struct):
    """Yields (JSON name, C++ member) of the fields that fields() declares for the struct; nested objects without a member."""
    found = re.search(r"^void fields\(auto& v, Is<v1alpha::" + struct + r"> auto& o\) \{\n(.*?)^\}", text, re.M | re.S)
    if not found:
        raise SystemExit(f"fields_v1alpha.h declares no fields of {struct}")
    for line in found[1].splitlines():
        call = re.match(r"  v(?:\.\w+)?\(\"(\w+)\", (?:o\.(\w+)|\[)", line)
        if call:
            inner = re.search(r"\[&\] \{ v(?:\.\w+)?\(\"\w+\", o\.(\w+)\)", line)
            yield call[1], call[2] or (inner[1] if inner else None)


def schema_at(crd, path):
    schema = next(version for version in crd["spec"]["versions"] if version["name"] == "v1alpha")["schema"]["openAPIV3Schema"]
    for part in filter(None, path.split(".")):
        schema = schema["properties"][part]
    return set(schema["properties"])


def texts_of(place):
    path = ROOT / place
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.suffix in (".md", ".h", ".cpp"))
    return "\n".join(each.read_text(encoding="utf-8") for each in files)


def missing_in_crds(text):
    for struct, kind, path, others in SCHEMAS:
        crd = yaml.safe_load((ROOT / f"manifests/crd/elasticgpu.io_{kind}.yaml").read_text(encoding="utf-8"))
        names, known = {name for name, _ in declared(text, struct)}, schema_at(crd, path)
        where = f"manifests/crd/elasticgpu.io_{kind}.yaml {path}"
        for name in sorted(names - known):
            yield f"field {name} of {struct} is missing in {where}: a real API server would prune it"
        for name in sorted(known - names - set(others)):
            yield f"field {name} of {where} is not declared for {struct} in fields_v1alpha.h: the controller would not see it"


def missing_in(places, subject, names):
    for place, pattern, why in places:
        text = texts_of(place)
        for values in names:
            expression = pattern.format(**values)
            for member, other in BY_ANOTHER_NAME.items():
                if values.get("member") == member:
                    expression += f"|{other}"
            if not re.search(expression, text, re.M):
                yield f"{subject} {values['name']} is not in {place}: {why}"


def quota_keys():
    listed = re.search(r"kNames =\s+std::to_array\(\{(.*?)\}", KEYS.read_text(encoding="utf-8"), re.S)
    constants = re.findall(r"keys::k(\w+)", listed[1])
    texts = (ROOT / "api/v1alpha/keys.h").read_text(encoding="utf-8")
    for constant in constants:
        yield {"constant": constant, "name": re.search(rf'\bk{constant} = "([\w-]+)"', texts)[1]}


def main():
    text = "".join(file.read_text(encoding="utf-8") for file in FIELDS)
    claim = [{"name": name, "member": member} for name, member in declared(text, "ElasticGPUClaimSpec")]
    keys = list(quota_keys())
    if len(claim) < 9 or len(keys) < 5 or any(each["member"] is None for each in claim):
        raise SystemExit("the test does not find the fields of a claim, or the keys of a quota, any more")
    wrong = [*missing_in_crds(text), *missing_in(CLAIM_PLACES, "field", claim), *missing_in(QUOTA_PLACES, "quota key", keys)]
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
