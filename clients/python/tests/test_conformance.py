"""Runs the conformance cases: all with the asynchronous client, and those without a middleware with the blocking one too."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Coroutine, Iterator, TypeVar

import pytest

from fluxgate import ClientIP, Estimate, FluxGate, FluxGateError, Request, Settlement, Usage
from fluxgate.aio import AsyncFluxGate
from fluxgate.asgi import FluxGateMiddleware, Receive, Scope, Send
from servers import CONFORMANCE, Servers, free_port, hypercorn_server, uvicorn_server

T = TypeVar("T")

FILE = json.loads((CONFORMANCE / "cases.json").read_text())
CASES: list[dict[str, Any]] = FILE["cases"]
assert len(CASES) >= 50


def snake(names: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("([A-Z])", r"_\1", name).lower(): value for name, value in names.items()}


def camel(name: str) -> str:
    return re.sub("_([a-z])", lambda m: m[1].upper(), name)


def request_of(fields: dict[str, Any]) -> Request:
    fields = snake(fields)
    if "estimate" in fields:
        fields["estimate"] = Estimate(**snake(fields["estimate"]))
    return Request(**fields)


def shown(value: Any) -> Any:
    """The JSON of an answer, without the fields that were absent."""
    if isinstance(value, tuple):
        return [shown(v) for v in value]
    if not dataclasses.is_dataclass(value):
        return value
    fields = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
    return {camel(f.name): shown(of) for f, of in fields if f.default is dataclasses.MISSING or of != f.default}


def match(got: Any, want: Any, place: str) -> None:
    """Fails if an answer is not as wanted. Fields that are not mentioned may have any value."""
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), f"{place}: {got} must have {len(want)} entries"
        for i, w in enumerate(want):
            match(got[i], w, f"{place}[{i}]")
    elif not isinstance(want, dict):
        assert got == want and isinstance(got, bool) == isinstance(want, bool), f"{place}: {got!r} is not {want!r}"
    elif "$from" in want:
        assert isinstance(got, (int, float)) and want["$from"] <= got <= want.get("$to", got), f"{place}: {got} is not in {want}"
    else:
        assert isinstance(got, dict), f"{place}: {got} is not an object"
        for name, w in want.items():
            if w in ("$present", "$absent"):
                assert (name in got) == (w == "$present"), f"{place}.{name} must be {w[1:]} in {got}"
            else:
                match(got.get(name), w, f"{place}.{name}")


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def start(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(call, self.loop)


LOOP = Loop()


class Left(Exception):
    """The caller has left, as the step says."""


class Run:
    """One case with one of the clients."""

    def __init__(self, case: dict[str, Any], kind: str, url: str, harness: str) -> None:
        self.case, self.url, self.harness, self.app = case, url, harness, ""
        self.receipts: dict[str, str] = {}
        options = case.get("client", {})
        modes: dict[str, Any] = {"allow": "allow", "deny": "deny", "": "raise"}
        new: Any = FluxGate if kind == "blocking" else AsyncFluxGate
        settings = {"on_failure": modes[options.get("onFailure", "")], "timeout": options.get("timeoutMs", 20_000) / 1000}
        self.clients = {name: new(url, token=token, **settings) for name, token in FILE["tokens"].items()}

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            if "middleware" in self.case:
                self.app = stack.enter_context(app_server(self.clients["gateway"], self.case["middleware"]))
            for i, step in enumerate(self.case["steps"]):
                self.step(step, f"step {i + 1}")

    def step(self, step: dict[str, Any], place: str) -> None:
        if "together" in step:
            with ThreadPoolExecutor() as pool:
                for done in [pool.submit(self.step, s, f"{place}.{i + 1}") for i, s in enumerate(step["together"])]:
                    done.result()
            return
        time.sleep(step.get("afterMs", 0) / 1000)
        if "seen" in step:
            self.wait_for(step["seen"], place)
            return
        begin = time.monotonic()
        try:
            answer = self.perform(step)
        except Left:
            pass
        except FluxGateError as error:
            assert "error" in step, f"{place}: {error}"
            # An invalid request without a status was refused by the client.
            status = error.status or (400 if error.code == "invalid" else 0)
            assert status == step["error"]["status"], f"{place}: {error}"
            if error.status and "detail" in step["error"]:
                assert str(error).endswith(step["error"]["detail"]), f"{place}: {error}"
        else:
            assert "answer" in step, f"{place}: there is an answer: {answer}"
            match(answer, step["answer"], place)
        took = (time.monotonic() - begin) * 1000
        assert took <= step.get("withinMs", took), f"{place} took {took} ms"

    def wait_for(self, want: Any, place: str) -> None:
        until = time.monotonic() + 5
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/seen") as answer:
                    return match(json.load(answer), want, place)
            except AssertionError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def perform(self, step: dict[str, Any]) -> Any:
        token = step.get("token", "gateway")
        client = self.clients[token]
        if "check" in step:
            fields = dict(step["check"])
            method = client.peek if fields.pop("peek", False) else client.check
            decision = self.call(method(request_of(fields)) if isinstance(client, AsyncFluxGate) else lambda: method(request_of(fields)), step.get("leaveAfterMs"))
            if "save" in step:
                self.receipts[step["save"]] = decision.receipt
            return shown(decision)
        if "settle" in step:
            receipt, actual = self.receipt(step["settle"]["receipt"]), step["settle"].get("actual")
            cost = Usage(**snake(step["settle"]["usage"])) if actual is None else actual
            settled: dict[str, Settlement] = self.call(client.settle(receipt, cost) if isinstance(client, AsyncFluxGate) else lambda: client.settle(receipt, cost))
            return shown(settled["requests"]) if actual is not None else {"measures": {measure: shown(of) for measure, of in settled.items()}}
        if "extend" in step:
            return {"receipt": self.extend(client, step["extend"]["receipt"])}
        if "send" in step:
            body = {**step["send"], "to": self.app, "http": self.case["middleware"].get("http", 1)}
            return post(f"{self.harness}/send", json.dumps(body), {})
        raw = step["raw"]
        text = re.sub(r'"(\$\w+)"', lambda m: json.dumps(self.receipt(m[1])), raw.get("text") or json.dumps(raw.get("body")))
        return post(self.url + raw["path"], text, {"Authorization": f"Bearer {FILE['tokens'][token]}", "Content-Type": "application/json"})

    def extend(self, client: Any, name: str) -> str:
        receipt = self.receipt(name)
        try:
            renewed: str = self.call(client.extend(receipt) if isinstance(client, AsyncFluxGate) else lambda: client.extend(receipt))
        except FluxGateError as error:
            self.receipts[name[1:]] = error.receipt or receipt
            raise
        self.receipts[name[1:]] = renewed
        return renewed

    def receipt(self, name: str) -> str:
        return self.receipts[name[1:]] if name.startswith("$") else name

    def call(self, call: Any, leave_after_ms: int | None = None) -> Any:
        if callable(call):
            return call()
        pending = LOOP.start(call)
        if leave_after_ms is None:
            return pending.result()
        time.sleep(leave_after_ms / 1000)
        assert pending.cancel()
        raise Left


def post(url: str, body: str, headers: dict[str, str]) -> Any:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers)) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        raise FluxGateError(problem.get("detail", ""), "refused", error.code) from None


@contextlib.contextmanager
def app_server(limiter: AsyncFluxGate, options: dict[str, Any]) -> Iterator[str]:
    def text(scope: Scope, wanted: bytes) -> str:
        return next((value.decode() for name, value in scope["headers"] if name == wanted), "")

    def amend(scope: Scope, request: Request) -> None:
        request.user_id, request.api_key, request.cost = text(scope, b"x-user"), text(scope, b"x-api-key"), int(text(scope, b"x-cost") or 1)

    async def hello(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await asyncio.sleep(int(text(scope, b"x-hold-ms") or 0) / 1000)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain"), (b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    app = FluxGateMiddleware(hello, limiter, amend=amend, client_ip=ClientIP(options.get("trustedProxies", [])), headers=options.get("headers"))
    server: Callable[[Any], contextlib.AbstractContextManager[str]] = hypercorn_server if options.get("http") == 2 else uvicorn_server
    with server(app) as url:
        yield url


Results = dict[tuple[str, int], "Future[None]"]


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    """All cases, four at a time: many of them wait."""
    servers = Servers()
    try:
        with ThreadPoolExecutor(4) as pool:
            found: Results = {}
            for kind in ("blocking", "async"):
                redis, away, harness = servers.redis(), f"redis://127.0.0.1:{free_port()}", servers.harness()
                urls = {"": servers.gate(redis).url, "without-redis": servers.gate(away).url}
                for n, case in enumerate(CASES):
                    url = f"{harness}/cases/{n}" if case.get("server") == "harness" else urls[case.get("server", "")]
                    if runs(kind, case):
                        found[kind, n] = pool.submit(Run(case, kind, url, harness).run)
            yield found
    finally:
        servers.end()


def runs(kind: str, case: dict[str, Any]) -> bool:
    """Middlewares are asynchronous, and nobody can leave a call that blocks."""
    return kind == "async" or ("middleware" not in case and "leaveAfterMs" not in json.dumps(case))


IDS = [(kind, n) for kind in ("blocking", "async") for n, case in enumerate(CASES) if runs(kind, case)]


@pytest.mark.parametrize("kind,n", IDS, ids=[f"{kind}-{CASES[n]['group']}: {CASES[n]['name']}" for kind, n in IDS])
def test_case(results: Results, kind: str, n: int) -> None:
    results[kind, n].result()
