"""Breadth-first search over all states of a model, so that the path to a violation is the shortest."""
import sys
from collections import deque

def reach(starts, succ, bad, bad_step=lambda state, step: None):
    """Visits each state once. succ(state) yields (step, next). bad(state) and bad_step(next, step) return a violation, or None. If there is a violation,
    prints the path to it and ends the program with status 1."""
    seen = dict.fromkeys(starts); q = deque(starts)
    while q:
        s = q.popleft()
        for step, t in succ(s):
            wrong = bad_step(t, step)
            if t not in seen:
                seen[t] = (s, step); q.append(t)
                wrong = wrong or bad(t)
            if wrong: report(wrong, t, seen)
    return seen

def report(wrong, state, seen):
    way = []
    while seen[state]: way.append(seen[state][1]); state = seen[state][0]
    print('VIOLATION:', wrong, *reversed(way), sep='\n   ')
    sys.exit(1)
