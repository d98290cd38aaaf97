"""Proves that only api/v1alpha/pod_claims.cpp reads Pod::resourceClaims and the claim annotations.  pod_claims_test.py SOURCE_DIR

The list contains a template's entry and the claim stamped from it side by side; a caller that interprets the former as a missing claim would wait forever.
Every other source uses the functions of pod_claims.h. The checker checks itself on planted violations."""
import os
import re
import sys

# path → why it accesses the list or the annotations itself
ALLOWED = {
    "api/v1alpha/keys.h": "declares the annotations",
    "controller/standalone/sim/admission.cpp": "is the admission that makes entries of annotations",
    "controller/whatif/question/pod_subject.cpp": "tells users which annotation to write",
    "api/core/objects.h": "declares it",
    "api/v1alpha/pod_claims.cpp": "resolves it",
    "controller/codec/fields_core.h": "reads and writes it as JSON",
}
HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
# A container's resourceClaims are names of entries, those of the stores are the cluster's ResourceClaims. Clearing the list is no read.
USE = re.compile(r"(\b\w+|\))(?:\.|->)resourceClaims\b(?!\.clear\(\))")
OTHERS = {"container", "c", "stores", "stores_", "s"}
BYPASS = re.compile(r"\bPodResourceClaim\b|\bk(?:Claim|Template)AnnotationPrefix\b")


def check(path, text):
    """Returns the violations of one file, as lines."""
    if path in ALLOWED:
        return []
    text = HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)
    found = [m for m in USE.finditer(text) if m[1] not in OTHERS] + list(BYPASS.finditer(text))
    return [f"{path}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(0)}: ask api/v1alpha/pod_claims.h" for m in found]


def self_check():
    for path, text, violations in [
        ("controller/x.cpp", "for (const auto& e : pod.resourceClaims) f(e);\n", 1),
        ("controller/x.cpp", "for (const auto& e : pod->resourceClaims) f(e);\n", 1),
        ("controller/x.cpp", "for (const auto& e : (a ? *a : b).resourceClaims) f(e);\n", 1),
        ("controller/x.cpp", "notes.lower_bound(keys::kClaimAnnotationPrefix);\n", 1),
        ("controller/x.cpp", "bool any = !p.resourceClaims.empty();\n", 1),
        ("controller/x.h", "void f(const core::PodResourceClaim& entry);\n", 1),
        ("controller/x.cpp", '// of pod.resourceClaims\nsay("pod.resourceClaims");\n', 0),
        ("controller/x.cpp", "const auto claim = stores_.resourceClaims.get(key);\n", 0),
        ("controller/x.cpp", "has(container.resourceClaims, name); asks.resourceClaims.clear();\n", 0),
        ("api/v1alpha/pod_claims.cpp", "for (const auto& e : pod.resourceClaims) f(e);\n", 0),
    ]:
        if len(check(path, text)) != violations:
            sys.exit(f"pod_claims_test: a planted text was judged wrong: {path}: {text!r}")


def main(root):
    self_check()
    files, found = 0, []
    for top in ("api", "controller"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith((".h", ".cpp")):
                    with open(os.path.join(folder, name), encoding="utf-8") as f:
                        found += check(os.path.relpath(os.path.join(folder, name), root), f.read())
                    files += 1
    found += [f"{path}: is allowed and not there" for path in ALLOWED if not os.path.exists(os.path.join(root, path))]
    print("\n".join(found))
    print(f"{files} files, {len(found)} violations")
    sys.exit(1 if found or files < 20 else 0)


main(sys.argv[1])
