"""The blocking client. It needs the standard library alone."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Any, Coroutine
from urllib.parse import urlsplit

from .core import IDLE_TIME, MAX_ANSWER, MAX_IDLE, Answer, Core, Reserved, no_answer
from .wire import Decision, Request, Settlement, T, Usage


class FluxGate(Core):
    """Decides requests by calling a server. It is safe for concurrent use by threads."""

    def check(self, request: Request, *, timeout: float | None = None) -> Decision:
        """Decides a request and takes its tokens.

        A check that was sent is never sent again, since it may have taken its tokens, unless the server was busy and
        has taken none.
        """
        return _run(self._check(request, False, timeout))

    def peek(self, request: Request, *, timeout: float | None = None) -> Decision:
        """Decides a request and takes nothing. Without a cost it only reads the state."""
        return _run(self._check(request, True, timeout))

    def settle(self, receipt: str, cost: int | Usage, *, timeout: float | None = None) -> dict[str, Settlement]:
        """Settles a receipt, once. It returns what was given back and charged, by measure.

        A number is the cost under rules that count requests, where 0 withdraws the request under all rules; a usage is for
        all rules.
        """
        return _run(self._settle(receipt, cost, timeout))

    def extend(self, receipt: str, *, timeout: float | None = None) -> str:
        """Renews the slots of a request that goes on. It returns the receipt to use from then on."""
        return _run(self._extend(receipt, timeout))

    def reservation(self, request: Request, *, timeout: float | None = None) -> Reservation:
        """Takes the most that a request may cost, for a ``with`` statement, and settles at its end.

        While the statement runs, slots of concurrent requests are renewed. A rejected request raises Rejected. After an
        exception the request stays charged at its estimate, unless ``report`` was called.
        """
        return Reservation(self, request, timeout)

    def close(self) -> None:
        """Closes idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _open(self) -> None:
        self._idle: deque[_Connection] = deque()  # the last was used last
        self._process = os.getpid()

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _send(self, path: str, body: bytes, until: float) -> Answer:
        connection, reusable = self._connection(), False
        connection.until = until
        try:
            answer, reusable = connection.exchange(path, body, self._headers)
            return answer
        except (OSError, http.client.HTTPException, ValueError) as why:
            raise no_answer(why) from None
        finally:
            if reusable and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    def _connection(self) -> _Connection:
        if self._process != os.getpid():  # after a fork: those are of the parent
            self._idle, self._process = deque(), os.getpid()
        with contextlib.suppress(IndexError):  # all are in use
            while not (connection := self._idle.pop()).is_alive():
                connection.close()
            return connection
        return _Connection(self._url, self._tls)


class Reservation(Reserved[FluxGate]):
    """A request that was let in, until the end of a ``with`` statement."""

    def __enter__(self) -> Reservation:
        self._begin(self._limiter.check(self._request, timeout=self._timeout))
        self._stop = threading.Event()
        self._renewal = threading.Thread(target=self._renew_until_end, name="fluxgate-renewal", daemon=True)
        if self._every:
            self._renewal.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._every:
            self._renewal.join()
        _run(self._end())

    def _renew_until_end(self) -> None:
        pause = self._first
        while not self._stop.wait(pause) and _run(self._renew()):
            pause = self._every


def _run(call: Coroutine[Any, Any, T]) -> T:
    """Runs a call of the core, which nothing suspends."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a call of the blocking client was suspended")


class _Connection(http.client.HTTPConnection):
    """A connection whose every step ends with the deadline of the call."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        super().__init__(parts.hostname or "", parts.port or (443 if tls else 80))
        self._tls, self._prefix, self.until, self._used = tls, parts.path, 0.0, 0.0

    def is_alive(self) -> bool:
        """Whether an idle connection can be used: the server has neither closed it nor sent anything."""
        try:
            self.sock.settimeout(0)
            self.sock.recv(1)
        except OSError as why:
            return isinstance(why, (BlockingIOError, ssl.SSLWantReadError)) and time.monotonic() - self._used < IDLE_TIME
        return False

    def exchange(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[Answer, bool]:
        """Sends a body and reads the answer. Reports whether the connection can be used again."""
        self.request("POST", self._prefix + path, body, headers)
        with self.getresponse() as response:
            text = response.read(MAX_ANSWER + 1)
            self._used = time.monotonic()
            return (response.status, response.getheader, text), response.isclosed() and not response.will_close

    def connect(self) -> None:
        # Resolving a name has no timeout: a thread waits for it.
        dialled: Future[socket.socket] = Future()
        left = self._left()

        def dial() -> None:
            try:
                dialled.set_result(socket.create_connection((self.host, self.port), left))
            except Exception as why:
                dialled.set_exception(why)

        threading.Thread(target=dial, name="fluxgate-dial", daemon=True).start()
        raw = dialled.result(left)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = _Socket(fileno=raw.detach())
        self.sock.settimeout(self._left())
        if self._tls:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)
        connected, receive = self.sock, self.sock.recv_into

        def receive_in_time(*arguments: Any) -> int:
            connected.settimeout(self._left())
            return receive(*arguments)

        setattr(connected, "recv_into", receive_in_time)  # the timeout of a socket is that of one call

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        rest, connected = memoryview(data), self.sock
        while rest and connected:
            connected.settimeout(self._left())
            rest = rest[connected.send(rest) :]

    def _left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _Socket(socket.socket):
    """A socket whose methods can be replaced."""
