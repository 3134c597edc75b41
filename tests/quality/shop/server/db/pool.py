"""Database connections are reused: a pool hands them out and takes them back."""

import queue


class ConnectionPool:
    """At most `size` open connections; whoever comes later waits."""

    def __init__(self, connect, size=8):
        self._free = queue.LifoQueue(size)
        for _ in range(size):
            self._free.put(connect)

    def acquire(self, timeout=5.0):
        return self._free.get(timeout=timeout)

    def release(self, connection):
        self._free.put(connection)
