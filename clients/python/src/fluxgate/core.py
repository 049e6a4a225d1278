"""What the blocking and the asynchronous client have in common: everything but the input and output.

The methods are coroutines. Those of the asynchronous client run in an event loop. In the
blocking client nothing suspends them, so that one step runs them to their end.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import ssl
import time
from typing import Any, Callable, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from .wire import Decision, Request, Settlement, T, Usage, encode, plain, read

OnFailure = Literal["allow", "deny", "raise"]
ErrorCode = Literal["invalid", "refused", "timeout", "network", "answer", "busy"]

MAX_ANSWER = 1 << 20
"""The longest answer in bytes. 64 rules of 16 bands are shorter."""

MAX_IDLE, IDLE_TIME = 256, 30.0
"""How many idle connections are kept, and how long in seconds: shorter than the server does."""

_FIRST_PAUSE, _MAX_RESERVE = 0.02, 0.1
"""About how long the client waits before it asks a busy server again: each further pause is about twice as long. And how much
of a caller's time is left for the network."""

Header = Callable[[str], str | None]
Answer = tuple[int, Header, bytes]
"""Status, headers, and a body that is cut if it is longer than MAX_ANSWER."""


class FluxGateError(Exception):
    """An error of a call. It never contains the address of the server, the token or values of the request.

    The code is one of

    - ``invalid``: the request cannot be decided because of the request itself, or names a rule set that does not
      exist. No failure mode allows it.
    - ``refused``: the server answers with a status other than 200, see ``status``.
    - ``timeout``: no answer in time. A check that was sent may have taken its tokens.
    - ``network``: the server cannot be reached, or the connection broke.
    - ``answer``: the answer is not one of a FluxGate server.
    - ``busy``: the server was busy until the time was over. Nothing was taken.

    ``status`` is the HTTP status of the server's answer, if there was one. ``receipt`` is the one to use from then on, if
    ``extend`` has renewed a part of its slots and the others are lost.
    """

    def __init__(self, message: str, code: ErrorCode = "answer", status: int | None = None, receipt: str = "") -> None:
        super().__init__(message)
        self.code, self.status, self.receipt = code, status, receipt


