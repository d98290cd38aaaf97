"""Reads commit subjects, a line each, and fails on those over 72 characters or without an imperative: `[scope: ]Verb the thing`."""
import re
import sys

MAX_LENGTH = 72
FORM = re.compile(r"([a-z0-9_./, -]+: )?[A-Z][a-z]+\b")
# First words of sentences that are not imperatives.
NOT_IMPERATIVE = re.compile(r"([a-z0-9_./, -]+: )?(?=[A-Z])(Who|What|Which|The|A|An|Of|One|It|They|This|That|Where|When|If|As|No|Not|In|On|With|For|All|Figures|Tests|Some|"
                            r"(?!(?i:feed|embed|need|shed|speed|seed|proceed|exceed|bring|ping|string)\b)\w+(ed|ing))\b")


def fault_of(subject):
    """Returns the errors of the subject; empty if there are none."""
    if subject.startswith('Revert "'):
        return ""
    if len(subject) > MAX_LENGTH:
        return f"{len(subject)} characters"
    return "" if FORM.match(subject) and not NOT_IMPERATIVE.match(subject) else "not an imperative"


for subject, wanted in (("scheduler: Reserve nodes for gangs", True), ("Add a test", True), ("scheduler: Who waits", False), ("scheduler: reserved", False),
                        ("x" * 73, False), ('Revert "' + "x" * 70 + '"', True), ("reconcile: Counting turns", False), ("Feed the cache", True),
                        ("monitoring: Add alerts", True)):
    if (fault_of(subject) == "") != wanted:
        sys.exit(f"commit_subjects: a planted subject is judged wrongly: {subject}")
bad = [(fault, subject) for subject in sys.stdin.read().splitlines() if (fault := fault_of(subject))]
for fault, subject in bad:
    print(f"commit subject: {fault}: {subject[:120]}")
sys.exit(1 if bad else 0)
