"""Proves that no function has more than 50 lines.  functions_test.py SOURCE_DIR

Counts the lines between a function's braces, including its lambdas; tables and classes may be longer. The checker checks itself on planted functions, so that
it can't pass by finding none."""
import os
import re
import sys

MAX_LINES = 50
# Text with braces that open no scope: comments, strings, preprocessor lines.
HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
                    re.S | re.M)
# Text that may precede a name.
BESIDE = re.compile(r"\balignas\s*\([^()]*\)|\b__attribute__\s*\(\(.*?\)\)\)?|\btemplate\s*<[^<>]*(?:<[^<>]*>[^<>]*)*>|"
                    r"\b(?:public|private|protected)\s*:", re.S)


def is_scope(head):
    """Returns true if these braces contain declarations instead of statements."""
    return re.match(r"\s*(inline\s+)?namespace\b", head) or (re.match(r"\s*(class|struct|union|enum|extern)\b", head) and "(" not in head)


def functions(text):
    """Returns name, line and length of each function."""
    text = HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)
    found, depth, begin, opened = [], 0, 0, None  # begin: start of the head before a brace
    for m in re.finditer(r"[{};]", text):
        if depth > 0:  # in a function or a table
            depth += {"{": 1, "}": -1, ";": 0}[m.group(0)]
            if depth > 0 or re.match(r"\s*[,{)]", text[m.end():]):  # a constructor initialiser's brace ends no function
                continue
            head, at = opened
            if "(" in head and not re.search(r"=\s*$", head):
                name = re.search(r"([\w:~]+|operator\s*\S+?)\s*\(", head)
                found.append((name.group(1) if name else "?", text.count("\n", 0, at) + 1, text.count("\n", at, m.start()) - 1))
            begin = m.end()
            continue
        head = BESIDE.sub(" ", text[begin:m.start()])
        if m.group(0) == "{" and not is_scope(head):
            depth, opened = 1, (head, m.start())
        else:
            begin = m.end()
    return found


def too_long(text):
    return [f for f in functions(text) if f[2] > MAX_LINES]


def self_check():
    body = lambda lines: "{\n" + "  f();\n" * lines + "}\n"
    for head in ("int f(int a) ", "namespace x {\nclass alignas(64) A : public B {\n public:\n  bool g() const override ",
                 "A::A(int a) : a_{a}, b_({1}) ", "template <class T, class U = std::less<>>\nauto f(T t) -> int ",
                 "const int kX = [](int a) ", "struct stat f() ", 'extern "C" int f() ', "const char* k = \"}}\";  // }\nint f() try ",
                 'namespace a __attribute__((visibility("hidden"))) {\nint f() '):
        if not too_long(head + body(MAX_LINES + 1)):
            sys.exit(f"functions_test: a planted function was not seen: {head!r}")
        if too_long(head + body(MAX_LINES)):
            sys.exit(f"functions_test: a function of {MAX_LINES} lines is none too long: {head!r}")
    for innocent in ("constexpr int kTable[] = " + body(60), "class A " + body(60), "enum class E " + body(60), "namespace a " + body(60),
                     "int f() " + body(30) + "int g() " + body(30), "#define F(x) {\nint f() " + body(30) + "/* { */ int g() " + body(30)):
        if too_long(innocent):
            sys.exit(f"functions_test: no function of these is too long: {innocent[:40]!r}")


def main(root):
    self_check()
    seen, long = 0, {}
    for top in ("api", "controller", "provisioners"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for n in names:
                if not n.endswith((".h", ".hpp", ".c", ".cpp")):
                    continue
                path = os.path.join(folder, n)
                with open(path, encoding="utf-8") as f:
                    all_here = functions(f.read())
                seen += len(all_here)
                for name, line, length in all_here:
                    if length > MAX_LINES:
                        long[(os.path.relpath(path, root), name)] = (line, length)
    found = [f"{path}:{line}: {name} has {length} lines; which steps does it have?"
             for (path, name), (line, length) in sorted(long.items())]
    print("\n".join(found))
    print(f"{seen} functions, {len(found)} findings")
    sys.exit(1 if found or seen < 1000 else 0)


main(sys.argv[1])
