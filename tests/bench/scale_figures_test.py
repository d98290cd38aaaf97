#!/usr/bin/env python3
"""Verdicts on figures of bench/scale: a target may be missed by 20 %, and only judged tables count.
scale_figures_test.py"""
import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "scale"))
from figures import Figure, Table  # noqa: E402  (not a package)


class Verdicts(unittest.TestCase):
    def test_upper_target(self):
        for value, verdict in ((10, "met"), (10.1, "near"), (12, "near"), (12.1, "MISSED")):
            self.assertEqual(Figure("x", value, "s", max=10).verdict(True), verdict, value)

    def test_lower_target(self):
        for value, verdict in ((10, "met"), (9.9, "near"), (8.4, "near"), (8.3, "MISSED")):
            self.assertEqual(Figure("x", value, "", least=10).verdict(True), verdict, value)

    def test_upper_target_of_zero_allows_nothing(self):
        self.assertEqual(Figure("x", 0, "", max=0).verdict(True), "met")
        self.assertEqual(Figure("x", 1, "", max=0).verdict(True), "MISSED")

    def test_figure_without_target_never_fails(self):
        self.assertFalse(Figure("x", 1e9, "s").fails())
        self.assertEqual(Figure("x", 1e9, "s").verdict(True), "–")

    def test_only_judged_tables_count(self):
        figures = [Figure("x", 100, "s", max=10), Figure("y", 1, "s", max=10)]
        for judged, missed in ((True, 1), (False, 0)):
            table = Table(judged)
            with contextlib.redirect_stdout(io.StringIO()):
                table.print_scenario("name", figures, 0.0)
            self.assertEqual(table.missed, missed)


if __name__ == "__main__":
    unittest.main()
