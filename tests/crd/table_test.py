#!/usr/bin/env python3
"""Proves without an API server that cases.yaml is well formed and that the CRDs follow the project's own rules."""

import pathlib
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
CRDS = sorted((HERE.parent.parent / "manifests" / "crd").glob("elasticgpu.io_*.yaml"))
CASE_KEYS = {"name", "base", "start", "history", "operation", "change", "stage", "accept", "reject"}
BOUNDS = {"string": ("maxLength", "enum", "format"), "array": ("maxItems",), "integer": ("minimum",)}


def wrong_with(case, bases):
    if not set(case) <= CASE_KEYS:
        yield f"unknown keys {set(case) - CASE_KEYS}"
    if case.get("base") not in bases:
        yield "unknown base"
    if case.get("operation") not in ("create", "update", "status"):
        yield "unknown operation"
    if case.get("operation") == "create" and ("start" in case or "history" in case):
        yield "a create cannot have start or history"
    if case.get("operation") != "create" and "change" not in case:
        yield "changes nothing"
    if ("reject" in case) == (case.get("accept") is True):
        yield "needs either accept: true or reject"
    if "reject" in case and (case.get("stage") not in ("schema", "rule") or not case["reject"].get("field")):
        yield "a reject needs a stage and a field"
    if case.get("stage") == "rule" and not case["reject"].get("contains"):
        yield "a reject of stage rule needs contains, a part of the message"


def properties(schema, path):
    """Yields every (path, schema) of a schema, itself included."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from properties(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from properties(schema[key], f"{path}.{key}")


def wrong_with_crd(crd):
    versions = crd["spec"]["versions"]
    if [(v["name"], v["served"], v["storage"]) for v in versions] != [("v1alpha", True, True), ("v1alpha1", True, False)]:
        yield "v1alpha must be stored, and v1alpha1 must also be served"
    for key in ("schema", "subresources", "additionalPrinterColumns", "selectableFields"):
        if versions[0].get(key) != versions[1].get(key):
            yield f"the versions differ in {key}"
    if "status" not in versions[0]["subresources"]:
        yield "status must be a subresource"
    if not crd["spec"]["names"].get("shortNames") or crd["spec"]["names"].get("categories") != ["elastic-gpu"]:
        yield "short name or category is missing"
    root = versions[0]["schema"]["openAPIV3Schema"]
    for path, schema in properties(root, ""):
        leaf = path.rsplit(".", 1)[-1]
        if path != ".metadata" and leaf not in ("items", "additionalProperties") and not schema.get("description"):
            yield f"{path} has no description"
        if path in (".apiVersion", ".kind", ".metadata"):
            continue
        # Without bounds, the API server cannot limit the cost of the rules.
        bounds = BOUNDS.get(schema.get("type"), ())
        if bounds and not any(bound in schema for bound in bounds):
            yield f"{path} has no bound"
        if "additionalProperties" in schema and "maxProperties" not in schema:
            yield f"{path} has no bound"
        for rule in schema.get("x-kubernetes-validations", []):
            if not rule.get("message"):
                yield f"{path}: a rule without a message"


def main():
    table = yaml.safe_load((HERE / "cases.yaml").read_text())
    cases, wrong = table["cases"], []
    names = [case["name"] for case in cases]
    wrong += [f"two cases are called {name!r}" for name in {name for name in names if names.count(name) > 1}]
    for case in cases:
        wrong += [f"case {case['name']!r}: {what}" for what in wrong_with(case, table["bases"])]
    if len(CRDS) != 5:
        wrong.append(f"{len(CRDS)} CRDs")
    for file in CRDS:
        wrong += [f"{file.name}: {what}" for what in wrong_with_crd(yaml.safe_load(file.read_text()))]
    for each in wrong:
        print(f"FAILED {each}")
    print(f"{len(cases)} cases, {len(CRDS)} CRDs, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
