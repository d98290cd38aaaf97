"""A gate on loopback between a client and a server, which injects faults: answers delayed, withheld or lost, connections cut."""

import asyncio
import threading


class Loop:
    """One event loop for all gates, on a separate thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="gates", daemon=True).start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()


class Connection:
    def __init__(self, writers):
        self.writers = writers
        self.tasks = []
        self.torn = False  # bytes were lost: the rest of the stream is invalid

    def close(self):
        for task in self.tasks:
            task.cancel()
        for writer in self.writers:
            writer.transport.abort()


class Gate:
    """Forwards data both ways, until a fault is set. port is where it listens. Methods may be called from any thread; each returns once it is in effect."""

    def __init__(self, loop, target):
        self.loop = loop
        self.target = target  # port on loopback
        self.latency = 0.0
        self.swallowing = False
        self.connections = set()
        self.passing = None
        self.server = loop.run(self._listen())
        self.port = self.server.sockets[0].getsockname()[1]

    async def _listen(self):
        self.passing = asyncio.Event()
        self.passing.set()
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    # Methods that set faults.

    def delay(self, seconds):
        """From now on each chunk is delayed by that time in both directions; the order is kept."""
        self.loop.run(self._set(latency=seconds))

    def hold(self):
        """Blocks all data without losing any."""
        self.loop.run(self._hold())

    def swallow(self):
        """Forwards requests and drops their answers."""
        self.loop.run(self._set(swallowing=True))

    def cut(self):
        """Ends every connection, as if the remote machine had failed; new ones are accepted."""
        self.loop.run(self._cut(lambda each: True))

    def lead_to(self, target):
        """Connects to another server from now on."""
        self.loop.run(self._set(target=target))
        self.cut()

    def heal(self):
        """Forwards everything again. Ends connections that lost data."""
        self.loop.run(self._set(latency=0.0, swallowing=False))
        self.loop.run(self._cut(lambda each: each.torn))
        self.loop.run(self._release())

    def close(self):
        self.cut()
        self.loop.run(self._close())

    async def _set(self, **changes):
        self.__dict__.update(changes)

    async def _hold(self):
        self.passing.clear()

    async def _release(self):
        self.passing.set()

    async def _cut(self, which):
        for each in [each for each in self.connections if which(each)]:
            each.close()
            self.connections.discard(each)

    async def _close(self):
        self.server.close()

    async def _accept(self, client, to_client):
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            to_client.transport.abort()
            return
        connection = Connection((to_client, to_server))
        self.connections.add(connection)
        for source, sink, answers in ((client, to_server, False), (server, to_client, True)):
            queue = asyncio.Queue()
            connection.tasks += [asyncio.create_task(self._take(source, queue)),
                                 asyncio.create_task(self._give(connection, queue, sink, answers))]
        await asyncio.wait(connection.tasks, return_when=asyncio.FIRST_EXCEPTION)
        connection.close()
        self.connections.discard(connection)

    async def _take(self, source, queue):
        while True:
            piece = await source.read(1 << 16)
            queue.put_nowait((self.loop.loop.time() + self.latency, piece))
            if not piece:
                return

    async def _give(self, connection, queue, sink, answers):
        while True:
            due, piece = await queue.get()
            await asyncio.sleep(max(0.0, due - self.loop.loop.time()))
            await self.passing.wait()
            if answers and self.swallowing:
                connection.torn = True
                continue
            if not piece:
                raise EOFError  # ends the connection both ways
            sink.write(piece)
            await sink.drain()
