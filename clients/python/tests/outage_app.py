"""An application of FastAPI behind the middleware, for test_outage.py."""

from __future__ import annotations

import os
from typing import Any

from fastapi import FastAPI, Request as HTTPRequest

from fluxgate import Request
from fluxgate.aio import AsyncFluxGate
from fluxgate.asgi import FluxGateMiddleware, Scope

TIMEOUT = 0.5

mode: Any = os.environ.get("ON_FAILURE", "raise")
limiter = AsyncFluxGate(os.environ.get("FLUXGATE_URL", "http://127.0.0.1:1"), token="token-of-a-gateway", on_failure=mode, timeout=TIMEOUT)


def amend(scope: Scope, request: Request) -> None:
    request.user_id = dict(scope["headers"])[b"x-user"].decode()


app = FastAPI()
app.add_middleware(FluxGateMiddleware, limiter=limiter, amend=amend)


@app.get("/api/orders")
async def orders(request: HTTPRequest) -> dict[str, bool]:
    return {"degraded": request.state.fluxgate.decision.degraded}
