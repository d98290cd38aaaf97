#!/usr/bin/env python3
"""Runs many claims against a controller with simulated nodes and prints a table of figures beside their targets.

run.py BIN_DIR [--real] [--only NAME ...] [--scale F]

The controller is standalone, or with --real runs on a real Kubernetes. Exit status 1 if a scenario fails, or if a figure misses its target by more than 20 %;
77 if --real finds no Go. With --scale below 1, all numbers of nodes, claims and pods are multiplied by it; targets are printed then, but do not count.
"""

import argparse
import os
import pathlib
import signal
import sys
import traceback

import crowds
import floods
import gangs
import preemption
from figures import Table
from real import RealServer
from server import Server
from apiserver import Skip, guarded  # importing server adds its folder to sys.path

REAL = ("pods", "gang", "reclaim", "single-preemptors", "deleted-claims")  # with --real
SCENARIOS = {**crowds.SCENARIOS, **gangs.SCENARIOS, **floods.SCENARIOS, **preemption.SCENARIOS}


class Options(argparse.Namespace):
    def scaled(self, count, least=1):
        """Multiplies a number of objects by --scale."""
        return max(least, round(count * self.scale))

    def server(self, *groups):
        """Returns a context manager of a controller with nodes of these groups."""
        return (RealServer if self.real else Server)(self.bin_dir, *groups)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help="of " + ", ".join(SCENARIOS))
    parser.add_argument("--real", action="store_true", help="on a real Kubernetes: " + ", ".join(REAL))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the nodes, claims and pods, for a slow build (default: 1)")
    options = parser.parse_args(namespace=Options())
    names = options.only or (REAL if options.real else SCENARIOS)
    if options.real and not set(names) <= set(REAL):
        parser.error("--real runs only " + ", ".join(REAL))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the servers on exit
    table = Table(judged=options.scale >= 1)
    table.print_header()
    failed = []
    for name in names:
        load = os.getloadavg()[0]
        try:
            table.print_scenario(name, SCENARIOS[name](options), load)
        except Skip:
            raise
        except Exception:  # continues with the other scenarios
            traceback.print_exc()
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed or table.missed else 0


if __name__ == "__main__":
    sys.exit(guarded(main))
