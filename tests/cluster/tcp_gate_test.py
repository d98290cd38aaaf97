#!/usr/bin/env python3
"""Proves with an echo server that each fault of the gate has exactly its documented effect. Needs no cluster."""

import socket
import sys
import threading

from client import Report
from tcp_gate import Gate, Loop


def echo(listener):
    def serve(connection):
        while piece := connection.recv(1 << 16):
            connection.sendall(piece)

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def server():
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=echo, args=(listener,), daemon=True).start()
    return listener.getsockname()[1]


def connect(gate):
    return socket.create_connection(("127.0.0.1", gate.port))


def answer_to(connection, text):
    connection.sendall(text)
    connection.settimeout(60)
    try:
        return connection.recv(100)
    except OSError:
        return b""


def silent(connection):
    """Returns true if no data arrives for a short time; later data is read afterwards."""
    connection.settimeout(0.2)
    try:
        connection.recv(100)
        return False
    except TimeoutError:
        return True


def main():
    report = Report()
    gate = Gate(Loop(), server())
    first = connect(gate)
    report.check("it passes on", answer_to(first, b"one") == b"one")

    gate.delay(0.3)
    first.sendall(b"late")
    report.check("what is delayed does not come at once", silent(first))
    report.check("but comes whole", answer_to(first, b"") == b"late")
    gate.heal()

    gate.hold()
    first.sendall(b"held")
    report.check("nothing passes", silent(first))
    gate.heal()
    report.check("nothing was lost", answer_to(first, b"") == b"held")

    other = connect(gate)
    report.check("another passes", answer_to(other, b"two") == b"two")
    gate.swallow()
    first.sendall(b"lost")
    report.check("no answer comes", silent(first))
    gate.heal()
    report.check("who lost something is cut", answer_to(first, b"") == b"")
    report.check("the other connection continues", answer_to(other, b"three") == b"three")

    gate.cut()
    report.check("all are cut", answer_to(other, b"") == b"")
    report.check("new ones are let in", answer_to(connect(gate), b"four") == b"four")
    gate.lead_to(0)
    report.check("no listener: refused", answer_to(connect(gate), b"") == b"")
    gate.lead_to(server())
    report.check("another server", answer_to(connect(gate), b"five") == b"five")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
