"""An application of FastAPI behind the middleware, for test_outage.py."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from fastapi import FastAPI, Request as HTTPRequest

from fluxgate import Request
from fluxgate.aio import AsyncFluxGate
from fluxgate.asgi import FluxGateMiddleware, Scope

TIMEOUT = 0.5

mode: Any = os.environ.get("MODE", "raise")


def amend(scope: Scope, request: Request) -> None:
    request.user_id = dict(scope["headers"])[b"x-user"].decode()


app = FastAPI()
if mode != "sleep":
    limiter = AsyncFluxGate(os.environ.get("FLUXGATE_URL", "http://127.0.0.1:1"), token="token-of-a-gateway", on_failure=mode, timeout=TIMEOUT)
    app.add_middleware(FluxGateMiddleware, limiter=limiter, amend=amend)


@app.get("/api/orders")
async def orders(request: HTTPRequest) -> dict[str, bool]:
    if mode == "sleep":  # without the middleware, but as long as a decision without an answer takes
        await asyncio.sleep(TIMEOUT)
        return {"degraded": False}
    return {"degraded": request.state.fluxgate.decision.degraded}
