"""Explicit-state check of the order of writes in controller/reconcile/state_machine.h. Two controllers act on stale snapshots and may crash (drop theirs) at
any point.
The model has one claim, which may be deleted and recreated. The device's hardware may disappear and return while no pod uses the claim: Bound -> claim Lost ->
device Failed -> deleted -> undone -> bound again. A pod may start on the device of a live Bound claim (the agent checks that at that moment) and keeps it until
it ends, though a tenant may delete the claim despite its finalizer. A claim of higher priority may arrive and leave, for which this one is preempted: device
marked, its pod evicted, claim Pending, device Failed -> deleted -> undone; while the preemptor exists nothing is bound again.
python3 bind.py [commit=device|commit=claim|lost=skipped|read=skipped|mark=skipped]
python3 bind.py resize [resize=early|resize=unpaid|resize=unordered|resize=lowered|resize=late]
commit=device is the implemented order: no violation. Each of the others prints the shortest run to a violation: commit=claim (the claim is patched before the
device is Bound), lost=skipped (the device is not marked before the claim is Lost, so a stale controller fails it after the hardware returned), read=skipped (a
device without claim is deleted without checking for pods) and mark=skipped (the victim is not marked first). The check for pods follows the observation that
the claim is deleted: no pod starts after that, so the check is complete. The status of a victim (V4) may be written by a cache that lacks its pod.

resize: a separate model, in which the hardware stays and the user edits the bound claim's amount. Other claims take and release free capacity of its card, and
the target may change while an earlier one is in progress: target on the device (R1) -> entry at the largest (R2) -> plugin (R3) -> in force (R4) -> entry at
the target (R5). Each target has a higher number than the previous one. An entry carries the number of the target for which it was written. The API server
refuses a lower number, and a higher number whose amount is below the existing entry; a plugin refuses a lower number. Violations are found for: early (the
entry is lowered before the smaller amount is in force), unpaid (in force before the plugin applied it), unordered (the API server accepts an entry of an
earlier target), lowered (a new target's entry may be below the existing one, to which an earlier target let the plugin go), late (the plugin accepts an earlier
target)."""
import sys
from states import reach
COMMIT = 'claim' if 'commit=claim' in sys.argv else 'device'
SKIP = 'lost=skipped' in sys.argv
BLIND = 'read=skipped' in sys.argv
UNMARKED = 'mark=skipped' in sys.argv
RESIZE = 'resize' in sys.argv
WRONG = next((a[7:] for a in sys.argv if a.startswith('resize=')), '')
MAXUID, MAXCLAIM, MAXLOSS, MAXPOD, MAXNEED = (1, 1, 0, 0, 0) if RESIZE else (2, 2, 1, 2, 1)
CAPACITY, MAXEDIT = (3, 3) if RESIZE else (1, 0)  # of the card; a claim gets 1 of it at first; total number of edits, and of allocations by other claims
PHASE = {'bind': 'B', 'suspect': 'S', 'mark': 'M', 'clear': 'B', 'fail': 'F'}
# claim: None | (uid, finalizer, named, status, deleting, rv, asks); status P | B | L | P<rv of a mark>.
# dev: None | (uid, claim uid, phase, deleting, rv, target, in force); target, in force: (number, amount).
# ledger, provisioned: sets of (uid, number, amount); others: amount of the card that other claims hold.
# phase P | B | S (Bound, suspected: reason CardGone) | M (Bound, reason Preempted; its ResourceClaim is deleted with that) | F. The device's name follows from
# the claim's uid, so `named` is a flag.
# pod: None | uid of the device that it runs on; pods: number of pods that have started.
# need: whether a preemptor waits for its capacity; needs: number of preemptors so far.
# state: (claim, dev, ledger, provisioned, hw, losses, next device, next claim, pod, pods, c1, c2, need, needs, others, edits)

def of(entries, uid):
    return next((e for e in entries if e[0] == uid), None)

def without(entries, uid):
    return frozenset(e for e in entries if e[0] != uid)