class Rejected(Exception):
    """A reservation that the server, or the failure mode, has rejected."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.decision = decision


class Core:
    """A client.

    ``on_failure`` is what happens if the server cannot be reached, does not answer in time or denies access: the
    request is allowed or denied, with ``degraded`` in the decision, or ``check`` raises a FluxGateError. There is no
    default. ``on_error`` is called for every such failure, also of reservations. ``timeout`` is how long a call may
    take in seconds, with the time that a rule holds the request. ``tls`` configures ``https://``: the default are the
    authorities of the system.
    """

    def __init__(self, url: str, *, on_failure: OnFailure, token: str = "", on_error: Callable[[FluxGateError], object] | None = None,
                 timeout: float = 0.5, tls: ssl.SSLContext | None = None) -> None:
        if on_failure not in ("allow", "deny", "raise") or not timeout > 0:
            raise ValueError('on_failure must be "allow", "deny" or "raise", and the timeout positive')
        if not re.fullmatch("[!-~]*", token):
            raise ValueError("the token has characters that are not allowed in a bearer token")
        self._url = _endpoint(url)
        self._tls = tls or ssl.create_default_context() if url.startswith("https:") else None
        self._on_failure, self._on_error = on_failure, on_error or (lambda error: None)
        self._timeout, self._token = timeout, token
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "fluxgate-client-python"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._open()

    def _open(self) -> None:
        """Prepares what a client needs beside this class."""

    async def _send(self, path: str, body: bytes, until: float) -> Answer:
        """Sends a body once. Raises FluxGateError without an answer before until, on the monotonic clock."""
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        """Waits before the next attempt."""

    async def _check(self, request: Request, peek: bool, timeout: float | None) -> Decision:
        try:
            return _read(Decision, await self._call("/v1/check", plain(request) | ({"peek": True} if peek else {}), timeout))
        except FluxGateError as error:
            if error.code == "invalid":
                raise
            self._report(error)
            if self._on_failure == "raise":
                raise
            return Decision(allowed=self._on_failure == "allow", reason="store-failure", remaining=0, degraded=True)

    async def _settle(self, receipt: str, cost: int | Usage, timeout: float | None = None) -> dict[str, Settlement]:
        by_usage = isinstance(cost, Usage)
        answer = await self._call("/v1/settle", {"receipt": receipt, "usage" if by_usage else "actual": cost}, timeout)
        settled = _field(dict, answer, "measures") if by_usage else {"requests": answer}
        return {measure: _read(Settlement, of) for measure, of in settled.items()}

    async def _extend(self, receipt: str, timeout: float | None = None) -> str:
        return _field(str, await self._call("/v1/extend", {"receipt": receipt}, timeout), "receipt")

    async def _call(self, path: str, body: dict[str, Any], timeout: float | None) -> object:
        """Sends a body. It is sent again only if the server was busy: then it has done nothing."""
        patience = self._timeout if timeout is None else timeout
        until, pause = time.monotonic() + patience, _FIRST_PAUSE * (0.5 + random.random())
        while True:
            if path == "/v1/check":  # a rule does not hold the request longer
                body["timeoutMs"] = max(1, int((until - time.monotonic() - min(patience / 2, _MAX_RESERVE)) * 1000))
            try:
                text = encode(body)
            except ValueError as why:
                raise FluxGateError(f"the request is invalid: {why}", "invalid") from None
            status, header, answer = await self._send(path, text, until)
            if status == 200:
                return _parsed(answer)
            error = self._refusal(status, header, answer)
            if error.code != "busy" or time.monotonic() + 2 * pause >= until:  # the next attempt gets as much time as the pause
                raise error
            await self._sleep(pause)
            pause *= 1.5 + random.random()

    def _refusal(self, status: int, header: Header, text: bytes) -> FluxGateError:
        """The error of an answer with another status than 200."""
        is_problem = (header("Content-Type") or "").partition(";")[0].strip().lower() == "application/problem+json"
        said: Any = {}
        with contextlib.suppress(FluxGateError):
            said = _parsed(text) if is_problem else {}
        detail, receipt, reason = (_field(str, said, name, "") for name in ("detail", "receipt", "reason"))
        if detail:  # for a log: without the token, on one line, and not long
            detail = ": " + "".join(c if c.isprintable() else " " for c in (detail.replace(self._token, "…") if self._token else detail)[:400])
        invalid = status in (400, 413, 422, 500) or (status == 404 and reason == "no-rule-set")  # proxies answer 404 too
        busy = is_problem and status == 503 and header("Retry-After")
        code: ErrorCode = "invalid" if invalid else "busy" if busy else "refused"
        return FluxGateError(f"the server answers {status}{detail}", code, status, receipt)

    def _report(self, error: FluxGateError) -> None:
        with contextlib.suppress(Exception):  # an error of the caller's function decides no request
            self._on_error(error)


C = TypeVar("C", bound=Core)


class Reserved(Generic[C]):
    """A request that was let in and is not settled yet."""

    decision: Decision
    settlement: dict[str, Settlement] | None = None
    """What was given back and charged, by measure, after the end."""
    settle_error: FluxGateError | None = None
    """Why it could not be settled. ``on_error`` was called with it."""
    _cost: int | Usage | None = None

    def __init__(self, limiter: C, request: Request, timeout: float | None) -> None:
        self._limiter, self._request, self._timeout = limiter, request, timeout

    def _begin(self, decision: Decision) -> None:
        if not decision.allowed:
            raise Rejected(decision)
        self.decision, self._receipt, self._partly_lost = decision, decision.receipt, False
        holds = [b.hold_ms / 1000 for b in decision.bands if b.kind == "concurrency" and b.status == "ok" and b.hold_ms]
        # How often slots are renewed in seconds: 0 without slots.
        self._every = min(holds) / 3 if holds and self._receipt else 0.0
        # A request that has waited took its slots before that.
        self._first = max(0.0, self._every - decision.wait_ms / 1000)

    def report(self, cost: int | Usage) -> None:
        """Sets what the request has cost so far. It is settled at the end, also if that is an exception.

        A number is the cost under rules that count requests, where 0 withdraws the request under all rules; a usage is for
        all rules. Without a report the request stays charged at its estimate.
        """
        self._cost = cost

    async def _renew(self) -> bool:
        """Renews the slots, and reports whether there are any left."""
        try:
            self._receipt = await self._limiter._extend(self._receipt)
        except FluxGateError as error:
            if error.status == 409 and not error.receipt:  # all are lost, or the caller has settled the receipt
                return False
            if not self._partly_lost or not error.receipt:
                self._limiter._report(error)
            if error.receipt:
                self._receipt, self._partly_lost = error.receipt, True
        return True

    async def _end(self) -> None:
        """Settles the request and releases its slots. A failure is not an error: the work is done."""
        receipt, self._receipt = self._receipt, ""
        estimate = max(1, self._request.cost or 1)
        try:
            if receipt:
                self.settlement = await self._limiter._settle(receipt, estimate if self._cost is None else self._cost)
        except FluxGateError as error:
            self.settle_error = error
            self._limiter._report(error)


def _parsed(text: bytes) -> object:
    with contextlib.suppress(ValueError, RecursionError):
        if len(text) <= MAX_ANSWER:
            return json.loads(text)
    raise _not_answer()


def _read(cls: type[T], value: object) -> T:
    with contextlib.suppress(ValueError):
        return read(cls, value)
    raise _not_answer()


def _field(cls: type[T], value: object, name: str, absent: T | None = None) -> T:
    of = value.get(name) if isinstance(value, dict) else None
    of = of if isinstance(of, cls) else absent
    if of is None:
        raise _not_answer()
    return of


def _not_answer() -> FluxGateError:
    return FluxGateError("the answer is not one of a FluxGate server", "answer")


def no_answer(why: BaseException) -> FluxGateError:
    """The error of an exchange, without its text, which mostly has the address."""
    if isinstance(why, TimeoutError):
        return FluxGateError("no answer in time", "timeout")
    return FluxGateError(f"the server cannot be reached: {type(why).__name__}", "network")


def _endpoint(address: str) -> str:
    """The address without a slash at its end. Errors do not contain it: it may have a password."""
    with contextlib.suppress(ValueError):  # of an invalid port
        url = urlsplit(address)
        if re.fullmatch(r"https?://[^@?#\s]+", address, re.ASCII) and url.hostname and url.port != 0:
            return address.rstrip("/")
    raise ValueError("the server's address must be http://host:port or https://host:port, without a user and a query")
