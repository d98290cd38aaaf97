"""Language of comments, documents and messages: each folder has a maximum of marked texts, which may only fall.

  language_test.py SOURCE_DIR            fails if a folder has more marked texts than limits.json allows, or fewer (then lower the limit)
  language_test.py SOURCE_DIR --list     prints the marked texts
  language_test.py SOURCE_DIR --write    lowers the limits; never raises one

A text is marked if it has no subject ("Of the ...", "One that ..."), a person word for a thing (nobody, whoever, a free "who"), "what is ..." as a
noun, or an idiom for which the field has a word (in vain, anew, told). A mark is a hint: rewrite the sentence, do not swap the word."""
import ast
import io
import json
import os
import re
import sys
import tokenize

LIMITS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "limits.json")
TOPS = ("api", "controller", "provisioners", "tests", "bench", "manifests")
CPP = (".h", ".hpp", ".c", ".cpp")
MIN_WORDS = 4
RULES = {
    "no subject": re.compile(r"(Of|Likewise|Whose|Whoever|Who|What|Ones|Else)\b(?!:\s)|(Nothing|Empty):|One (that|of|who|whose|more|is|has)\b|"
                             r"(of|likewise|who|what) |one (that|of|who|whose)\b|[Tt]he same (for|of|as|to|with)\b"),
    "person word": re.compile(r".*?(\b(whoever|nobody|somebody|anybody|everybody)\b|((^|\b(for|to|of|and|or|by|from|than|that|but|as)|[,;:(]) (who|whom|whose)\b))",
                              re.I | re.S),
    "'what' as a noun": re.compile(r".*?\b[Ww]hat (is|was|it|they|its|has|had|can|could|may|might|would|goes|comes|came|waits?|fits?|stands?|others?|each|the|any|no) ", re.S),
    "idiom": re.compile(r".*?\b(anew|of late|lately|in vain|as ever|for good|said|told|tells|let go|once and for all)\b", re.I | re.S),
}
EXEMPT = re.compile(r"Copyright|Licensed under|SPDX|NOLINT|clang-format|^(end )?namespace", re.I)
QUESTION = re.compile(r"(Who|What|Whose|Where|Why|How|When|Which)\b[^.]*\?$")
TOKEN = re.compile(r'(?P<raw>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")|(?P<text>"(?:\\.|[^"\\\n])*")|(?P<char>(?<!\w)\'(?:\\.|[^\'\\\n])+\')|'
                   r"(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|(?P<end>\n)|(?P<other>\S)|[^\S\n]+", re.S)


def rule_of(text):
    """The name of the rule that marks the text, or None."""
    if EXEMPT.search(text) or len(re.findall(r"[A-Za-z']+", text)) < MIN_WORDS or QUESTION.match(text):
        return None
    return next((name for name, pattern in RULES.items() if pattern.match(text)), None)


def parts_of_cpp(text):
    """(kind, line, text) of each comment, with the lines that follow each other as one, and of each string literal outside of includes."""
    line, comment, begin, is_code, last_text = 1, [], 0, False, None
    for m in TOKEN.finditer(text):
        kind = m.lastgroup if m.lastgroup != "mark" else "raw"
        if kind == "line" and (is_code or not comment):
            if comment:
                yield "code", begin, " ".join(comment)
            comment, begin = [re.sub(r"^///?<?\s?", "", m.group(0))], line
            if is_code:
                yield "code", begin, comment[0]
                comment = []
        elif kind == "line":
            comment.append(re.sub(r"^///?<?\s?", "", m.group(0)))
        elif kind == "block":
            yield "code", line, " ".join(re.sub(r"^\s*(/\*+|\*/|\*)\s?|\*/$", "", each).strip() for each in m.group(0).split("\n")).strip()
        elif kind in ("text", "raw"):
            if not text[:m.start()].rsplit("\n", 1)[-1].lstrip().startswith("#"):
                last_text = m.group(0).strip('"')
                yield "message", line, last_text
        if kind == "end":
            line += 1
            is_code = False
            following = text[m.end():m.end() + 400].lstrip(" \t")
            if comment and not following.startswith("//"):
                yield "code", begin, " ".join(comment)
                comment = []
        else:
            line += m.group(0).count("\n")
            is_code = is_code or kind in ("text", "raw", "char", "other")
    if comment:
        yield "code", begin, " ".join(comment)


def parts_of_python(text):
    """(kind, line, text) of each comment and docstring."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield "python", token.start[0], token.string.lstrip("# ")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (found := ast.get_docstring(node)):
            for sentence in re.split(r"(?<=[.:])\s+", found):
                yield "python", getattr(node, "lineno", 1), sentence


def parts_of_yaml(text):
    """(kind, line, text) of each sentence of the comments, with the lines that follow each other as one, and of each message of a policy."""
    comment, begin = [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        if line.lstrip().startswith("#"):
            begin = begin or number
            comment.append(line.lstrip("# "))
            continue
        for sentence in re.split(r"(?<=[.:;])\s+(?=[A-Z])", " ".join(comment)) if comment else ():
            yield "yaml", begin, sentence.strip(" -")
        comment, begin = [], 0
        for message in re.findall(r"'((?:[^'\\]|\\.|''){20,})'|^\s*message: [\"']?(.+)", line):
            yield "yaml", number, (message[0] or message[1]).strip("\"'")


def parts_of_markdown(text):
    """(kind, line, text) of each sentence and cell outside of code blocks, headings and pictures."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside and not re.match(r"\s*(#|!\[|-{3})", line):
            plain = re.sub(r"`[^`]*`|\[([^\]]*)\]\([^)]*\)", r"x\1", line)
            for part in re.split(r"(?<=[.:;])\s+|\|", plain):
                yield "docs", number, part.strip(" *-")


def folder_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0] if len(parts) > 1 else "."


