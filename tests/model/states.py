"""All states that a model comes to, the nearest first, so that the way to a bad one is the shortest."""
import sys
from collections import deque

def reach(starts, succ, bad, bad_step=lambda state, step: None):
    """Each state once. succ(state) yields (step, next); bad(state) and bad_step(next, step) say what is wrong, or None. Ends the program with
    the way there (status 1) if something is."""
    seen = dict.fromkeys(starts); q = deque(starts)
    while q:
        s = q.popleft()
        for step, t in succ(s):
            wrong = bad_step(t, step)
            if t not in seen:
                seen[t] = (s, step); q.append(t)
                wrong = wrong or bad(t)
            if wrong: tell(wrong, t, seen)
    return seen

def tell(wrong, state, seen):
    way = []
    while seen[state]: way.append(seen[state][1]); state = seen[state][0]
    print('VIOLATION:', wrong, *reversed(way), sep='\n   ')
    sys.exit(1)
