"""Reports changes of files at once (inotify), to kill a process right after a step."""

import ctypes
import os
import select
import struct
import time

MODIFY, MOVED_TO, CREATE, DELETE = 0x2, 0x80, 0x100, 0x200
NONBLOCK = 0x800
LIBC = ctypes.CDLL(None, use_errno=True)


class Watch:
    """Watches files and folders."""

    def __init__(self, *paths):
        self.fd = LIBC.inotify_init1(NONBLOCK)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self.numbers = {self.add(each): str(each) for each in paths}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def add(self, path):
        number = LIBC.inotify_add_watch(self.fd, os.fsencode(path), MODIFY | MOVED_TO | CREATE | DELETE)
        if number < 0:
            raise OSError(ctypes.get_errno(), f"inotify: {path}")
        return number

    def changes(self, patience):
        """Yields (path, kind, name in the folder) of each change, until no further change comes before the end of `patience` seconds."""
        deadline = time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                continue
            events, at = os.read(self.fd, 1 << 16), 0
            while at < len(events):
                number, mask, _, length = struct.unpack_from("iIII", events, at)
                name = events[at + 16:at + 16 + length].rstrip(b"\0").decode()
                if number in self.numbers:
                    yield self.numbers[number], mask & (MODIFY | MOVED_TO | CREATE | DELETE), name
                at += 16 + length

    def wait(self, kind, ending, patience=120):
        """Blocks until a file with that name ending changes in that way."""
        for _, changed, name in self.changes(patience):
            if changed & kind and name.endswith(ending):
                return
        raise AssertionError(f"no {ending} within {patience} s")