def resizing(claim, dev, led, prov, others):
    """Returns the one write that continues the resize, or None."""
    uid, rv, (number, amount), force = dev[0], dev[4], dev[5], dev[6]
    entry, given, asks = of(led, uid), of(prov, uid), claim[6]
    if entry is None or given is None: return None
    if asks != amount and (asks <= force[1] or sum(e[2] for e in led) - entry[2] + others + asks <= CAPACITY):
        return ('target', uid, number + 1, asks, rv)  # R1
    if force[0] != number:
        larger = max(amount, force[1]) if WRONG == 'lowered' else max(entry[2], amount, force[1])
        if entry[1] < number: return ('raise', uid, number, larger, rv, force[1])  # R2
        if WRONG == 'early' and entry[2] != amount: return ('settle', uid, number, amount)
        if given[1] < number and WRONG != 'unpaid': return ('give', uid, number, amount)  # R3
        return ('force', uid, number, amount, rv)  # R4
    if entry[2] != amount: return ('settle', uid, number, amount)  # R5
    if WRONG == 'unpaid' and given[1] < number: return ('give', uid, number, amount)
    return None

def paid(led, others, uid, number, amount):
    """Returns the ledger after the API server accepts an entry, or None for a 422."""
    was = of(led, uid)
    if was and number < was[1] and WRONG != 'unordered': return None
    if was and number > was[1] and amount < was[2] and WRONG not in ('lowered', 'unordered'): return None
    rest = without(led, uid)
    grows = was is None or amount > was[2]
    if grows and sum(e[2] for e in rest) + others + amount > CAPACITY: return None
    return rest | {(uid, number, amount)}

def writes(snap):
    """Returns the one write that follows from this snapshot."""
    claim, dev, led, prov, hw, pod, need, others = snap
    used = dev is not None and pod == dev[0] and not BLIND
    alive = {dev[0]} if dev else set()
    for u, _, _ in led:
        if u not in alive: return ('null', u)
    for u, _, _ in prov:
        if u not in alive: return ('deprov', u)
    if dev:
        uid, cu, ph, deleting, rv = dev[:5]
        live = claim is not None and claim[0] == cu and not claim[4]
        if deleting:
            if of(prov, uid): return ('deprov', uid)
            if of(led, uid): return ('null', uid)
            return ('dropfin', uid)
        if not live: return None if used else ('deldev', uid, rv)
        if ph == 'F': return ('deldev', uid, rv)
        if ph == 'P':
            if COMMIT == 'claim' and claim[2]: return ('bind', uid, rv)
            if not of(led, uid): return ('entry', uid, rv)
            if not of(prov, uid): return ('prov', uid)
            if COMMIT == 'claim' and not claim[2]: return ('name', claim[0], claim[5])
            return ('bind', uid, rv)
        if hw and need and (ph == 'M' or UNMARKED and ph == 'B'):
            if used: return ('evict', uid)
            if claim[3] != f'P{rv}': return ('cstatus', claim[0], f'P{rv}', claim[5])  # the status for this mark
            return ('fail', uid, rv)
        if hw and need and ph == 'B' and claim[2] and claim[3] == 'B': return ('mark', uid, rv)
        if not hw:
            if ph in 'BM' and not SKIP: return ('suspect', uid, rv)
            if claim[3] != 'L': return ('cstatus', claim[0], 'L', claim[5])
            return None if used else ('fail', uid, rv)
        if ph in 'SM': return ('clear', uid, rv)
        if not claim[2]: return ('name', claim[0], claim[5])
        if claim[3] != 'B': return ('cstatus', claim[0], 'B', claim[5])
        return resizing(claim, dev, led, prov, others) if RESIZE else None
    if claim is None: return None
    if claim[4]: return ('cfin', claim[0], claim[5])
    if claim[3] == 'B': return ('cstatus', claim[0], 'L', claim[5])
    if not led and hw and not need: return ('create', claim[0])
    return None

