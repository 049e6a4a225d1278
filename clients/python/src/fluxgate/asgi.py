"""Middleware for FastAPI, Starlette and other ASGI applications."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any, Awaitable, Callable, MutableMapping, Sequence
from urllib.parse import quote

from .aio import AsyncFluxGate
from .clientip import ClientIP
from .headers import problem_of, rate_limit_headers
from .wire import Decision, Request

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_CREDENTIALS = {"authorization", "cookie", "proxy-authorization"}


class FluxGateMiddleware:
    """Limits requests. Websockets and lifespan events pass.

    A rejected request is answered with 429 (or 403, 400, 503: by the reason), ``Retry-After``, the ``RateLimit`` headers and
    a problem document. Errors of the limiter are raised. ``request.state.fluxgate`` is the reservation of an allowed
    request: with ``report`` the application sets what it has cost, and slots are held until the application returns.

    ``amend`` adds what the service knows: it sets ``user_id``, ``api_key``, ``attributes``, ``cost``, ``rule_set`` of the
    request, and may be asynchronous. ``client_ip`` finds the client's address behind your proxies; the default is that of
    the connection. ``headers`` are the names of the headers that are sent to the server; the default are all but those
    with credentials. ``on_rejected`` returns the answer to a rejected request, such as a response of Starlette; the rate
    limit headers are added. ``timeout`` is how long a decision may take; the default is the limiter's.
    """

    def __init__(self, app: App, limiter: AsyncFluxGate, *, amend: Callable[[Scope, Request], Awaitable[None] | None] | None = None,
                 client_ip: ClientIP | None = None, headers: Sequence[str] | None = None,
                 on_rejected: Callable[[Scope, Decision], App] | None = None, timeout: float | None = None) -> None:
        self.app, self._limiter, self._amend, self._timeout = app, limiter, amend, timeout
        self._client_ip = client_ip or ClientIP()
        self._names = None if headers is None else {name.lower() for name in headers}
        self._on_rejected = on_rejected or (lambda _, decision: _Problem(decision))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = self._describe(scope)
        if self._amend and inspect.isawaitable(amended := self._amend(scope, request)):
            await amended
        decision = await self._limiter.check(request, timeout=self._timeout)
        fields = [(name.lower().encode(), value.encode()) for name, value in rate_limit_headers(decision).items()]

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                names = {bytes(name).lower() for name, _ in own}  # the application may set them itself
                message = {**message, "headers": own + [field for field in fields if field[0] not in names]}
            await send(message)

        if not decision.allowed:
            await self._on_rejected(scope, decision)(scope, receive, respond)
            return
        reservation = self._limiter.reservation(request)
        reservation._begin(decision)
        scope.setdefault("state", {})["fluxgate"] = reservation
        try:
            await self.app(scope, receive, respond)
        finally:
            if reservation._every or reservation._cost is not None:
                await reservation.__aexit__()

    def _describe(self, scope: Scope) -> Request:
        lines: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            lines.setdefault(name.decode("latin-1").lower(), []).append(_text(value))
        client, cookie, proxies = scope.get("client"), lines.get("cookie"), lines.get(self._client_ip.header, ())
        if cookie:
            lines["cookie"] = ["; ".join(cookie)]  # HTTP/2 may send it in parts
        path = scope.get("raw_path") or quote(scope["path"]).encode()  # servers may leave out the raw path
        path = re.sub(r"^[a-z][a-z0-9+.-]*://[^/?]*|\?.*", "", path.decode("latin-1"), flags=re.IGNORECASE | re.DOTALL)  # of a proxy: with the host
        return Request(
            ip=self._client_ip.resolve(client[0] if client else "", proxies),
            method=scope["method"],
            path=path,
            host=lines.get("host", [""])[0],
            headers={name: of for name, of in lines.items() if (name not in _CREDENTIALS if self._names is None else name in self._names)},
        )


def _text(value: bytes) -> str:
    """A header as rules read it: UTF-8, or Latin-1 if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


class _Problem:
    """The answer to a rejected request."""

    def __init__(self, decision: Decision) -> None:
        self._document = problem_of(decision)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = json.dumps(self._document, separators=(",", ":")).encode()
        names = {"content-type": "application/problem+json", "content-length": str(len(body)), "cache-control": "no-store", "x-content-type-options": "nosniff"}
        headers = [(name.encode(), value.encode()) for name, value in names.items()]
        await send({"type": "http.response.start", "status": self._document["status"], "headers": headers})
        await send({"type": "http.response.body", "body": body})
