"""Explicit-state check of the order of writes in controller/reconcile/state_machine.h: two controllers that act on stale snapshots and may
crash (drop theirs) at any point, one claim that may be deleted and created anew, a device whose hardware may go and come back while
nobody uses the claim: Bound -> claim Lost -> device Failed -> deleted -> undone -> bound anew; a pod that starts on the device of a live
Bound claim (the agent looks at that moment) and keeps it until it ends, though a tenant may tear the claim out, finalizer and all.
A claim of higher priority may come and go, for which this one has to make room: device marked, its pod evicted, claim Pending, device
Failed -> deleted -> undone; while it is there nothing is bound anew.
  python3 bind.py [commit=device|commit=claim|lost=skipped|look=skipped|mark=skipped]
commit=device is what is built: no violation. commit=claim (claim patched before the device is Bound) and lost=skipped (the device is not
marked before the claim is Lost, so a stale controller fails it after the hardware came back) and look=skipped (a device whose claim is gone
goes without a look at the pods) and mark=skipped (who makes room is not marked before) each print the shortest run to a violation. The look comes after the claim was seen to go: no pod
starts after that, so what it finds is all."""
import sys
from collections import deque
COMMIT = 'claim' if 'commit=claim' in sys.argv else 'device'
SKIP = 'lost=skipped' in sys.argv
BLIND = 'look=skipped' in sys.argv
UNMARKED = 'mark=skipped' in sys.argv
MAXUID, MAXCLAIM, MAXLOSS, MAXPOD, MAXNEED = 2, 2, 1, 2, 1
PHASE = {'bind': 'B', 'suspect': 'S', 'mark': 'M', 'clear': 'B', 'fail': 'F'}
# claim: None | (uid, finalizer, named, status, deleting, rv); status P | B | L | P<rv of a
# mark>. dev: None | (uid, claim uid, phase, deleting, rv);
# phase P | B | S (Bound, suspected: reason CardGone) | M (Bound, reason Preempted; its ResourceClaim is gone with that) | F. The device's name follows from the claim's uid, so `named` is a flag.
# pod: None | uid of the device that it runs on; pods: how many have started.
# need: whether a claim waits for its room; needs: how many did.
# state: (claim, dev, ledger, provisioned, hw, losses, next device, next claim, pod, pods, c1, c2, need, needs)

def writes(snap):
    """The one write that this snapshot leads to."""
    claim, dev, led, prov, hw, pod, need = snap
    used = dev is not None and pod == dev[0] and not BLIND
    alive = {dev[0]} if dev else set()
    for u in led:
        if u not in alive: return ('null', u)
    for u in prov:
        if u not in alive: return ('deprov', u)
    if dev:
        uid, cu, ph, deleting, rv = dev
        live = claim is not None and claim[0] == cu and not claim[4]
        if deleting:
            if uid in prov: return ('deprov', uid)
            if uid in led: return ('null', uid)
            return ('dropfin', uid)
        if not live: return None if used else ('deldev', uid, rv)
        if ph == 'F': return ('deldev', uid, rv)
        if ph == 'P':
            if COMMIT == 'claim' and claim[2]: return ('bind', uid, rv)
            if uid not in led: return ('entry', uid, rv)
            if uid not in prov: return ('prov', uid)
            if COMMIT == 'claim' and not claim[2]: return ('name', claim[0], claim[5])
            return ('bind', uid, rv)
        if hw and need and (ph == 'M' or UNMARKED and ph == 'B'):
            if used: return ('evict', uid)
            if claim[3] != f'P{rv}': return ('cstatus', claim[0], f'P{rv}', claim[5])  # of this mark
            return ('fail', uid, rv)
        if hw and need and ph == 'B' and claim[2] and claim[3] == 'B': return ('mark', uid, rv)
        if not hw:
            if ph in 'BM' and not SKIP: return ('suspect', uid, rv)
            if claim[3] != 'L': return ('cstatus', claim[0], 'L', claim[5])
            return None if used else ('fail', uid, rv)
        if ph in 'SM': return ('clear', uid, rv)
        if not claim[2]: return ('name', claim[0], claim[5])
        if claim[3] != 'B': return ('cstatus', claim[0], 'B', claim[5])
        return None
    if claim is None: return None
    if claim[4]: return ('cfin', claim[0], claim[5])
    if claim[3] == 'B': return ('cstatus', claim[0], 'L', claim[5])
    if not led and hw and not need: return ('create', claim[0])
    return None

