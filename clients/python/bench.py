"""Measures checks per second of 32 callers: python bench.py URL [TOKEN [SECONDS]]"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "src"))

from fluxgate import FluxGate, Request
from fluxgate.aio import AsyncFluxGate

CALLERS = 32
WARM_UP = 0.5


def request(caller: int) -> Request:
    return Request(user_id=f"bench-{caller}", method="GET", path="/api/orders")


def blocking(url: str, token: str, seconds: float) -> float:
    limiter = FluxGate(url, token=token, on_failure="raise", timeout=20)
    begin = time.monotonic() + WARM_UP
    counts = [0] * CALLERS

    def caller(n: int) -> None:
        while (now := time.monotonic()) < begin + seconds:
            limiter.check(request(n))
            counts[n] += now >= begin

    threads = [threading.Thread(target=caller, args=(n,)) for n in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begin
    limiter.close()
    return sum(counts) / took


async def asynchronous(url: str, token: str, seconds: float) -> float:
    limiter = AsyncFluxGate(url, token=token, on_failure="raise", timeout=20)
    begin = time.monotonic() + WARM_UP
    counts = [0] * CALLERS

    async def caller(n: int) -> None:
        while (now := time.monotonic()) < begin + seconds:
            await limiter.check(request(n))
            counts[n] += now >= begin

    await asyncio.gather(*(caller(n) for n in range(CALLERS)))
    took = time.monotonic() - begin
    await limiter.close()
    return sum(counts) / took


if __name__ == "__main__":
    url, token, seconds = (*sys.argv[1:4], *["", "5"][max(0, len(sys.argv) - 2) :])
    print(f"blocking {blocking(url, token, float(seconds)):.0f} checks/s")
    print(f"async {asyncio.run(asynchronous(url, token, float(seconds))):.0f} checks/s")
