"""Figures of a scenario: the measured value, its target, and whether the target is missed."""

import dataclasses
import os

TOLERANCE = 0.20  # allowed deviation from a target, relative; repeated runs on a shared machine differ by about as much


@dataclasses.dataclass
class Figure:
    """One measured value. `most` or `least` is its target; a figure without a target is printed only."""

    what: str
    value: float
    unit: str
    max: float | None = None
    least: float | None = None

    def fails(self):
        """True if the value misses its target by more than TOLERANCE."""
        if self.max is not None:
            return self.value > self.max * (1 + TOLERANCE)
        return self.least is not None and self.value < self.least / (1 + TOLERANCE)

    def target(self):
        if self.max is not None:
            return f"≤ {number(self.max)} {self.unit}".rstrip()
        return f"≥ {number(self.least)} {self.unit}".rstrip() if self.least is not None else "–"

    def verdict(self, judged):
        if not judged or self.target() == "–":
            return "–"
        if self.fails():
            return "MISSED"
        exceeded = self.value > self.max if self.max is not None else self.value < self.least
        return "near" if exceeded else "met"


def number(value):
    """Formats a number with three significant digits."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


class Table:
    """Prints rows as they are added and counts figures that missed their targets. `judged`: whether targets count."""

    HEADER = ("scenario", "figure", "measured", "target", "verdict", "load")
    WIDTHS = (30, 52, 14, 14, 7)

    def __init__(self, judged):
        self.judged = judged
        self.missed = 0

    def print_header(self):
        self._print(self.HEADER)

    def print_scenario(self, name, figures, load_before):
        """`load_before`: the load average of the machine when the scenario began."""
        load = f"{load_before:.1f} → {os.getloadavg()[0]:.1f}"
        for figure in figures:
            self.missed += self.judged and figure.fails()
            self._print((name, figure.what, f"{number(figure.value)} {figure.unit}".rstrip(), figure.target(), figure.verdict(self.judged), load))

    def _print(self, cells):
        fixed = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, self.WIDTHS))
        print(f"{fixed}  {cells[-1]}", flush=True)