def apply(s, w):
    claim, dev, led, prov, hw, losses, nd, nc, pod, pods, c1, c2, need, needs, others, edits = s
    op = w[0]
    if op == 'null': led = without(led, w[1])
    elif op == 'deprov': prov = without(prov, w[1])
    elif op == 'prov':
        if not of(prov, w[1]): prov = prov | {(w[1], 0, 1)}  # otherwise it exists, or has other contents
    elif op == 'dropfin':
        if dev and dev[0] == w[1] and dev[3]: dev = None
    elif op == 'deldev':
        if dev and dev[0] == w[1] and dev[4] == w[2] and not dev[3]: dev = dev[:3] + (True, dev[4] + 1) + dev[5:]
    elif op == 'entry':
        now = paid(led, others, w[1], 0, 1)
        if now is None:  # 422
            return s, ('deldev', w[1], w[2])
        led = now
    elif op == 'target' or op == 'force':
        if dev and dev[0] == w[1] and dev[4] == w[4] and not dev[3]:
            dev = dev[:4] + (dev[4] + 1,) + (((w[2], w[3]), dev[6]) if op == 'target' else (dev[5], (w[2], w[3])))
    elif op == 'raise' or op == 'settle':
        now = paid(led, others, *w[1:4])
        was = of(led, w[1])
        if now is not None: led = now
        elif op == 'raise' and (was is None or was[1] <= w[2] and was[2] <= w[3]):  # 422: another claim was faster, so nothing changes
            return s, ('target', w[1], w[2] + 1, w[5], w[4])
    elif op == 'give':
        was = of(prov, w[1])
        if was and (w[2] >= was[1] or WRONG == 'late'): prov = without(prov, w[1]) | {w[1:4]}
    elif op == 'evict':
        if pod == w[1]: pod = None
    elif op in PHASE:
        if dev and dev[0] == w[1] and dev[4] == w[2] and not dev[3]: dev = (dev[0], dev[1], PHASE[op], False, dev[4] + 1) + dev[5:]
    elif op == 'name':
        if claim and claim[0] == w[1] and claim[5] == w[2] and not claim[4]: claim = (claim[0], True, True, claim[3], False, claim[5] + 1) + claim[6:]
    elif op == 'cstatus':
        if claim and claim[0] == w[1] and claim[5] == w[3]: claim = claim[:3] + (w[2],) + (claim[4], claim[5] + 1) + claim[6:]
    elif op == 'cfin':
        if claim and claim[0] == w[1] and claim[4] and claim[5] == w[2]: claim = None
    elif op == 'create':
        if dev is None and nd < MAXUID: dev = (nd, w[1], 'P', False, 0, (0, 1), (0, 1)); nd += 1
    return (claim, dev, led, prov, hw, losses, nd, nc, pod, pods, c1, c2, need, needs, others, edits), None

def succ(s):
    claim, dev, led, prov, hw, losses, nd, nc, pod, pods, c1, c2, need, needs, others, edits = s
    rest = (nd, nc, pod, pods, c1, c2, need, needs, others, edits)
    if not need and needs < MAXNEED: yield 'a claim of higher priority waits', (*s[:12], True, needs + 1, *s[14:])
    if need: yield 'it waits no more', (*s[:12], False, needs, *s[14:])
    if claim and not claim[4] and edits < MAXEDIT:
        for asks in range(1, CAPACITY + 1):
            if asks != claim[6]: yield f'user asks for {asks}', (claim[:5] + (claim[5] + 1, asks), *s[1:15], edits + 1)
    if edits < MAXEDIT and sum(e[2] for e in led) + others < CAPACITY: yield 'others take some', (*s[:14], others + 1, edits + 1)
    if others: yield 'others give some back', (*s[:14], others - 1, edits)
    if hw and losses < MAXLOSS: yield 'hardware goes', (claim, dev, led, prov, 0, losses + 1, *rest)
    if not hw: yield 'hardware comes back', (claim, dev, led, prov, 1, losses, *rest)
    if claim and not claim[4]:
        yield 'user deletes', ((claim[:4] + (True, claim[5] + 1) + claim[6:]) if claim[1] else None, dev, led, prov, hw, losses, *rest)
    if claim is None and nc < MAXCLAIM: yield 'user creates', ((nc, False, False, 'P', False, 0, 1), dev, led, prov, hw, losses, nd, nc + 1, *rest[2:])
    if claim: yield 'a tenant tears the claim out', (None, dev, led, prov, hw, losses, *rest)
    if pod is None and pods < MAXPOD and claim and claim[3] == 'B' and not claim[4] and dev and dev[1] == claim[0] and dev[2] == 'B' \
            and not dev[3]:
        yield 'pod starts', (claim, dev, led, prov, hw, losses, nd, nc, dev[0], pods + 1, *rest[4:])
    if pod is not None: yield 'pod ends', (claim, dev, led, prov, hw, losses, nd, nc, None, *rest[3:])
    snap = (claim, dev, led, prov, hw, pod, need, others)
    for i, c in ((10, c1), (11, c2)):
        def put(st, v): l = list(st); l[i] = v; return tuple(l)
        w = writes(snap)
        if w: yield f'c{i-9} reads', put(s, w)  # only the resulting write of a snapshot matters
        w = writes((*snap[:5], None, need, others)) if pod is not None else None  # with a cache that lacks the pod
        if w and w[0] == 'cstatus': yield f'c{i-9} reads its cache', put(s, w)  # V4; each other write follows a quorum read
        if c:
            n, follow = apply(s, c)
            yield f'c{i-9} {c}' + (' 422' if follow else ''), put(n, follow)
            yield f'c{i-9} crash', put(s, None)

