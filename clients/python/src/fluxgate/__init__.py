"""The client of the FluxGate rate limiting server.

``FluxGate`` blocks. ``fluxgate.aio.AsyncFluxGate`` is for asyncio, and ``fluxgate.asgi.FluxGateMiddleware`` for FastAPI and
Starlette; both need httpx.
"""

from .blocking import FluxGate as FluxGate, Reservation as Reservation
from .clientip import ClientIP as ClientIP
from .core import ErrorCode as ErrorCode, FluxGateError as FluxGateError, OnFailure as OnFailure, Rejected as Rejected
from .wire import Band as Band, Decision as Decision, Estimate as Estimate, Request as Request, Settlement as Settlement, Usage as Usage
