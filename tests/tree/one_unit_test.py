"""Proves that the sources of a library can be compiled together (EGPU_PRECOMPILE).  one_unit_test.py SOURCE_DIR

No two sources of one library define different things with the same internal name, in an unnamed namespace or static: a release would not compile, and a reader
would confuse them. Functions may share a name if their parameters differ."""
import collections
import pathlib
import re
import sys

NAME = re.compile(r"""^(?=\S)(?:
    (?:(?:inline|static|constexpr|const)\s+)*(?:struct|class|enum\s+class|enum|union)\s+(?P<type>\w+)[^;()]*\{ |
    using\s+(?P<alias>\w+)\s*=\s*(?P<target>[^;]+); |
    (?:(?:inline|static)\s+)?constexpr\s+[\w:<>,\s*&]*?\b(?P<constant>\w+)\s*(?:\[[^]]*\])?\s*(?:=|\{) |
    (?!return|else|using|namespace|template)[\w:<>,*&\s]+?[\s*&](?P<function>\w+)\((?P<parameters>[^{};]*)\)\s*(?:const\s*)?(?:noexcept\s*)?\{
  )""", re.X | re.M)


HEADER = "of a header"


def own(text):
    """Returns the internal definitions of a source: name with parameters or target → line."""
    found = {}
    for block in re.finditer(r"^namespace \{$.*?^\}  // namespace$", text, re.S | re.M):
        for m in NAME.finditer(block.group(0)):
            if m["alias"]:
                key = (m["alias"], "= " + " ".join(m["target"].split()))
            elif m["function"]:
                types = re.sub(r"\s*=[^,]*|\s+\w+(?=,|$)", "", " ".join(m["parameters"].split()))
                key = (m["function"], f"({types})")
            else:
                key = (m["type"] or m["constant"], "")
            found[key] = text.count("\n", 0, block.start() + m.start()) + 1
    return found


def clashes(sources):
    """Takes {path: text} and returns a line for each name that two of them define differently. Constants in headers are visible to all sources."""
    by_name = collections.defaultdict(list)
    for path, text in sources.items():
        if path.endswith(".h"):
            for m in re.finditer(r"^inline constexpr [^=({;]*?(\w+)(?:\[[^]]*\])?\s*[={]", text, re.M):
                by_name[m[1]].append((HEADER, f"{path}:{text.count(chr(10), 0, m.start()) + 1}"))
            continue
        for (name, what), line in own(text).items():
            by_name[name].append((what, f"{path}:{line}"))
    out = []
    for name, uses in sorted(by_name.items()):
        for at, (what, where) in enumerate(uses):
            for other, there in uses[:at]:
                if what == other == HEADER:
                    continue
                both_functions = what.startswith("(") and other.startswith("(")
                same_alias = what.startswith("=") and what == other
                if not same_alias and (what == other or not both_functions):
                    out.append(f"{there} and {where}: {name}")
    return out


def libraries(root):
    """Yields the sources of each library that are compiled together, {path: text}."""
    for listing in sorted(root.glob("**/CMakeLists.txt")):
        if "build" in listing.relative_to(root).parts[:1]:
            continue
        for m in re.finditer(r"egpu_library\((\w+)\s(.*?)(?:\bDEPS\b|\))", listing.read_text(), re.S):
            paths = [listing.parent / each for each in m[2].split() if each.endswith((".cpp", ".h"))]
            yield {str(p.relative_to(root)): p.read_text() for p in paths if p.exists()}


def self_check():
    one = "namespace {\n\nconstexpr int kMost = 3;\nusing Json = a::b;\nstruct S {\n  int a;\n};\nstd::string f(int a, const T& b) {\n}\n\n}  // namespace\n"
    for other, seen in (("constexpr double kMost{4};\n", True), ("using Json = a::b;\n", False), ("using Json = c::d;\n", True),
                        ("class S : public T {\n};\n", True), ("void f(int other, const T& name) {\n}\n", True),
                        ("void f(int a) {\n}\n", False), ("int g() {\n  const int kMost = 3;\n}\n", False)):
        if bool(clashes({"a.cpp": one, "b.cpp": "namespace {\n" + other + "}  // namespace\n"})) != seen:
            sys.exit(f"one_unit_test: judged wrongly: {other!r}")
    if not clashes({"a.cpp": one, "b.h": "inline constexpr int64_t kMost = 5;  ///< apples\n"}):
        sys.exit("one_unit_test: a constant that a header has, too, was not seen")


def main():
    self_check()
    found, count = [], 0
    for sources in libraries(pathlib.Path(sys.argv[1])):
        count += len(sources)
        found += clashes(sources)
    print("\n".join(found) or f"one unit: {count} sources")
    sys.exit(1 if found or count < 150 else 0)


main()
