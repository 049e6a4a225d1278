"""Both clients: failures, deadlines, connections, reservations, and answers of bad servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import pickle
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Awaitable, Callable, Iterator

import pytest

from fluxgate import Decision, Estimate, FluxGate, FluxGateError, Rejected, Request, Settlement, Usage
from fluxgate.aio import AsyncFluxGate
from servers import TOKEN, Gate, Servers, eventually, free_port, http_server, raw_server, reply

SECRET = "hush-hush"
GOOD: dict[str, Any] = {"allowed": True, "reason": "ok", "remaining": 1}
SLOT: dict[str, Any] = {"rule": "r", "status": "ok", "source": "store", "limit": 1, "remaining": 0, "capacity": 1, "kind": "concurrency", "holdMs": 90}


class Client:
    """One of the clients, called alike."""

    def __init__(self, kind: str, url: str, **options: Any) -> None:
        self.errors: list[FluxGateError] = []
        settings: dict[str, Any] = {"on_failure": "raise", "token": SECRET, "timeout": 20, "on_error": self.errors.append, **options}
        self.limiter: Any = FluxGate(url, **settings) if kind == "blocking" else AsyncFluxGate(url, **settings)

    def check(self, **fields: Any) -> Any:
        return self._call("check", Request(**fields))

    def settle(self, receipt: str, cost: int | Usage) -> Any:
        return self._call("settle", receipt, cost)

    def extend(self, receipt: str) -> Any:
        return self._call("extend", receipt)

    def reserve(self, work: Callable[[Any], None], **fields: Any) -> Any:
        if isinstance(self.limiter, FluxGate):
            with self.limiter.reservation(Request(**fields)) as reservation:
                work(reservation)
            return reservation

        async def run() -> Any:
            async with self.limiter.reservation(Request(**fields)) as reservation:
                await asyncio.get_running_loop().run_in_executor(None, work, reservation)
            await self.limiter.close()
            return reservation

        return asyncio.run(run())

    def _call(self, method: str, *arguments: Any) -> Any:
        if isinstance(self.limiter, FluxGate):
            return getattr(self.limiter, method)(*arguments)

        async def run() -> Any:
            try:
                return await getattr(self.limiter, method)(*arguments)
            finally:
                await self.limiter.close()

        return asyncio.run(run())  # each call in an event loop of its own


@pytest.fixture(params=["blocking", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fails(kind: str, url: str, code: str, **options: Any) -> FluxGateError:
    with pytest.raises(FluxGateError) as caught:
        Client(kind, url, **options).check()
    error = caught.value
    assert error.code == code, error
    shown = f"{error!s} {error!r}"
    assert SECRET not in shown and url.rpartition(":")[2] not in shown and len(shown) < 1000
    return error


def answering(body: object, status: int = 200, **headers: str) -> contextlib.AbstractContextManager[str]:
    return http_server(lambda request, path, sent: reply(request, body, status, **headers))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"7", b'"allowed"', b"{", b"{}", b"[" * 100_000, b"\xff\xfe",
        {"allowed": 1, "reason": "ok", "remaining": 1}, {"allowed": True, "reason": ["ok"], "remaining": 1}, {"allowed": True, "reason": "ok"},
        {**GOOD, "remaining": -1}, {**GOOD, "remaining": True}, {**GOOD, "remaining": 10**30}, {**GOOD, "remaining": "1"}, {**GOOD, "remaining": 1.5},
        b'{"allowed":true,"reason":"ok","remaining":1,"timeMs":1e999}', b'{"allowed":true,"reason":"ok","remaining":1,"timeMs":NaN}',
        b'{"allowed":true,"reason":"ok","remaining":' + b"9" * 5000 + b"}",
        {**GOOD, "bands": {}}, {**GOOD, "bands": 7}, {**GOOD, "bands": [None]}, {**GOOD, "receipt": {}},
        {**GOOD, "rule": "a\r\nX-Evil: 1"}, {**GOOD, "rule": "a\n"}, {**GOOD, "band": 'a"'}, {**GOOD, "rule": "é"},
        {**GOOD, "bands": [{**SLOT, "period": "day\r\nX-Evil: 1"}]}, b" " * (1 << 20) + json.dumps(GOOD).encode(),
    ],
)  # fmt: skip
def test_not_an_answer(kind: str, body: object) -> None:
    with answering(body) as url:
        fails(kind, url, "answer")


def test_unknown_fields_and_reasons(kind: str) -> None:
    more = {"__class__": 1, "more": [1], "reason": "some-later-reason", "bands": [{**SLOT, "more": 1}]}
    with answering({**GOOD, **more}) as url:
        decision = Client(kind, url).check()
    assert decision.reason == "some-later-reason" and not hasattr(decision, "more") and decision.bands[0].hold_ms == 90


def test_settlements_of_bad_servers(kind: str) -> None:
    for body in ({}, {"measures": 7}, {"measures": {"usd": {"returned": 1}}}, {"returned": 1, "charged": 0}):
        with answering(body) as url, pytest.raises(FluxGateError) as caught:
            Client(kind, url).settle("r", Usage(input_tokens=1))
        assert caught.value.code == "answer"
    with answering({"receipt": 7}) as url, pytest.raises(FluxGateError):
        Client(kind, url).extend("r")


def test_errors_have_no_secrets(kind: str) -> None:
    with answering({"detail": f"not {SECRET}\r\n\u2028" + "x" * 10_000}, 401) as url:
        error = fails(kind, url, "refused")
    assert error.status == 401 and str(error).startswith("the server answers 401: not …   x")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.code, copy.status) == (str(error), "refused", 401)
    decision = Decision(allowed=False, reason="limited", remaining=0, receipt="hush")
    assert "hush" not in repr(decision) + str(Rejected(decision))
    assert pickle.loads(pickle.dumps(Rejected(decision))).decision == decision
    assert "hush" not in repr(Request(api_key="hush", headers={"A": ["hush"]}))


def test_redirects_are_not_followed(kind: str) -> None:
    hits: list[str] = []

    def handle(request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        hits.append(path)
        reply(request, GOOD)

    with http_server(handle) as target:
        with answering(b"", 307, Location=f"{target}/v1/check") as url:
            assert fails(kind, url, "refused").status == 307
    assert hits == []


def test_no_proxy_of_the_environment(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with answering(GOOD) as url:
        assert Client(kind, url).check().allowed


@pytest.mark.parametrize("part", ["status", "header", "body", "chunk"])
def test_deadline_of_a_slow_answer(kind: str, part: str) -> None:
    """A server that sends a byte every 50 ms does not make a call longer than its time."""
    start = {
        "status": "",
        "header": "HTTP/1.1 200 OK\r\nX-Slow: ",
        "body": "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        "chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
    }[part]

    def drip(connection: socket.socket) -> None:
        connection.sendall(start.encode())
        for _ in range(200):
            connection.sendall(b"H" if part == "status" else b" ")
            time.sleep(0.05)

    with raw_server(drip) as url:
        begin = time.monotonic()
        error = fails(kind, url, "timeout", timeout=0.4)
        took = time.monotonic() - begin
    assert took < 5, (error, took)  # it would take 10 seconds


def test_deadline_of_names(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*arguments: Any, **options: Any) -> Any:
        time.sleep(6)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    limiter: Any = Client(kind, "http://fluxgate.invalid", timeout=0.3).limiter

    async def check() -> float:
        begin = time.monotonic()
        with pytest.raises(FluxGateError) as caught:
            await limiter.check(Request())
        assert caught.value.code == "timeout"
        return time.monotonic() - begin

    if kind == "async":
        assert asyncio.new_event_loop().run_until_complete(check()) < 4
        return
    begin = time.monotonic()
    with pytest.raises(FluxGateError) as caught:
        limiter.check(Request())
    assert caught.value.code == "timeout" and time.monotonic() - begin < 4


@pytest.mark.parametrize("mode,allowed", [("allow", True), ("deny", False)])
def test_failure_modes(kind: str, mode: str, allowed: bool) -> None:
    client = Client(kind, f"http://127.0.0.1:{free_port()}", on_failure=mode)
    assert client.check() == Decision(allowed=allowed, reason="store-failure", remaining=0, degraded=True)
    assert [error.code for error in client.errors] == ["network"]

    def report(error: FluxGateError) -> None:
        raise RuntimeError

    assert Client(kind, f"http://127.0.0.1:{free_port()}", on_failure=mode, on_error=report).check().allowed is allowed


@pytest.mark.parametrize("fields", [{"user_id": "\ud800"}, {"attributes": {"a": "\udc80"}}, {"cost": float("nan")}, {"path": "/" + "x" * (1 << 18)}, {"cost": object()}])
def test_invalid_requests_are_not_sent_and_never_allowed(kind: str, fields: dict[str, Any]) -> None:
    with http_server(lambda request, path, body: reply(request, GOOD)) as url:
        client = Client(kind, url, on_failure="allow")
        with pytest.raises(FluxGateError) as caught:
            client.check(**fields)
        assert caught.value.code == "invalid" and caught.value.status is None and client.errors == []


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://host", "http://", "http://user:hush@host", "http://host?a=hush", "http://host#hush", "http://host:0", "http://host:99999", "http://ho st", "http://host\n"]
)
def test_invalid_addresses(kind: str, url: str) -> None:
    with pytest.raises(ValueError) as caught:
        Client(kind, url)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("options", [{"on_failure": "open"}, {"token": "a b"}, {"token": "a\r\nX-Evil: 1"}, {"token": "a\n"}, {"timeout": 0}, {"timeout": float("nan")}])
def test_invalid_options(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Client(kind, "http://127.0.0.1:1", **options)


def test_base_path_and_what_is_sent(kind: str) -> None:
    seen: list[tuple[str, str | None, dict[str, Any]]] = []

    def handle(request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        seen.append((path, request.headers["Authorization"], json.loads(body)))
        reply(request, GOOD)

    with http_server(handle) as url:
        client = Client(kind, f"{url}/behind/", timeout=2)
        client.check(user_id="ü", estimate=Estimate("m", max_output_tokens=[1, 2]), descriptor=[{"key": "a"}], headers={"A": ("b",)})
    path, authorization, body = seen[0]
    assert (path, authorization) == ("/behind/v1/check", f"Bearer {SECRET}")
    assert 1 <= body.pop("timeoutMs") <= 1900
    assert body == {"userId": "ü", "estimate": {"model": "m", "inputTokens": 0, "maxOutputTokens": [1, 2]}, "descriptor": [{"key": "a"}], "headers": {"A": ["b"]}}


def test_tls(kind: str, tmp_path: Any) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"], cwd=tmp_path, check=True, capture_output=True)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    answer = json.dumps(GOOD).encode()
    message = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer)
    connections: list[int] = []

    def handle(raw: socket.socket) -> None:
        connections.append(1)
        with contextlib.suppress(OSError), serving.wrap_socket(raw, server_side=True) as connection:
            received = b""
            while part := connection.recv(65536):
                received += part
                if received.endswith(b"}"):  # of the body, which may come alone
                    received = b""
                    connection.sendall(message)

    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                handle(listener.accept()[0])

    threading.Thread(target=serve, daemon=True).start()
    url = f"https://localhost:{listener.getsockname()[1]}"
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    client = Client(kind, url, tls=trusting)
    assert client.check().allowed
    if kind == "blocking":
        assert client.check().allowed and len(connections) == 1, "the connection is used again"
        client.limiter.close()
    fails(kind, url, "network")  # the authorities of the system do not know it
    listener.close()


def test_connections_are_used_again() -> None:
    ports: list[int] = []

    def handle(request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        ports.append(request.client_address[1])
        reply(request, GOOD)

    with http_server(handle) as url:
        limiter = FluxGate(url, on_failure="raise", timeout=20)
        for _ in range(3):
            limiter.check(Request())

        async def main() -> None:
            async_limiter = AsyncFluxGate(url, on_failure="raise", timeout=20)
            for _ in range(3):
                await async_limiter.check(Request())
            await async_limiter.close()

        asyncio.run(main())
        child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(0 if limiter.check(Request()).allowed else 1))
        child.start()
        child.join(20)
        assert child.exitcode == 0
        limiter.check(Request())
        limiter.close()
    assert len(set(ports[:3])) == 1 and len(set(ports[3:6])) == 1
    assert ports[6] != ports[0] and ports[7] == ports[0], "a fork does not use the connections of its parent"


def test_closed_connections_are_not_used(kind: str) -> None:
    """A server that closes idle connections, and one that sends what nobody has asked for."""
    answer, ended = json.dumps(GOOD).encode(), threading.Event()

    def arrived() -> None:
        assert ended.wait(20)
        ended.clear()
        time.sleep(0.2)

    for end in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"):

        def once(connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))
            time.sleep(0.1)
            connection.sendall(end)
            if not end:
                connection.shutdown(socket.SHUT_WR)
            ended.set()

        with raw_server(once) as url:
            if kind == "blocking":
                limiter = FluxGate(url, on_failure="raise", timeout=20)
                for _ in range(3):
                    assert limiter.check(Request()).allowed
                    arrived()
                limiter.close()
                continue

            async def main() -> None:
                limiter = AsyncFluxGate(url, on_failure="raise", timeout=20)
                for _ in range(3):
                    assert (await limiter.check(Request())).allowed
                    await asyncio.to_thread(arrived)
                await limiter.close()

            asyncio.run(main())


def test_threads(gate: Gate) -> None:
    limiter = FluxGate(gate.url, token=TOKEN, on_failure="raise", timeout=20)
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.extend(limiter.check(Request(user_id="threads", path="/api/a")).allowed for _ in range(4))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(results), sum(results)) == (32, 10)
    limiter.close()


def test_timeouts_do_not_use_up_connections() -> None:
    """More timeouts than there are connections, and then the server answers."""
    hangs = threading.Event()

    def handle(request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        if not hangs.wait(10):
            return
        reply(request, GOOD)

    async def main(url: str) -> None:
        limiter = AsyncFluxGate(url, on_failure="allow", timeout=0.3)
        for _ in range(6):
            await asyncio.gather(*(limiter.check(Request()) for _ in range(60)))
        hangs.set()
        decisions = [await limiter.check(Request(), timeout=20) for _ in range(10)]
        assert not any(decision.degraded for decision in decisions)
        await limiter.close()

    with http_server(handle) as url:
        asyncio.run(main(url))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_event_loops_that_end(gate: Gate) -> None:
    """A client outlives its event loops, also those that end while it is used."""
    limiter = AsyncFluxGate(gate.url, token=TOKEN, on_failure="raise", timeout=20)

    async def leave() -> None:
        asyncio.ensure_future(limiter.check(Request(user_id="loops", path="/api/a")))
        await asyncio.sleep(0)

    for _ in range(3):
        assert asyncio.run(limiter.check(Request(user_id="loops", path="/friends"))).allowed
        asyncio.run(leave())
    assert len(limiter._transports) == 1 and not limiter._tasks, "those of ended loops are dropped"


class Scripted:
    """A server with a slot of 90 ms that records what happens to its receipts."""

    def __init__(self, check_takes: float = 0, extend: tuple[int, dict[str, Any]] = (200, {"receipt": "renewed"})) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.check_takes, self.extend = check_takes, extend

    def handle(self, request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        sent = json.loads(body)
        self.calls.append((path[4:], sent.get("actual", sent.get("usage", sent.get("receipt")))))
        if path == "/v1/check":
            time.sleep(self.check_takes)
            reply(request, {**GOOD, "receipt": "first", "bands": [SLOT]})
        elif path == "/v1/extend":
            reply(request, self.extend[1], self.extend[0])
        else:
            settlement: dict[str, Any] = {"returned": 1, "charged": 0}
            reply(request, {"measures": {"usd": settlement}} if "usage" in sent else settlement)

    def settled(self) -> list[Any]:
        return [cost for call, cost in self.calls if call == "settle"]


@contextlib.contextmanager
def scripted(**options: Any) -> Iterator[tuple[Scripted, str]]:
    script = Scripted(**options)
    with http_server(script.handle) as url:
        yield script, url


def test_reservation(kind: str) -> None:
    def work(reservation: Any) -> None:
        assert reservation.decision.receipt == "first"
        eventually("the slot is renewed twice", lambda: [call for call, _ in script.calls].count("extend") >= 2)
        reservation.report(3)
        reservation.report(Usage(input_tokens=5))

    with scripted() as (script, url):
        reservation = Client(kind, url).reserve(work)
    assert script.calls[0][0] == "check" and script.calls[1] == ("extend", "first") and script.calls[2] == ("extend", "renewed")
    assert script.settled() == [{"inputTokens": 5}]
    assert reservation.settlement == {"usd": Settlement(1, 0)} and reservation.settle_error is None


@pytest.mark.parametrize("reported,settled", [(None, 4), (0, 0), (7, 7)])
def test_reservation_with_an_exception(kind: str, reported: int | None, settled: int) -> None:
    """It stays charged at its estimate, unless the work has reported what it has cost so far."""

    def work(reservation: Any) -> None:
        if reported is not None:
            reservation.report(reported)
        raise KeyError("work")

    with scripted() as (script, url), pytest.raises(KeyError):
        Client(kind, url).reserve(work, cost=4)
    assert script.settled() == [settled]


def test_reservation_that_is_rejected(kind: str, gate: Gate) -> None:
    client = Client(kind, gate.url, token=TOKEN)
    with pytest.raises(Rejected) as caught:
        client.reserve(lambda reservation: pytest.fail("it ran"), user_id="rejected", path="/blocked")
    assert caught.value.decision.reason == "denied"


@pytest.mark.parametrize("receipt,reports", [("second", 1), ("", 0)])
def test_reservation_that_loses_slots(kind: str, receipt: str, reports: int) -> None:
    """A part of the slots: it goes on with the others, and reports it once. All: it stops renewing."""
    with scripted(extend=(409, {"detail": "lost", **({"receipt": receipt} if receipt else {})})) as (script, url):
        client = Client(kind, url)

        def work(reservation: Any) -> None:
            eventually("the slot is renewed", lambda: [call for call, _ in script.calls].count("extend") >= (3 if receipt else 1))
            time.sleep(0.2)

        client.reserve(work)
    assert len(client.errors) == reports
    assert [of for call, of in script.calls if call == "extend"][:2] == (["first", "second"] if receipt else ["first"])


def test_reservation_without_the_server(kind: str) -> None:
    client = Client(kind, f"http://127.0.0.1:{free_port()}", on_failure="allow")

    def work(reservation: Any) -> None:
        reservation.report(2)

    reservation = client.reserve(work)
    assert reservation.decision.degraded and reservation.settlement is None and len(client.errors) == 1
    with pytest.raises(Rejected):
        Client(kind, f"http://127.0.0.1:{free_port()}", on_failure="deny").reserve(lambda reservation: None)


def test_settling_fails(kind: str) -> None:
    """The work is done: it is not lost, and the failure is reported."""

    def handle(request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        if path == "/v1/check":
            reply(request, {**GOOD, "receipt": "a"})
        else:
            reply(request, {"detail": "expired"}, 410)

    with http_server(handle) as url:
        client = Client(kind, url)
        reservation = client.reserve(lambda reservation: None)
    assert reservation.settle_error.status == 410 and client.errors == [reservation.settle_error]


def run_cancelled(url: str, call: Callable[[AsyncFluxGate], Awaitable[object]], ready: Callable[[], bool]) -> None:
    async def main() -> None:
        limiter = AsyncFluxGate(url, on_failure="raise", timeout=20)
        task = asyncio.ensure_future(call(limiter))
        while not ready():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await limiter.close()

    asyncio.run(main())


def test_cancelled_check_is_given_back() -> None:
    with scripted(check_takes=0.6) as (script, url):
        run_cancelled(url, lambda limiter: limiter.check(Request(cost=5)), lambda: bool(script.calls))
        assert script.settled() == [0]


def test_cancelled_reservation_is_settled() -> None:
    running: list[bool] = []

    async def work(limiter: AsyncFluxGate) -> None:
        async with limiter.reservation(Request(cost=5)) as reservation:
            reservation.report(2)
            running.append(True)
            await asyncio.sleep(60)

    with scripted() as (script, url):
        run_cancelled(url, work, lambda: bool(running))
        assert script.settled() == [2]
    with scripted(check_takes=0.6) as (script, url):
        run_cancelled(url, work, lambda: bool(script.calls))
        assert script.settled() == [0]


def test_cancelled_scope_of_anyio() -> None:
    """A scope of anyio, which Starlette uses, cancels every await again: the reservation is settled nevertheless."""
    import anyio

    async def main(url: str) -> None:
        limiter = AsyncFluxGate(url, on_failure="raise", timeout=20)
        with anyio.CancelScope() as scope:
            async with limiter.reservation(Request()) as reservation:
                reservation.report(2)
                scope.cancel()
                await anyio.sleep(60)
        await limiter.close()

    with scripted() as (script, url):
        asyncio.run(main(url))
        assert script.settled() == [2]


def test_real_slots(kind: str, servers: Servers, redis: str) -> None:
    """A slot of a real server is held beyond its hold time, and free at the end."""
    own = servers.gate(redis, "id: conformance\nrules:\n  - {id: slots, limitScope: USER_ID, bands: [{kind: concurrency, capacity: 1, hold: 2s}]}\n")
    client = Client(kind, own.url, token=TOKEN)
    other = FluxGate(own.url, token=TOKEN, on_failure="raise", timeout=20)

    def work(reservation: Any) -> None:
        time.sleep(3)
        assert not other.check(Request(user_id=kind)).allowed

    client.reserve(work, user_id=kind)
    assert client.errors == [] and other.check(Request(user_id=kind)).allowed
    other.close()
