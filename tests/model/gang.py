"""Explicit-state check of (C14) in controller/reconcile/state_machine.h: a gang of two members, each of which needs a card of two, and two controllers that
act on stale snapshots and may crash (drop theirs) at any point. A rival claim may take a free card and release it; the provisioner may refuse the second
member, and recover. Time is a choice: a waiting member may time out at any moment.
python3 gang.py [back=skipped|mark=skipped|wait=skipped]
Without options the implemented rules are checked: no violation. Each option prints the shortest run to a violation: back=skipped (a Bound member keeps its card
though the other member can't get one), mark=skipped (it is released without a mark on the device, so a stale controller reports a claim as Bound whose device
is being deleted) and wait=skipped (a member is provisioned before the other one has its card). bind.py checks the order of one claim's writes."""
import sys
from states import reach
STAYS = 'back=skipped' in sys.argv
UNMARKED = 'mark=skipped' in sys.argv
HASTY = 'wait=skipped' in sys.argv
MAXUID = 3
# member: (claim status P | B | P<rv of a mark>, its rv, dev); dev: None | (uid, phase P | B | M (Bound, marked) | F, deleting, rv, card)
# state: (members, ledger, provisioned, next uid, refuses, refused before, rival came before, c1, c2, hasty); ledger: per card None, a uid or 'r'.
# hasty: a member was provisioned on a snapshot in which the other one had no card.

def holds(member, ledger):
    dev = member[2]
    return dev is not None and not dev[2] and (dev[1] in 'BM' or ledger[dev[4]] == dev[0])

def writes(snap):
    """Returns every write that may follow from this snapshot."""
    members, ledger, prov, refuses = snap
    alive = {m[2][0]: m[2] for m in members if m[2]}
    for card, uid in enumerate(ledger):
        if uid not in (None, 'r') and (uid not in alive or alive[uid][4] != card): return [('null', card, uid)]
    for uid in prov:
        if uid not in alive: return [('deprov', uid)]
    all_ = []
    for i, (status, crv, dev) in enumerate(members):
        other = holds(members[1 - i], ledger)
        if dev is None:
            if status == 'B': all_.append(('cstatus', i, 'P', crv))
            opens = [k for k in (0, 1) if members[k][2] is None]
            if any(members[k][0] == 'B' for k in opens) or (refuses and 1 in opens): continue
            taken = [m[2][4] for m in members if m[2]]
            free = [c for c in (0, 1) if ledger[c] is None and c not in taken]
            if len(free) >= len(opens): all_.append(('create', i, free[opens.index(i)]))
            continue
        uid, ph, deleting, rv, card = dev
        if deleting:
            if uid in prov: all_.append(('deprov', uid))
            elif ledger[card] == uid: all_.append(('null', card, uid))
            else: all_.append(('dropfin', i, uid))
        elif ph == 'F': all_.append(('deldev', i, uid, rv))
        elif ph == 'P':
            if ledger[card] != uid: all_.append(('entry', i, uid, rv, card))
            elif not other and not HASTY: all_.append(('deldev', i, uid, rv))  # after a minute
            elif refuses and i == 1: all_.append(('deldev', i, uid, rv))
            elif uid not in prov: all_.append(('prov', uid, other))
            else: all_.append(('bind', i, uid, rv))
        elif ph == 'M' or (UNMARKED and not other):
            if other: all_.append(('clear', i, uid, rv))
            elif status != f'P{rv}': all_.append(('cstatus', i, f'P{rv}', crv))
            else: all_.append(('fail', i, uid, rv))
        else:
            if status != 'B': all_.append(('cstatus', i, 'B', crv))
            elif not other and not STAYS: all_.append(('mark', i, uid, rv))  # after a minute
    return all_

PHASE = {'bind': 'B', 'mark': 'M', 'clear': 'B', 'fail': 'F'}