def apply(s, w):
    claim, dev, led, prov, hw, losses, nd, nc, pod, pods, c1, c2, need, needs = s
    op = w[0]
    if op == 'null': led = led - {w[1]}
    elif op == 'deprov': prov = prov - {w[1]}
    elif op == 'prov': prov = prov | {w[1]}
    elif op == 'dropfin':
        if dev and dev[0] == w[1] and dev[3]: dev = None
    elif op == 'deldev':
        if dev and dev[0] == w[1] and dev[4] == w[2] and not dev[3]: dev = dev[:3] + (True, dev[4] + 1)
    elif op == 'entry':
        if w[1] not in led and led:  # 422
            return s, ('deldev', w[1], w[2])
        led = led | {w[1]}
    elif op == 'evict':
        if pod == w[1]: pod = None
    elif op in PHASE:
        if dev and dev[0] == w[1] and dev[4] == w[2] and not dev[3]: dev = (dev[0], dev[1], PHASE[op], False, dev[4] + 1)
    elif op == 'name':
        if claim and claim[0] == w[1] and claim[5] == w[2] and not claim[4]: claim = (claim[0], True, True, claim[3], False, claim[5] + 1)
    elif op == 'cstatus':
        if claim and claim[0] == w[1] and claim[5] == w[3]: claim = claim[:3] + (w[2],) + (claim[4], claim[5] + 1)
    elif op == 'cfin':
        if claim and claim[0] == w[1] and claim[4] and claim[5] == w[2]: claim = None
    elif op == 'create':
        if dev is None and nd < MAXUID: dev = (nd, w[1], 'P', False, 0); nd += 1
    return (claim, dev, led, prov, hw, losses, nd, nc, pod, pods, c1, c2, need, needs), None

def succ(s):
    claim, dev, led, prov, hw, losses, nd, nc, pod, pods, c1, c2, need, needs = s
    rest = (nd, nc, pod, pods, c1, c2, need, needs)
    if not need and needs < MAXNEED: yield 'a claim of higher priority waits', (*s[:12], True, needs + 1)
    if need: yield 'it waits no more', (*s[:12], False, needs)
    if hw and losses < MAXLOSS: yield 'hardware goes', (claim, dev, led, prov, 0, losses + 1, *rest)
    if not hw: yield 'hardware comes back', (claim, dev, led, prov, 1, losses, *rest)
    if claim and not claim[4]:
        yield 'user deletes', ((claim[:4] + (True, claim[5] + 1)) if claim[1] else None, dev, led, prov, hw, losses, *rest)
    if claim is None and nc < MAXCLAIM: yield 'user creates', ((nc, False, False, 'P', False, 0), dev, led, prov, hw, losses, nd, nc + 1, *rest[2:])
    if claim: yield 'a tenant tears the claim out', (None, dev, led, prov, hw, losses, *rest)
    if pod is None and pods < MAXPOD and claim and claim[3] == 'B' and not claim[4] and dev and dev[1] == claim[0] and dev[2] == 'B' \
            and not dev[3]:
        yield 'pod starts', (claim, dev, led, prov, hw, losses, nd, nc, dev[0], pods + 1, *rest[4:])
    if pod is not None: yield 'pod ends', (claim, dev, led, prov, hw, losses, nd, nc, None, *rest[3:])
    snap = (claim, dev, led, prov, hw, pod, need)
    for i, c in ((10, c1), (11, c2)):
        def put(st, v): l = list(st); l[i] = v; return tuple(l)
        w = writes(snap)
        if w: yield f'c{i-9} reads', put(s, w)  # a snapshot matters only by the write that it leads to
        if c:
            n, follow = apply(s, c)
            yield f'c{i-9} {c}' + (' 422' if follow else ''), put(n, follow)
            yield f'c{i-9} crash', put(s, None)

def bad(s):
    claim, dev, led, prov, hw = s[:5]
    pod, c1, c2, need = s[8], s[10], s[11], s[12]
    if pod is not None and (not dev or dev[0] != pod or dev[3] or pod not in led or pod not in prov):
        return 'the device of a running pod goes'
    if len(led) > 1: return 'over-commit'
    if claim and claim[3] == 'B' and not claim[4]:
        if not dev or dev[1] != claim[0]: return 'bound claim without its device'
        if dev[3]: return 'device of a bound claim is being deleted'
        if dev[2] == 'F': return 'a bound claim has a failed device'
    if dev and dev[2] == 'B' and not dev[3] and claim and claim[0] == dev[1] and not claim[4]:
        if dev[0] not in led: return 'bound device without its ledger entry'
        if dev[0] not in prov: return 'bound device not provisioned'
    if COMMIT == 'claim' and claim and claim[2] and claim[3] == 'P' and not claim[4] and not dev and not s[5]: return 'claim names a device that is gone'
    if writes((*s[:5], pod, need)) is None and c1 is None and c2 is None:
        if (led | prov) - ({dev[0]} if dev else set()): return 'garbage at rest'
    return None

s0 = ((0, False, False, 'P', False, 0), None, frozenset(), frozenset(), 1, 0, 0, 1, None, 0, None, None, False, 0)
seen = {s0: None}; q = deque([s0]); found = None
while q and not found:
    s = q.popleft()
    for name, t in succ(s):
        if t not in seen:
            seen[t] = (s, name); q.append(t)
            b = bad(t)
            if b: found = (b, t); break
if found:
    print('VIOLATION:', found[0]); p = []; t = found[1]
    while seen[t]: p.append(seen[t][1]); t = seen[t][0]
    for x in reversed(p): print('  ', x)
    sys.exit(1)
print(f'commit={COMMIT}: {len(seen)} states, no violation')