def bad(s):
    claim, dev, led, prov, hw = s[:5]
    pod, c1, c2, need, others = s[8], s[10], s[11], s[12], s[14]
    if pod is not None and (not dev or dev[0] != pod or dev[3] or not of(led, pod) or not of(prov, pod)):
        return 'the device of a running pod goes'
    if sum(e[2] for e in led) + others > CAPACITY: return 'over-commit'
    if dev and of(led, dev[0]):
        entry, given = of(led, dev[0])[2], of(prov, dev[0])
        if given and given[2] > entry: return 'over-commit: the plugin gives more than the entry'
        if not dev[3] and entry < dev[6][1]: return 'more is in force than the entry'
    if claim and claim[3] == 'B' and not claim[4]:
        if not dev or dev[1] != claim[0]: return 'bound claim without its device'
        if dev[3]: return 'device of a bound claim is being deleted'
        if dev[2] == 'F': return 'a bound claim has a failed device'
    if dev and dev[2] == 'B' and not dev[3] and claim and claim[0] == dev[1] and not claim[4]:
        if not of(led, dev[0]): return 'bound device without its ledger entry'
        if not of(prov, dev[0]): return 'bound device not provisioned'
    if COMMIT == 'claim' and claim and claim[2] and claim[3] == 'P' and not claim[4] and not dev and not s[5]: return 'claim names a device that is gone'
    if writes((*s[:5], pod, need, others)) is None and c1 is None and c2 is None:
        if {e[0] for e in led | prov} - ({dev[0]} if dev else set()): return 'garbage at rest'
        if dev and dev[2] == 'B' and claim and not claim[4]:
            uid, target = dev[0], dev[5]
            if not dev[6] == target == of(led, uid)[1:] == of(prov, uid)[1:]: return 'at rest, and not all say the same amount'
            if claim[6] != target[1] and sum(e[2] for e in led) - target[1] + others + claim[6] <= CAPACITY: return 'it fits, and is not given'
    return None

s0 = ((0, False, False, 'P', False, 0, 1), None, frozenset(), frozenset(), 1, 0, 0, 1, None, 0, None, None, False, 0, 0, 0)
starts = [s0]
if RESIZE:  # the claim is already bound; a controller that was suspended meanwhile may still have any earlier write
    one = frozenset({(0, 0, 1)})
    starts = [((0, True, True, 'B', False, 2, 1), (0, 0, 'B', False, 1, (0, 1), (0, 1)), one, one, 1, 0, 1, 1, None, 0, late, None, *s0[12:])
              for late in (None, ('create', 0), ('entry', 0, 0), ('prov', 0), ('bind', 0, 0), ('name', 0, 0), ('cstatus', 0, 'B', 1))]
seen = reach(starts, succ, bad)
print(f"{'resize' if RESIZE else 'commit=' + COMMIT}: {len(seen)} states, no violation")