def apply(s, w):
    members, ledger, prov, nd, *rest, hasty = s
    members, ledger = list(members), list(ledger)
    op, follow = w[0], None
    def dev_of(i, uid, rv=None):
        dev = members[i][2]
        return dev if dev and dev[0] == uid and (rv is None or (dev[3] == rv and not dev[2])) else None
    def put(i, dev): members[i] = members[i][:2] + (dev,)
    if op == 'null':
        if ledger[w[1]] == w[2]: ledger[w[1]] = None
    elif op == 'deprov': prov = prov - {w[1]}
    elif op == 'prov':
        prov = prov | {w[1]}
        hasty = hasty or not w[2]
    elif op == 'create':
        if members[w[1]][2] is None and nd < MAXUID:
            put(w[1], (nd, 'P', False, 0, w[2])); nd += 1
    elif op == 'entry':
        if ledger[w[4]] is None: ledger[w[4]] = w[2]
        elif ledger[w[4]] != w[2]: follow = ('deldev', w[1], w[2], w[3])  # 422
    elif op == 'deldev':
        dev = dev_of(w[1], w[2], w[3])
        if dev: put(w[1], (dev[0], dev[1], True, dev[3] + 1, dev[4]))
    elif op == 'dropfin':
        dev = dev_of(w[1], w[2])
        if dev and dev[2]: put(w[1], None)
    elif op in PHASE:
        dev = dev_of(w[1], w[2], w[3])
        if dev: put(w[1], (dev[0], PHASE[op], False, dev[3] + 1, dev[4]))
    elif op == 'cstatus':
        m = members[w[1]]
        if m[1] == w[3]: members[w[1]] = (w[2], m[1] + 1, m[2])
    return (tuple(members), tuple(ledger), prov, nd, *rest, hasty), follow

def succ(s):
    members, ledger, prov, nd, refuses, refused, came, c1, c2, hasty = s
    def with_(**k):
        l = dict(members=members, ledger=ledger, prov=prov, nd=nd, refuses=refuses, refused=refused, came=came, c1=c1, c2=c2, hasty=hasty)
        l.update(k); return tuple(l.values())
    if not refused: yield 'the provisioner refuses', with_(refuses=True, refused=True)
    if refuses: yield 'it refuses no more', with_(refuses=False)
    if not came:
        for c in (0, 1):
            if ledger[c] is None: yield f'another claim takes card {c}', with_(ledger=ledger[:c] + ('r',) + ledger[c + 1:], came=True)
    for c in (0, 1):
        if ledger[c] == 'r': yield 'the other claim leaves', with_(ledger=ledger[:c] + (None,) + ledger[c + 1:])
    for name, c in (('c1', c1), ('c2', c2)):
        if not c:
            for w in writes((members, ledger, prov, refuses)): yield f'{name} reads', with_(**{name: w})
        else:
            n, follow = apply(s, c)
            at = 7 if name == 'c1' else 8
            yield f'{name} {c}' + (' 422' if follow else ''), n[:at] + (follow,) + n[at + 1:]
            yield f'{name} crash', with_(**{name: None})

def bad(s):
    members, ledger, prov, nd, refuses, refused, came, c1, c2, hasty = s
    if hasty: return 'a member was provisioned that may be of no use'
    for status, _, dev in members:
        if status == 'B':
            if dev is None: return 'bound claim without its device'
            if dev[2]: return 'device of a bound claim is being deleted'
            if dev[1] == 'F': return 'a bound claim has a failed device'
        if dev and dev[1] == 'B' and not dev[2] and (ledger[dev[4]] != dev[0] or dev[0] not in prov):
            return 'bound device without its entry or effect'
    if c1 or c2 or (nd >= MAXUID and any(w[0] == 'create' for w in writes((members, ledger, prov, refuses)))): return None
    if not writes((members, ledger, prov, refuses)):
        held = [holds(m, ledger) for m in members]
        if held[0] != held[1]: return 'at rest one member holds a card and the other none'
        if not held[0] and (prov or any(x not in (None, 'r') for x in ledger)): return 'garbage at rest'
    return None

s0 = ((('P', 0, None), ('P', 0, None)), (None, None), frozenset(), 0, False, False, False, None, None, False)
seen = reach([s0], succ, bad)
whole = sum(1 for s in seen if all(m[0] == 'B' for m in s[0]))
print(f'{len(seen)} states, {whole} of them whole, no violation')
sys.exit(0 if whole else 1)
