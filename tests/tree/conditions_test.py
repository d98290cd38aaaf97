"""Proves that the pages conditions.md, card-conditions.md and events.md of manifests/guide list every reason of a condition or event, no other one, and
only messages of the sources.  conditions_test.py SOURCE_DIR

Reasons of the sources: the constants of namespace `reason` in api/v1alpha/keys.h, other CamelCase literals in controller/reconcile and controller/agent
(NOT_REASONS names those that are none), literals at calls of event() in all of controller/, and words before a colon at the start of literals in
provisioners/. Reasons of the pages: words in backticks in the first column of tables with the header "Reason | Example message | What to do".

In an example message, a word in capitals, a word with a digit and "…" stand for values. Between values, colons and semicolons, each run of five words must
occur in one string literal, as must a whole text of four words."""
import os
import re
import sys

PAGES = ("manifests/guide/conditions.md", "manifests/guide/card-conditions.md", "manifests/guide/events.md")
HEADER = ["Reason", "Example message", "What to do"]
RUN, SHORTEST = 5, 4
# CamelCase literals of controller/reconcile and controller/agent that are no reasons: types of conditions and events, statuses, phases, kinds, operators,
# effects, policies, parts of other programs' messages.
NOT_REASONS = set("""
    AccessLost Accepted Bound Healthy Held ModelsExist NearLimit NeedsRepair PodScheduled Ready Resized ResourceClaimReady SharesFit
    Normal Warning True False Available Failed Full Lost Pending Released Succeeded Terminating Unschedulable
    Node Pod NotFound DoesNotExist Equal Exists Gt In Lt NotIn NoExecute NoSchedule PreferNoSchedule All Delete Immediate WaitForFirstConsumer Hostname DRAPlugin""".split())
# Words before a colon in literals of provisioners/ that are not reasons.
NOT_DRIVER_REASONS = {"MemTotal"}
TOKEN = re.compile(r'''R"(?P<mark>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=mark)"|//[^\n]*|/\*.*?\*/|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|"(?P<text>(?:\\.|[^"\\\n])*)"''',
                   re.S)
BETWEEN = re.compile(r"(?:\s|//[^\n]*\n)*")


def literals(source):
    """Returns the string literals of a C++ source. Adjacent literals are one."""
    found, end = [], None
    for each in TOKEN.finditer(source):
        text = each["raw"] if each["raw"] is not None else each["text"]
        if text is None:
            continue
        if each["raw"] is None:
            text = re.sub(r"\\(.)", lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), text)
        if end is not None and BETWEEN.fullmatch(source, end, each.start()):
            found[-1] += text
        else:
            found.append(text)
        end = each.end()
    return found


def words(text):
    stripped = (each.strip("\"'`()[]{}.,:;") for each in text.split())
    return [each for each in stripped if each]


def runs(found):
    """Returns the runs of four and five words in the literals."""
    known = set()
    for text in found:
        these = words(text)
        for length in range(SHORTEST, RUN + 1):
            known.update(tuple(these[i:i + length]) for i in range(len(these) - length + 1))
    return known


def is_value(word):
    return word == "…" or re.search(r"\d|[A-Z]{2}", word) is not None


def unknown_runs(message, known):
    """Yields runs of the message that no literal contains."""
    segment = []
    for word in [*words(re.sub(r"[:;](?=\s)", " … ", message)), "…"]:
        if not is_value(word):
            segment.append(word)
            continue
        length = min(RUN, len(segment))
        if length >= SHORTEST:
            yield from (run for run in (tuple(segment[i:i + length]) for i in range(len(segment) - length + 1)) if run not in known)
        segment = []


def reasons_of(sources):
    """sources: path → text. Returns reason → path."""
    found = {}
    for path, text in sources.items():
        if path == "api/v1alpha/keys.h":
            block = re.search(r"namespace reason \{(.*?)\n\}", text, re.S)
            for name in re.findall(r'k\w+\s*=\s*"(\w+)"', block[1]) if block else ():
                found.setdefault(name, path)
        if path.startswith("controller/") and not path.startswith("controller/standalone/"):
            for name in re.findall(r'\bevent\([^;]*?"(?:Warning|Normal)",\s*"(\w+)"', text, re.S):
                found.setdefault(name, path)
        if path.startswith(("controller/reconcile/", "controller/agent/")):
            for literal in literals(text):
                if re.fullmatch(r"[A-Z][a-z]+[A-Za-z]*|[A-Z]{2,}[a-z][A-Za-z]*", literal) and literal not in NOT_REASONS:
                    found.setdefault(literal, path)
        if path.startswith("provisioners/") and not path.startswith("provisioners/skeletons/"):
            for literal in literals(text):
                named = re.match(r"([A-Z][a-z]+[A-Za-z]*): ", literal)
                if named and named[1] not in NOT_DRIVER_REASONS:
                    found.setdefault(named[1], path)
    return found


