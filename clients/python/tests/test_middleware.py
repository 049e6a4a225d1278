"""The middleware with FastAPI and Starlette on a real uvicorn, and what hostile clients send to it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import socket
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler
from typing import Any, AsyncIterator, Iterator

import pytest
from fastapi import FastAPI, Request as HTTPRequest, WebSocket
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route

from fluxgate import ClientIP, Decision, FluxGate, FluxGateError, Request
from fluxgate.aio import AsyncFluxGate
from fluxgate.asgi import FluxGateMiddleware, Message, Receive, Scope, Send
from servers import TOKEN, Gate, Servers, eventually, free_port, http_server, hypercorn_server, reply, uvicorn_server

GOOD: dict[str, Any] = {"allowed": True, "reason": "ok", "remaining": 1}
DENIED: dict[str, Any] = {"allowed": False, "reason": "denied", "remaining": 0}


def limiter_of(gate: Gate, **options: Any) -> AsyncFluxGate:
    settings: dict[str, Any] = {"token": TOKEN, "on_failure": "raise", "timeout": 20, **options}
    return AsyncFluxGate(gate.url, **settings)


def by_user(scope: Scope, request: Request) -> None:
    request.user_id = HTTPConnection(scope).headers.get("X-User", "")


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await PlainTextResponse("hello")(scope, receive, send)


class Answer:
    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()


def call(url: str, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}, encode_chunked="Transfer_Encoding" in headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def send_raw(url: str, text: bytes) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(text)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


@contextlib.contextmanager
def recorded(answer: object = GOOD, settled: list[Any] | None = None) -> Iterator[tuple[list[dict[str, Any]], AsyncFluxGate]]:
    """A server that answers every check, the checks that it has seen, and a limiter of it."""
    seen: list[dict[str, Any]] = []

    def handle(request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        sent = json.loads(body)
        if path == "/v1/check":
            seen.append(sent)
            reply(request, answer)
        else:
            (settled if settled is not None else []).append(sent)
            reply(request, {"returned": 0, "charged": 0})

    with http_server(handle) as url:
        yield seen, AsyncFluxGate(url, on_failure="raise", timeout=20)


def test_fastapi(gate: Gate) -> None:
    def amend(scope: Scope, request: Request) -> None:
        by_user(scope, request)
        request.cost = 4

    app = FastAPI()
    app.add_middleware(FluxGateMiddleware, limiter=limiter_of(gate), amend=amend)

    @app.get("/api/orders/{number}")
    async def orders(number: int, request: HTTPRequest) -> dict[str, Any]:
        return {"number": number, "remaining": request.state.fluxgate.decision.remaining}

    with uvicorn_server(app) as url:
        allowed = call(url, "/api/orders/7?a=b", X_User="fastapi")
        assert (allowed.status, json.loads(allowed.body)) == (200, {"number": 7, "remaining": 6})
        assert allowed.headers["X-RateLimit-Limit"] == "10" and allowed.headers["X-RateLimit-Remaining"] == "6"
        assert allowed.headers["RateLimit-Policy"] == '"per-user.hour";q=10;w=3600'
        assert re.fullmatch('"per-user.hour";r=6;t=3[0-9]{2}', allowed.headers["RateLimit"])
        assert 1400 < int(allowed.headers["X-RateLimit-Reset"]) - time.time() < 1450 and "Retry-After" not in allowed.headers
        call(url, "/api/orders/7", X_User="fastapi")
        rejected = call(url, "/api/orders/7", X_User="fastapi")
        retry = int(rejected.headers["Retry-After"])
        assert 700 <= retry <= 720 and re.fullmatch('"per-user.hour";r=2;t=3[0-9]{2}', rejected.headers["RateLimit"])
        assert (rejected.status, rejected.headers["Content-Type"], rejected.headers["Cache-Control"]) == (429, "application/problem+json", "no-store")
        assert json.loads(rejected.body) == {
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Request cannot be satisfied as assigned quota has been exceeded",
            "status": 429,
            "detail": f"per-user.hour has 2 of 10 left, and the request costs 4. Try again in {retry}s.",
            "reason": "limited",
            "violated-policies": ["per-user.hour"],
        }
        head = call(url, "/api/orders/7", "HEAD", X_User="fastapi")
        assert (head.status, head.body, head.headers["Content-Length"]) == (429, b"", str(len(rejected.body)))
        assert call(url, "/api/orders/7", X_User="another").status == 200


@pytest.mark.parametrize("mode,status", [("allow", 200), ("deny", 503), ("raise", 500)])
def test_failure_modes(mode: Any, status: int) -> None:
    app = Starlette(middleware=[Middleware(FluxGateMiddleware, limiter=AsyncFluxGate(f"http://127.0.0.1:{free_port()}", on_failure=mode, timeout=20))])
    app.add_route("/", lambda request: PlainTextResponse(str(request.state.fluxgate.decision.degraded)))
    caught: list[Exception] = []

    def failed(request: Any, error: Exception) -> PlainTextResponse:
        caught.append(error)
        return PlainTextResponse("failed", 500)

    app.add_exception_handler(Exception, failed)
    with uvicorn_server(app) as url:
        answer = call(url, "/")
    assert (answer.status, [type(error) for error in caught]) == (status, [FluxGateError] if mode == "raise" else [])
    if mode == "deny":
        assert json.loads(answer.body) == {"title": "Service Unavailable", "status": 503, "detail": "The request cannot be counted now.", "reason": "store-failure"}


def test_busy_server() -> None:
    """503 with Retry-After: asked again until the time is over, then the failure mode decides."""
    asked: list[float] = []

    def handle(request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        asked.append(time.monotonic())
        reply(request, {"status": 503}, 503, Retry_After="60")

    with http_server(handle) as server:
        app = FluxGateMiddleware(hello, AsyncFluxGate(server, on_failure="deny", timeout=3))
        with uvicorn_server(app) as url:
            assert call(url, "/").status == 503
    assert 2 <= len(asked) <= 20 and asked[-1] - asked[0] < 3


def test_settles_what_the_application_reports(gate: Gate) -> None:
    app = FastAPI()
    app.add_middleware(FluxGateMiddleware, limiter=limiter_of(gate), amend=by_user)

    @app.get("/settled")
    async def settled(request: HTTPRequest, cost: int, fail: bool = False) -> str:
        request.state.fluxgate.report(cost)
        if fail:
            raise RuntimeError("after the report")
        return "done"

    peek = FluxGate(gate.url, token=TOKEN, on_failure="raise", timeout=20)
    with uvicorn_server(app) as url:
        assert call(url, "/settled?cost=30", X_User="reports").status == 200
        eventually("30 are charged", lambda: peek.peek(Request(user_id="reports", path="/settled")).remaining == 70)
        assert call(url, "/settled?cost=0&fail=true", X_User="reports").status == 500
        time.sleep(0.2)
        eventually("nothing is charged", lambda: peek.peek(Request(user_id="reports", path="/settled")).remaining == 70)
    peek.close()


def test_holds_a_slot_until_the_application_returns(gate: Gate) -> None:
    running = threading.Event()

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"part"
            running.set()
            await asyncio.sleep(0.05)

    app = Starlette(routes=[Route("/slots", lambda request: StreamingResponse(stream()))], middleware=[Middleware(FluxGateMiddleware, limiter=limiter_of(gate), amend=by_user)])
    other = FluxGate(gate.url, token=TOKEN, on_failure="raise", timeout=20)
    taken = Request(user_id="held", path="/slots")
    with uvicorn_server(app) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        connection.request("GET", "/slots", headers={"X-User": "held"})
        assert connection.getresponse().read(4) == b"part" and running.wait(20)
        assert not other.peek(taken).remaining
        connection.close()  # the client leaves
        eventually("the slot is free", lambda: other.peek(taken).remaining == 1)
    other.close()


def test_what_is_sent() -> None:
    headers = {"Authorization": "Bearer hush", "Cookie": "hush=1", "Proxy_Authorization": "hush", "X_One": "1"}
    with recorded() as (seen, limiter):
        app = Starlette(routes=[Mount("/api", app=FluxGateMiddleware(hello, limiter)), Mount("/one", app=FluxGateMiddleware(hello, limiter, headers=["X-One", "Cookie"]))])
        with uvicorn_server(app) as url:
            assert call(url, "/api/%61//b;c?token=hush", "POST", **headers).status == 200
            assert call(url, "/one/x", **headers).status == 200
    first, second = seen
    assert "hush" not in json.dumps(first)
    assert (first["method"], first["path"], first["ip"], first["host"]) == ("POST", "/api/%61//b;c", "127.0.0.1", url.removeprefix("http://"))
    assert first["headers"]["x-one"] == ["1"] and second["headers"] == {"cookie": ["hush=1"], "x-one": ["1"]}


def test_amend_may_be_asynchronous_and_fail() -> None:
    async def amend(scope: Scope, request: Request) -> None:
        await asyncio.sleep(0)
        if scope["path"] == "/fails":
            raise PermissionError("no user")
        request.user_id, request.attributes = "ada", {"plan": "gold"}

    with recorded() as (seen, limiter), uvicorn_server(FluxGateMiddleware(hello, limiter, amend=amend)) as url:
        assert call(url, "/").status == 200
        assert call(url, "/fails").status == 500
    assert [(of["userId"], of["attributes"]) for of in seen] == [("ada", {"plan": "gold"})]


def test_own_answer_to_rejections() -> None:
    limited = {"allowed": False, "reason": "limited", "remaining": 0, "retryAfterMs": 1500}

    def rejected(scope: Scope, decision: Decision) -> Any:
        return PlainTextResponse(f"no: {decision.reason}", 418, {"X-Own": "1"})

    with recorded(limited) as (_, limiter), uvicorn_server(FluxGateMiddleware(hello, limiter, on_rejected=rejected)) as url:
        answer = call(url, "/")
    assert (answer.status, answer.body, answer.headers["X-Own"], answer.headers["Retry-After"]) == (418, b"no: limited", "1", "2")


def test_the_application_may_set_the_headers_itself() -> None:
    band = {"rule": "r", "label": "b", "status": "ok", "source": "store", "limit": 3, "remaining": 1, "capacity": 3, "refillTokens": 3, "refillMs": 1000}
    decided = {**GOOD, "rule": "r", "band": "b", "limit": 3, "bands": [band]}
    own = PlainTextResponse("hello", headers={"x-ratelimit-limit": "7"})
    with recorded(decided) as (_, limiter), uvicorn_server(FluxGateMiddleware(FluxGateMiddleware(own, limiter), limiter)) as url:
        answer = call(url, "/")
    assert answer.headers.get_all("X-RateLimit-Limit") == ["7"]
    assert answer.headers.get_all("RateLimit") == ['"r.b";r=1'], "of two middlewares the inner one sets the headers"


# What hostile clients send.


def test_header_injection() -> None:
    """Neither a server's answer nor a client's request can add a header or a part of the problem document."""
    for rule in ('a"', "a\r\nX-Evil: 1", "a\nb", "a b", "é"):
        with recorded({**DENIED, "reason": "limited", "rule": rule, "band": "b", "limit": 1}) as (_, limiter):
            with uvicorn_server(FluxGateMiddleware(hello, limiter)) as url:
                answer = call(url, "/")
                assert answer.status == 500 and "X-Evil" not in answer.headers, rule
    with recorded({**DENIED, "reason": 'x"\r\nX-Evil: 1'}) as (_, limiter), uvicorn_server(FluxGateMiddleware(hello, limiter)) as url:
        answer = call(url, "/%0d%0aX-Evil:1?a=%0d%0aX-Evil:1", X_User="a b")
        assert answer.status == 429 and "X-Evil" not in answer.headers and json.loads(answer.body)["reason"] == 'x"\r\nX-Evil: 1'


def test_forged_addresses() -> None:
    forged = {"X_Forwarded_For": "1.1.1.1", "Forwarded": "for=1.1.1.1", "X_Real_IP": "1.1.1.1", "CF_Connecting_IP": "1.1.1.1", "True_Client_IP": "1.1.1.1"}
    with recorded() as (seen, limiter):
        with uvicorn_server(FluxGateMiddleware(hello, limiter)) as url:
            call(url, "/", **forged)
        with uvicorn_server(FluxGateMiddleware(hello, limiter, client_ip=ClientIP(["127.0.0.1"]))) as url:
            call(url, "/", **{**forged, "X_Forwarded_For": "1.1.1.1, 192.0.2.7"})
            send_raw(url, b"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.8\r\nx-forwarded-for: unknown\r\nConnection: close\r\n\r\n")
            send_raw(url, b"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.9, \xff\xfe\r\nConnection: close\r\n\r\n")
    assert [of["ip"] for of in seen] == ["127.0.0.1", "192.0.2.7", "127.0.0.1", "127.0.0.1"]


def test_paths() -> None:
    paths = ["/a/../b", "/a/%2e%2e/b", "//a", "/a%00b", "/a%2Fb", "/a%5Cb", "/%E9", "/a;b", "/a%3Fb", "/A", "/a%0d%0aX-Evil:1", "/" + "a" * 8000]
    with recorded() as (seen, limiter), uvicorn_server(FluxGateMiddleware(hello, limiter)) as url:
        for path in paths:
            assert call(url, path + "?query=%2F/..").status == 200
        for target in (b"http://elsewhere.example/a?b", b"HTTP://elsewhere.example/a"):
            send_raw(url, b"GET " + target + b" HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n")
        send_raw(url, b"OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        send_raw(url, b"GET http://elsewhere.example HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    assert [of.get("path", "") for of in seen] == [*paths, "/a", "/a", "*", ""]


def test_large_requests_are_not_allowed_without_a_decision(gate: Gate) -> None:
    """Neither headers that the server does not accept nor a body that cannot be sent pass with the failure mode allow."""
    passed: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            passed.append(scope["path"])
        await hello(scope, receive, send)

    limiter = limiter_of(gate, on_failure="allow")
    with hypercorn_server(FluxGateMiddleware(app, limiter, amend=by_user), h11_max_incomplete_size=1 << 20) as url:
        for size in (70_000, 300_000):
            assert call(url, "/api/large", X_User="large", X_Long="x" * size).status == 500
        assert call(url, "/api/quotes", X_User="large", X_Long='"' * 60_000).status == 500
        assert call(url, "/api/many", X_User="large", **{f"X_{n}": "x" * 200 for n in range(90)}).status == 200
    assert passed == ["/api/many"]


def test_bytes_that_are_not_text() -> None:
    with recorded() as (seen, limiter), uvicorn_server(FluxGateMiddleware(hello, limiter)) as url:
        assert b" 200 " in send_raw(url, b"GET / HTTP/1.1\r\nHost: h\r\nX-A: \xff\x80\xc3\xa9\r\nConnection: close\r\n\r\n")
    assert seen[0]["headers"]["x-a"] == ["\xff\x80\xc3\xa9"]


def test_streamed_bodies() -> None:
    """The application reads the body as it comes, and a rejected one is not read."""
    sizes: list[int] = []

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        total = 0
        while (message := await receive())["type"] == "http.request":
            total += len(message.get("body", b""))
            if not message.get("more_body"):
                break
        sizes.append(total)
        await hello(scope, receive, send)

    with recorded() as (_, limiter), uvicorn_server(FluxGateMiddleware(count, limiter)) as url:
        chunks = (b"x" * 10_000 for _ in range(100))
        assert call(url, "/", "POST", chunks, Transfer_Encoding="chunked").status == 200
        urllib.request.urlopen(urllib.request.Request(url, b"y" * 300_000)).close()
    assert sizes == [1_000_000, 300_000]
    with recorded(DENIED) as (_, limiter), uvicorn_server(FluxGateMiddleware(count, limiter)) as url:
        answer = send_raw(url, b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 "), answer[:100]
    assert len(sizes) == 2


def test_websockets_and_lifespan_pass() -> None:
    started: list[str] = []
    with recorded(DENIED) as (seen, limiter):
        app = FastAPI()
        app.add_event_handler("startup", lambda: started.append("up"))
        app.add_event_handler("shutdown", lambda: started.append("down"))
        app.add_middleware(FluxGateMiddleware, limiter=limiter)

        @app.websocket("/ws")
        async def echo(websocket: WebSocket) -> None:
            await websocket.accept()
            await websocket.send_text(await websocket.receive_text())

        with hypercorn_server(app) as url:
            assert b"echo" in websocket_echo(url)
            assert call(url, "/ws").status == 403
    assert started == ["up", "down"] and len(seen) == 1


def websocket_echo(url: str) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        upgrade = b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        connection.sendall(upgrade)
        assert b" 101 " in connection.recv(65536)
        connection.sendall(b"\x81\x84\0\0\0\0echo")
        answer = b""
        while b"echo" not in answer and (part := connection.recv(65536)):
            answer += part
        return answer


def test_cancelled_while_the_check_runs() -> None:
    """A server that cancels the application gives back what the check takes."""
    settled: list[Any] = []

    def handle(request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        if path == "/v1/check":
            time.sleep(0.6)
            reply(request, {**GOOD, "receipt": "late"})
        else:
            settled.append(json.loads(body))
            reply(request, {"returned": 1, "charged": 0})

    async def main(url: str) -> None:
        limiter = AsyncFluxGate(url, on_failure="raise", timeout=20)
        app = FluxGateMiddleware(never, limiter)
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": None}
        task = asyncio.ensure_future(app(scope, receive, send))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await limiter.close()

    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        pytest.fail("the application was called")

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        pytest.fail("something was answered")

    with http_server(handle) as url:
        asyncio.run(main(url))
    assert settled == [{"receipt": "late", "actual": 0}]


def test_minimal_scope() -> None:
    """A server may leave out what ASGI calls optional."""
    with recorded() as (seen, limiter):

        async def main() -> list[Message]:
            sent: list[Message] = []

            async def send(message: Message) -> None:
                sent.append(message)

            async def receive() -> Message:
                return {"type": "http.request"}

            scope: Scope = {"type": "http", "method": "GET", "path": "/a b/é", "headers": []}
            await FluxGateMiddleware(hello, limiter)(scope, receive, send)
            await limiter.close()
            return sent

        assert asyncio.run(main())[0]["status"] == 200
    assert seen[0]["path"] == "/a%20b/%C3%A9" and "ip" not in seen[0] and "host" not in seen[0]


def test_as_the_middleware_for_go(servers: Servers, redis: str) -> None:
    """The headers and documents of the server's forward-auth endpoint, which runs the middleware for Go."""

    def bands(capacity: int) -> str:
        return ", ".join(f"{{label: b{i}, capacity: {capacity - i}, refillTokens: 2, refill: {i + 1}h}}" for i in range(5))

    own = servers.gate(
        redis,
        f"""id: conformance
rules:
  - {{id: kinds, path: /kinds, limitScope: IP, bands: [{{capacity: 3, refill: 90s}}, {{capacity: 5, refill: 3600500ms}}, {{kind: sliding-window, capacity: 7, period: 2d}}, {{kind: quota, capacity: 8, period: month}}]}}
  - {{id: planned, path: /kinds, mode: shadow, limitScope: IP, bands: [{{capacity: 1, refill: 1h}}]}}
  - {{id: money, path: /kinds, cost: usd, limitScope: IP, bands: [{{kind: quota, capacity: 8, period: day}}]}}
  - {{id: many, path: /many, priority: 5, limitScope: IP, bands: [{bands(20)}]}}
  - {{id: more, path: /many, limitScope: IP, bands: [{bands(6)}]}}
  - {{id: blocked, path: /blocked, action: deny}}
""",
    )
    names = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "RateLimit-Policy", "RateLimit", "Retry-After", "Content-Type", "Cache-Control"]

    def shown(answer: Answer) -> list[str]:
        every = names[: 5 if answer.status < 300 else 7]
        return [f"{name}: {re.sub(r'(t=|^)[0-9]{2,}$|t=[0-9]{2,}(?=,)', '…', answer.headers.get(name, ''))}" for name in every]

    def amend(scope: Scope, request: Request) -> None:
        request.ip, request.cost = "192.0.2.1", 1

    with uvicorn_server(FluxGateMiddleware(hello, limiter_of(own), amend=amend)) as url:
        for path in ["/kinds"] * 4 + ["/many"] * 3 + ["/blocked"]:
            ours = call(url, path)
            theirs = call(own.url, "/v1/forward-auth", X_Forwarded_Method="GET", X_Forwarded_Uri=path, X_Forwarded_Host="h", X_Forwarded_For="192.0.2.2")
            assert shown(ours) == shown(theirs), path
            if ours.status >= 300:
                wanted = json.loads(theirs.headers["X-Fluxgate-Problem"] or theirs.body)
                got = json.loads(ours.body)
                seconds = re.compile("[0-9]+s\\.")
                assert {**got, "detail": seconds.sub("…", got["detail"])} == {**wanted, "detail": seconds.sub("…", wanted["detail"])}


def test_background_tasks_hold_the_slot(gate: Gate) -> None:
    async def work() -> None:
        await asyncio.sleep(0.5)

    app = Starlette(
        routes=[Route("/slots", lambda request: PlainTextResponse("done", background=BackgroundTask(work)))],
        middleware=[Middleware(FluxGateMiddleware, limiter=limiter_of(gate), amend=by_user)],
    )
    other = FluxGate(gate.url, token=TOKEN, on_failure="raise", timeout=20)
    with uvicorn_server(app) as url:
        assert call(url, "/slots", X_User="background").status == 200
        eventually("the slot is free", lambda: other.peek(Request(user_id="background", path="/slots")).remaining == 1)
    other.close()
