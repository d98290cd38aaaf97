"""Explicit-state check of V1 to V5 in controller/reconcile/state_machine.h for a gang of two members, each of which needs a card of two that victims hold,
and two controllers that act on stale snapshots and may crash (drop theirs) at any point. A member may be deleted and recreated; a victim may stop being
preemptible, and become so again; a claim of lower priority takes a card that is free and not nominated.
python3 preemption.py [nomination=partial|nomination=left|nomination=bare|mark=skipped]
Without options the implemented rules are checked: no violation. Each option prints the shortest run to a violation: nomination=partial (a victim is evicted before
all members are nominated), nomination=left (a member keeps its nomination though the reporting member has lost its own), nomination=bare (only the reporting member is
nominated) and mark=skipped (victims are not marked first, so that a stale controller fails a device that is no longer needed)."""
import sys
from states import reach
PARTIAL, LEFT, BARE = ('nomination=' + each in sys.argv for each in ('partial', 'left', 'bare'))
UNMARKED = 'mark=skipped' in sys.argv
MAXGONE, MAXPRIOR, MAXRV = 1, 1, 4
# member: (here, nominated, bound); the first one reports for both.
# card: (holder, its rv): B a victim, M a marked one, E one whose pods were evicted, F a failed one, '' free, g the gang, r a claim of lower priority.
# state: (members, cards, may: whether the second victim is preemptible, deletions so far, changes of `may` so far, c1, c2, wrong)

def helped(members, cards, may):
    """Returns true if the gang is complete, and would fit after eviction of all preemptible victims."""
    return all(m[0] for m in members) and all(who in ('', *'BMEF') for who, _ in cards) and (may or cards[1][0] in ('', 'F'))

def needed(members, cards, may, i):
    nominated = all(m[1] for m in members) or (members[0][1] and BARE) or (members[i][1] and PARTIAL)
    return helped(members, cards, may) and nominated

def writes(snap):
    """Returns every write that may follow from this snapshot."""
    members, cards, may = snap
    all_ = []
    first, second = members
    if not any(m[2] for m in members):
        if all(m[0] for m in members) and all(who == '' for who, _ in cards): return [('bind',)]
        help_ = helped(members, cards, may)
        if first[0] and help_ and not first[1]: all_.append(('nominate', 0))
        if help_ and first[1] and not second[1] and not BARE: all_.append(('nominate', 1))
        if first[0] and first[1] and not help_: all_.append(('drop', 0))
        if second[0] and second[1] and not first[1] and not LEFT: all_.append(('drop', 1))
        if second[0] and second[1] and not first[0]: all_.append(('drop', 1))
    for i, (who, rv) in enumerate(cards):
        need = needed(members, cards, may, i)
        hasty = not all(m[1] for m in members) and not BARE
        if who == 'B' and need and UNMARKED: all_.append(('fail', i, None, hasty))
        elif who == 'B' and need: all_.append(('mark', i, rv))
        elif who in 'ME' and who and not need: all_.append(('clear', i, rv))
        elif who == 'M': all_.append(('evict', i, hasty))
        elif who == 'E': all_.append(('fail', i, rv, hasty))
        elif who == 'F': all_.append(('undo', i, rv))
    return all_

def apply(s, w):
    members, cards, may, gone, prior, c1, c2, wrong = s
    members, cards = list(members), list(cards)
    op, i = w[0], w[1] if len(w) > 1 else 0
    def put(who): cards[i] = (who, min(cards[i][1] + 1, MAXRV))
    here, nominated, bound = members[i]
    who, rv = cards[i]
    if op == 'bind':
        if all(m[0] for m in members) and all(c[0] == '' for c in cards):
            members, cards = [(True, False, True)] * 2, [('g', c[1]) for c in cards]
    elif op in ('nominate', 'drop'):
        if here and not bound: members[i] = (here, op == 'nominate', bound)
    elif op == 'mark':
        if who == 'B' and rv == w[2]: put('M')
    elif op == 'clear':
        if who in ('M', 'E') and rv == w[2]: put('B')
    elif op == 'evict':
        if who == 'M':
            cards[i] = ('E', rv)  # evicts a pod; the device is not written
            wrong = wrong or w[2]
    elif op == 'fail':
        if who in ('B', 'M', 'E') and w[2] in (None, rv):
            wrong = wrong or w[3] or (w[2] is None and not needed(members, cards, may, i))
            put('F')
    elif op == 'undo':
        if who == 'F' and rv == w[2]: put('')
    return (tuple(members), tuple(cards), may, gone, prior, c1, c2, wrong)

def succ(s):
    members, cards, may, gone, prior, c1, c2, wrong = s
    for i in (0, 1):
        if members[i][0] and not members[i][2] and gone < MAXGONE:
            yield f'member {i} is deleted', (members[:i] + ((False, False, False),) + members[i + 1:], cards, may, gone + 1, *s[4:])
        if not members[i][0]:
            yield f'member {i} is made anew', (members[:i] + ((True, False, False),) + members[i + 1:], *s[1:])
        who, rv = cards[i]
        whole = any(m[0] for m in members) and members[i][1]
        if who == '' and not whole:
            yield f'a lower one takes card {i}', (members, cards[:i] + (('r', rv),) + cards[i + 1:], *s[2:])
        if who == 'r': yield 'the lower one leaves', (members, cards[:i] + (('', rv),) + cards[i + 1:], *s[2:])
    if prior < MAXPRIOR: yield f'victim 1 {"need not" if may else "may have to"} go', (members, cards, not may, gone, prior + 1, *s[5:])
    for at, c in ((5, c1), (6, c2)):
        def put(st, v): return st[:at] + (v,) + st[at + 1:]
        if not c:
            for w in writes((members, cards, may)): yield f'c{at - 4} reads', put(s, w)
        else:
            yield f'c{at - 4} {c}', put(apply(s, c), None)
            yield f'c{at - 4} crash', put(s, None)

def bad(s, via=''):
    members, cards, may, gone, prior, c1, c2, wrong = s
    if wrong: return 'one goes while not all members have their nominations, or are helped'
    if via.startswith('a lower one takes') and any(c[0] in ('M', 'E', 'F') and needed(members, cards, True, i) for i, c in enumerate(cards)):
        return 'capacity that others free is taken by a lower one'
    if c1 is None and c2 is None and not writes((members, cards, may)):
        if any(m[1] for m in members) and not helped(members, cards, may): return 'capacity is nominated for nobody at rest'
        if any(c[0] in ('M', 'E', 'F') for c in cards): return 'one is on its way out at rest'
        if helped(members, cards, may) and not members[0][2]: return 'all would fit, and nobody does anything'
    return None

def taken(s, name):
    """Returns the state before a lower claim took the card: that card is free."""
    i = int(name[-1])
    return s[0], s[1][:i] + (('', s[1][i][1]),) + s[1][i + 1:], *s[2:]

start = (((True, False, False),) * 2, (('B', 0), ('B', 0)), True, 0, 0, None, None, False)
seen = reach([start], succ, bad, lambda t, step: bad(taken(t, step), step) if step.startswith('a lower one takes') else None)
print(f'{len(seen)} states, no violation')