def files(root):
    for name in sorted(os.listdir(root)):
        if name.endswith(".md"):
            yield name
    for top in TOPS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = sorted(each for each in folders if each != "__pycache__")
            names = [name for name in names if not os.path.islink(os.path.join(folder, name))]
            yield from (os.path.relpath(os.path.join(folder, name), root) for name in sorted(names))


def marked_texts(root):
    """The number of texts by kind, and (kind, path, line, rule, text) of the marked ones."""
    counts, marked = {}, []
    for path in files(root):
        split = (parts_of_cpp if path.endswith(CPP) else parts_of_python if path.endswith(".py") else parts_of_markdown if path.endswith(".md")
                 else parts_of_yaml if path.endswith(".yaml") and not path.startswith("manifests/chart/files/") else None)
        if split is None:
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        for kind, line, part in split(text):
            if kind == "message" and not path.startswith(("api/", "controller/", "provisioners/")):
                continue
            counts[kind] = counts.get(kind, 0) + 1
            if rule := rule_of(part):
                marked.append((kind, path, line, rule, part))
    return counts, marked


def self_check():
    """Planted texts are found, so that the test cannot pass by reading nothing."""
    source = ('// Of the cards that are free.\nint a = 1;  // likewise for a node of it\n/* Nobody reads this one here. */\n'
              'auto b = "who has to go for it";\n/// Returns the number of\n/// cards, anew each time.\n')
    found = [(kind, line, rule_of(part)) for kind, line, part in parts_of_cpp(source) if rule_of(part)]
    wanted = [("code", 1, "no subject"), ("code", 2, "no subject"), ("code", 3, "person word"), ("message", 4, "no subject"), ("code", 5, "idiom")]
    if found != wanted:
        sys.exit(f"language_test: planted texts: {found} instead of {wanted}")
    for plain in ("Returns the claims whose pods run.", "Number of free cards of the node.", "What is a claim?", "namespace of nobody and nothing"):
        if rule_of(plain):
            sys.exit(f"language_test: a plain text is marked: {plain}")
    if len([part for _, _, part in parts_of_markdown("# Head\nA claim is Bound. It is told so.\n```\ntold\n```\n") if rule_of(part)]) != 1:
        sys.exit("language_test: a planted sentence of a document was not found")
    yaml = "# Comes with it.\n# Nobody else puts it\n# on a claim.\na: 1\nmessage: whoever may edit it is told so\nb: 'what is walked has at most \\'256\\' entries'\n"
    if [line for _, line, part in parts_of_yaml(yaml) if rule_of(part)] != [1, 5, 6]:
        sys.exit("language_test: a planted text of a manifest was not found")
    if [rule_of(part) for _, _, part in parts_of_python('"""Nobody waits for this here."""\nx = 1  # one that is told so\n')].count(None):
        sys.exit("language_test: a planted comment of a script was not found")


def main(root, option):
    self_check()
    counts, marked = marked_texts(root)
    now = {}
    for kind, path, *_ in marked:
        group = now.setdefault(kind, {})
        group[folder_of(path)] = group.get(folder_of(path), 0) + 1
    with open(LIMITS, encoding="utf-8") as file:
        limits = json.load(file)
    if option == "--list":
        print("\n".join(f"{path}:{line}: {kind}: {rule}: {text[:160]}" for kind, path, line, rule, text in marked))
    wrong = []
    for kind in counts:
        allowed = limits["language"].setdefault(kind, {})
        for folder in sorted(set(allowed) | set(now.get(kind, {}))):
            have, limit = now.get(kind, {}).get(folder, 0), allowed.get(folder, 0)
            if have > limit:
                wrong.append(f"{kind} of {folder}: {have} marked texts, {limit} allowed (--list shows them)")
            elif have < limit and option == "--write":
                allowed[folder] = have
                if have == 0:
                    del allowed[folder]
            elif have < limit:
                wrong.append(f"{kind} of {folder}: {have} marked texts, fewer than the {limit} allowed: lower the limit with --write")
    if option == "--write":
        with open(LIMITS, "w", encoding="utf-8") as file:
            json.dump(limits, file, indent=1, sort_keys=True)
            file.write("\n")
    print("\n".join(wrong))
    for kind, count in sorted(counts.items()):
        bad = sum(now.get(kind, {}).values())
        print(f"{kind}: {bad} of {count} marked, {100 * bad / count:.1f} %")
    sys.exit(1 if wrong or min(counts.values()) < 50 else 0)


main(os.path.realpath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
