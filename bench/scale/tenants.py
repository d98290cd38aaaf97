"""Two tenants: one floods the API server with objects from a separate process, while small claims of the other tenant are timed."""

import concurrent.futures
import multiprocessing
import time

from figures import Figure
from objects import NAMESPACES, NodeGroup, claim, gpu_class, is_bound
from server import PATIENCE, wait
from client import Client, claims  # importing server adds its folder to sys.path

FLOODER, OTHER = "flooder", "other"  # namespaces
SHARED, APART = "shared", "apart"  # classes of the other tenant: on the nodes that the flooder fills, and on nodes without a class of the flooder
WRITES = "writes"
MODEL, APART_MODEL = "H100-80GB", "A100-80GB"
CARDS = 4  # of each node
GROUPS = (NodeGroup(20, CARDS, model=MODEL), NodeGroup(4, CARDS, "apart", APART_MODEL))
CLIENTS = 4  # threads that create objects


def prepare(server):
    """Creates both namespaces and the classes of the other tenant."""
    server.create(NAMESPACES, [{"metadata": {"name": name}} for name in (FLOODER, OTHER)])
    server.create_class(gpu_class(SHARED, provisioner="gpushare", model=MODEL))
    server.create_class(gpu_class(APART, provisioner="gpushare", model=APART_MODEL))


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def bind_time(server, name, class_name):
    """Returns the seconds from the creation of a small claim until it is Bound. Deletes the claim."""
    path = claims(OTHER)
    began = time.monotonic()
    server.client.create(path, claim(name, class_name, gpu_core=1, gpu_memory="1Gi"))
    wait("a claim of another tenant is Bound", lambda: is_bound(server.client.get(f"{path}/{name}")), PATIENCE, 0.003)
    seconds = time.monotonic() - began
    server.client.delete(f"{path}/{name}")
    return seconds


def write_time(server, name):
    """Returns the seconds of sequential writes, as many as a claim needs, to an object that the controller does not read: measures how much a flood slows
    down the API server and the machine."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{OTHER}/leases"
    began = time.monotonic()
    server.client.create(path, {"metadata": {"name": name}, "spec": {}})
    for number in range(4):
        server.client.patch(f"{path}/{name}", {"spec": {"holderIdentity": str(number)}})
    seconds = time.monotonic() - began
    server.client.delete(f"{path}/{name}")
    return seconds


class Binds:
    """Times of the other tenant's claims by class, and of writes alone, alternating."""

    PAUSE = 0.02  # seconds between two measurements

    def __init__(self, server, prefix, goes_on):
        """Measures while goes_on() is true, at least once for each class."""
        self.times = {SHARED: [], APART: [], WRITES: []}
        number = 0
        while number < len(self.times) or goes_on():
            what = list(self.times)[number % len(self.times)]
            name = f"{prefix}-{number:05}"
            self.times[what].append(write_time(server, name) if what == WRITES else bind_time(server, name, what))
            number += 1
            time.sleep(self.PAUSE)

    def p99(self, what):
        return percentile(self.times[what], 0.99)


class Flood:
    """Writes of the flooder. writer(client) returns a function of an index; several threads of a separate process call it for 0 … count - 1. `rate`: maximum
    calls a second; None: as fast as the server answers."""

    def __init__(self, server, writer, count, rate=None):
        self.seconds = multiprocessing.Value("d", 0.0)
        self.process = multiprocessing.Process(target=self._write, args=(server.address(), writer, count, rate))
        self.process.start()

    def _write(self, url, writer, count, rate):
        client = Client(url)
        client.separators = (",", ":")
        write = writer(client)
        began = time.monotonic()

        def one(index):
            if rate is not None:
                time.sleep(max(0.0, began + index / rate - time.monotonic()))
            write(index)

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(one, range(count)))
        self.seconds.value = time.monotonic() - began

    def is_alive(self):
        return self.process.is_alive()

    def join(self):
        self.process.join()
        if self.process.exitcode != 0:
            raise AssertionError("the objects were not all written")


def measure(server, writer, count, what, rate, quiet, after):
    """Returns the figures of a flood: bind times of the other tenant for `quiet` seconds before it, during it and for `after` seconds after its end."""
    Binds(server, "first", lambda: False)  # classes become ready meanwhile
    until = time.monotonic() + quiet
    alone = Binds(server, "alone", lambda: time.monotonic() < until)
    flood = Flood(server, writer, count, rate)
    ended = []

    def goes_on():
        if not ended and not flood.is_alive():
            ended.append(time.monotonic())
        return not ended or time.monotonic() < ended[0] + after

    beside = Binds(server, "beside", goes_on)
    flood.join()
    figures = [Figure(f"{what}: written", flood.seconds.value, "s"),
               Figure(f"five writes of a Lease: p99 beside it, of {len(beside.times[WRITES])}", beside.p99(WRITES), "s"),
               Figure("five writes of a Lease: p99 beside it - p99 alone", beside.p99(WRITES) - alone.p99(WRITES), "s")]
    for class_name, where in ((SHARED, "same nodes"), (APART, "other nodes")):
        times = beside.times[class_name]
        figures += [Figure(f"{where}: Bound beside it, p50 of {len(times)}", percentile(times, 0.5), "s"),
                    Figure(f"{where}: Bound beside it, p99", beside.p99(class_name), "s"),
                    Figure(f"{where}: Bound beside it, slowest", max(times), "s"),
                    Figure(f"{where}: p99 beside it - p99 alone", beside.p99(class_name) - alone.p99(class_name), "s", max=0.1)]
    return figures