def rows_of(page):
    """Yields (line number, reasons, example message) of the tables of reasons."""
    inside = False
    for number, line in enumerate(page.splitlines(), 1):
        cells = [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if cells == HEADER:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set("".join(cells)) <= set("-: "):
            yield number, re.findall(r"`([^`]+)`", cells[0]), cells[1] if len(cells) > 1 else ""


def findings(sources, pages):
    """Returns what is wrong, the number of reasons, and the number of example messages."""
    reasons = reasons_of(sources)
    known = runs([literal for text in sources.values() for literal in literals(text)])
    numbered = {literal for text in sources.values() for literal in literals(text) if re.fullmatch(r"[A-Z][a-z]+", literal)}
    wrong, named, messages = [], set(), 0
    for path, page in pages.items():
        for number, cells, message in rows_of(page):
            if not cells:
                wrong.append(f"{path}:{number}: the row names no reason")
            for name in cells:
                named.add(name)
                # A literal and a number, such as Xid79.
                if name not in reasons and not (re.fullmatch(r"[A-Z][a-z]+\d+", name) and name.rstrip("0123456789") in numbered):
                    wrong.append(f"{path}:{number}: there is no reason {name}")
            messages += bool(words(message))
            for run in unknown_runs(message, known):
                wrong.append(f"{path}:{number}: no string literal contains: {' '.join(run)}")
    for name in sorted(set(reasons) - named):
        wrong.append(f"{reasons[name]}: the reason {name} is on no page")
    return wrong, len(reasons), messages


def self_check():
    """Planted texts: each mistake must be found, and a correct page must have none."""
    sources = {"api/v1alpha/keys.h": 'namespace reason {\ninline constexpr std::string_view kNoFit = "NoFit";\n}  // namespace reason\n',
               "controller/agent/a.cpp": 'events_.event(card, "Warning", "Refused",\n  "card " + uuid + " could not be published because "\n  "it is too large");',
               "provisioners/p.cpp": 'return "Broken: the card answers no more";  // "NotAReason: x"\nreturn "Xid" + number;'}
    table = "| Reason | Example message | What to do |\n|---|---|---|\n"
    good = [("NoFit", "card NAME"), ("Refused", "card CARD could not be published because it is too large"), ("Broken", "the card answers no more"), ("Xid79", "")]

    def check(rows, *parts):
        page = table + "".join(f"| `{name}` | {message} | Wait |\n" for name, message in rows)
        wrong, reasons, _ = findings(sources, {"page": page})
        assert reasons == 3, reasons
        assert len(wrong) == len(parts) and all(any(part in each for each in wrong) for part in parts), (wrong, parts)

    check(good)
    check(good[1:], "the reason NoFit is on no page")
    check(good[:1] + good[2:], "the reason Refused is on no page")
    check([*good[:2], good[3]], "the reason Broken is on no page")
    check([*good, ("Invented", "")], "there is no reason Invented")
    check([*good, ("NoFit", "card CARD could not be published since it is too")], *["no string literal contains"] * 4)
    check([*good, ("NoFit", "the card answers CARD")])
    check([*good, ("NoFit", "NAME: the cards answer no more")], "no string literal contains: the cards answer no more")
    nothing, _, _ = findings(sources, {"page": "No table.\n"})
    assert len(nothing) == 3, nothing


def main(root):
    self_check()
    sources = {}
    for top in ("api", "controller", "provisioners"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in files:
                if name.endswith((".h", ".hpp", ".cpp", ".inc")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as f:
                        sources[os.path.relpath(path, root)] = f.read()
    pages = {}
    for path in PAGES:
        with open(os.path.join(root, path), encoding="utf-8") as f:
            pages[path] = f.read()
    wrong, reasons, messages = findings(sources, pages)
    print("\n".join(wrong))
    print(f"{len(sources)} sources, {reasons} reasons, {messages} example messages, {len(wrong)} wrong")
    return 1 if wrong or len(sources) < 300 or reasons < 60 or messages < 60 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
