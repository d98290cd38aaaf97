"""Sizes and names of types: lines of at most 120 columns, headers of at most 250 lines, classes of at most 40 methods, no type name that is
defined more than twice, and in controller/ no mutex without annotations (controller/base/mutex.h). limits.json lists what exceeds that today; an entry may only fall, and a new one is not allowed.

  shape_test.py SOURCE_DIR           fails if an entry is exceeded, missing, or higher than needed
  shape_test.py SOURCE_DIR --write   lowers the entries; never raises or adds one"""
import collections
import json
import os
import re
import sys

LIMITS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "limits.json")
MAX_COLUMNS, MAX_HEADER_LINES, MAX_METHODS, MAX_DEFINITIONS = 120, 250, 40, 2
# Comments, literals and the preprocessor's lines hold no declarations.
HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
TYPE = re.compile(r"(?:^|[;{}>:])\s*(?:typedef\s+)?(class|struct|union|enum(?:\s+class)?)\s+(?:alignas\s*\([^()]*\)\s*)?(?:\[\[[^\]]*\]\]\s*)?(?:\w+::)*(\w+)"
                  r"(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{", re.S)
# An annotation of a field or a function (controller/base/mutex.h).
ANNOTATION = re.compile(r"\bEGPU_[A-Z_]+(?:\s*\([^()]*\))?")
# A mutex that is invisible to the thread-safety analysis.
BARE_MUTEX = re.compile(r"\bstd::(?:recursive_|shared_|timed_)*mutex\s+\w+\s*[;{,]")


def code_of(text):
    return HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def body_end(code, begin):
    """Position of the brace that closes the one at `begin`."""
    depth = 0
    for m in re.finditer(r"[{}]", code[begin:]):
        depth += 1 if m.group(0) == "{" else -1
        if depth == 0:
            return begin + m.start()
    return len(code)


def types(code):
    """(name, kind, body) of each type that is defined."""
    for m in TYPE.finditer(code):
        yield m.group(2), m.group(1), code[m.end():body_end(code, m.end() - 1)]


def methods_of(body):
    """Number of functions that the class declares or defines itself, without those of types in it."""
    depth, begin, head, count = 0, 0, "", 0
    for m in re.finditer(r"[{};]", body):
        if depth == 0:
            head = re.sub(r"\b(public|private|protected)\s*:", " ", ANNOTATION.sub(" ", body[begin:m.start()]))
        if m.group(0) == "{":
            depth += 1
            continue
        if m.group(0) == "}":
            depth -= 1
            if depth > 0 or re.match(r"\s*[,;)]", body[m.end():]) and "(" not in head:
                continue
        if depth > 0:
            continue
        is_type = re.match(r"\s*(class|struct|union|enum|using|friend|static_assert|template\s*<[^>]*>\s*(class|struct))\b", head)
        # A member with a function type has its parenthesis within angle brackets.
        plain = re.sub(r"<[^<>]*(?:<[^<>]*(?:<[^<>]*>[^<>]*)*>[^<>]*)*>", "", head)
        if not is_type and re.search(r"[\w~\]=<>!+*-]\s*\(", plain) and not re.match(r"[^(]*=\s*[^(]", plain.replace("operator=", "")):
            count += 1
        begin = m.end()
    return count


def self_check():
    code = "namespace a {\nclass B {\n public:\n  B();\n  int f() const { return g({1}); }\n  std::function<void(int)> h;\n  struct C { int x; void y(); };\n" \
           "  int z EGPU_GUARDED_BY(m) = 0;\n  bool operator==(const B&) const = default;\n};\nenum class D { a, b };\nstruct B::E : D { int y; };\n}\n"
    found = {name: methods_of(body) for name, kind, body in types(code)}
    mutexes = BARE_MUTEX.findall("  mutable std::shared_mutex a_;  std::mutex b;\n  base::Mutex c_;\n  std::unique_lock<std::mutex> d;\n")
    if len(mutexes) != 2:
        sys.exit(f"shape_test: mutexes of a planted text: {mutexes}")
    if found != {"B": 3, "C": 1, "D": 0, "E": 0}:
        sys.exit(f"shape_test: types and methods of a planted text: {found}")


def measured(root):
    """Returns {group: {name: number}} of everything that exceeds a maximum."""
    found = {"columns": collections.Counter(), "header lines": collections.Counter(), "methods": collections.Counter(), "mutexes without annotations": collections.Counter()}
    places, files = collections.defaultdict(set), 0
    for top in ("api", "controller", "provisioners", "tests", "bench"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = sorted(each for each in folders if each != "__pycache__")
            for name in sorted(names):
                if not name.endswith((".h", ".hpp", ".c", ".cpp")):
                    continue
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    text = file.read()
                files += 1
                lines = text.split("\n")
                if over := sum(len(line) > MAX_COLUMNS for line in lines):
                    found["columns"][path] = over
                if name.endswith((".h", ".hpp")) and len(lines) - 1 > MAX_HEADER_LINES:
                    found["header lines"][path] = len(lines) - 1
                code = code_of(text)
                if top == "controller" and path != "controller/base/mutex.h" and (bare := len(BARE_MUTEX.findall(code))):
                    found["mutexes without annotations"]["/".join(path.split("/")[:2])] += bare
                for type_name, kind, body in types(code):
                    places[type_name].add(path)
                    if (count := methods_of(body)) > MAX_METHODS:
                        found["methods"][f"{path}: {type_name}"] = count
    found["type names"] = {name: len(paths) for name, paths in places.items() if len(paths) > MAX_DEFINITIONS}
    return found, files, len(places)


def main(root, option):
    self_check()
    found, files, names = measured(root)
    with open(LIMITS, encoding="utf-8") as file:
        limits = json.load(file)
    wrong = []
    for group, entries in found.items():
        allowed = limits["shape"].setdefault(group, {})
        for what in sorted(set(allowed) | set(entries)):
            have, limit = entries.get(what, 0), allowed.get(what, 0)
            if have > limit:
                wrong.append(f"{group}: {what}: {have}" + (f", {limit} allowed" if limit else ""))
            elif have < limit and option == "--write":
                allowed[what] = have
                if have == 0:
                    del allowed[what]
            elif have < limit:
                wrong.append(f"{group}: {what}: {have}, less than the {limit} allowed: lower the limit with --write")
    if option == "--write":
        with open(LIMITS, "w", encoding="utf-8") as file:
            json.dump(limits, file, indent=1, sort_keys=True)
            file.write("\n")
    print("\n".join(wrong))
    print(f"{files} files, {names} type names; over a maximum: " + ", ".join(f"{len(entries)} {group}" for group, entries in found.items()))
    sys.exit(1 if wrong or files < 100 or names < 100 else 0)


main(os.path.realpath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
