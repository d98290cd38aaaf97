"""Explicit-state check of the choice of members for a gang of two (controller/reconcile/gang/gang_members.cpp). Claims a and b exist; claim c is created
late with a smaller uid, so that it counts as the oldest. Annotations may be removed once and set again. A leader acts on its snapshot, one write at a
time; it may be deposed once, and its last write may arrive at any later moment.
python3 gang_members.py [order=age|beyond=retained|left=counted]
Without options the implemented rules are checked: no violation. Each option prints the shortest run to a violation: order=age (the oldest claims are members,
even if other ones already have devices), beyond=retained (an intent beyond the size is not rolled back) and left=counted (a claim whose annotation was removed
still counts). gang.py checks that all members get their cards, or none keeps any."""
import sys
from states import reach
BY_AGE = 'order=age' in sys.argv
RETAINED = 'beyond=retained' in sys.argv
STUCK = 'left=counted' in sys.argv
AGE = (1, 2, 0)  # of claims a, b, c
RANK = {'B': 0, 'P': 1, None: 2}
# claim: (exists, names the gang, device: None | P (intent) | B (Bound), version of the device)
# state: (claims, late may come, annotations that may change, leader, write of 1, write of 2)
# The rule that never three are Bound is checked only if no annotation has changed: a claim that is Bound by itself may join a gang.

def members(claims):
    named = [i for i, (here, names, _, _) in enumerate(claims) if here and (names or STUCK)]
    if len(named) < 2: return None
    return sorted(named, key=lambda i: (0 if BY_AGE else RANK[claims[i][2]], AGE[i]))[:2]

def writes(claims):
    """Returns every write that may follow from these claims."""
    chosen, all_ = members(claims), []
    for i, (here, names, dev, rv) in enumerate(claims):
        if not here or not names: continue
        if chosen is None:
            if dev: all_.append(('drop', i, rv))  # after a minute
        elif i in chosen and dev is None: all_.append(('create', i, rv))
        elif i in chosen and dev == 'P' and all(claims[k][2] for k in chosen): all_.append(('bind', i, rv))
        elif i not in chosen and dev == 'P' and not (RETAINED and all(claims[k][2] for k in chosen)): all_.append(('drop', i, rv))
        elif i not in chosen and dev == 'P': all_.append(('bind', i, rv))
    return all_

def apply(claims, write):
    op, i, rv = write
    here, names, dev, now = claims[i]
    if rv != now or (op == 'create') != (dev is None): return claims  # a precondition fails
    claims = list(claims)
    claims[i] = (here, names, {'create': 'P', 'bind': 'B', 'drop': None}[op], now + 1)
    return tuple(claims)

def succ(s):
    claims, late, changes, leader, w1, w2 = s
    if late: yield 'c comes', ((*claims[:2], (True, True, None, 0)), False, changes, leader, w1, w2)
    for i in range(3):
        here, names, dev, rv = claims[i]
        if not here or not changes: continue
        changed = claims[:i] + ((here, not names, dev, rv),) + claims[i + 1:]
        yield f'annotation of {"abc"[i]} {"off" if names else "on"}', (changed, late, changes - 1, leader, w1, w2)
    for number, w in ((1, w1), (2, w2)):
        if w:
            after = apply(claims, w)
            yield f'leader {number} {w}', (after, late, changes, leader, *((None, w2) if number == 1 else (w1, None)))
        elif number == leader and all(rv < 4 for _, _, _, rv in claims):
            for w in writes(claims): yield f'leader {number} reads', (claims, late, changes, leader, *((w, w2) if number == 1 else (w1, w)))
    if leader == 1: yield 'leader 1 is deposed', (claims, late, changes, 2, w1, w2)
    if leader == 2 and w1: yield 'its write is lost', (claims, late, changes, leader, None, w2)

def bad(s):
    claims, late, changes, leader, w1, w2 = s
    hold = [i for i, (here, names, dev, _) in enumerate(claims) if here and names and dev]
    named = [i for i, (here, names, _, _) in enumerate(claims) if here and names]
    if changes == CHANGES and sum(claims[i][2] == 'B' for i in named) > 2: return 'three are Bound in a gang of two'
    if w1 or w2 or any(rv >= 4 for _, _, _, rv in claims) or writes(claims): return None
    if changes == CHANGES and len(hold) > 2: return 'at rest three have devices'
    if len(named) >= 2 and len(hold) < 2: return 'at rest two claims name the gang, and not two are served'
    return None

CHANGES = 2
start = (((True, True, None, 0), (True, True, None, 0), (False, False, None, 0)), True, CHANGES, 1, None, None)
seen = reach([start], succ, bad)
print(f'{len(seen)} states, no violation')
