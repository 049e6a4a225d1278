"""The asynchronous client. It needs httpx."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, Coroutine

import httpx

from .core import IDLE_TIME, MAX_ANSWER, MAX_IDLE, Answer, Core, FluxGateError, Reserved, no_answer
from .wire import Decision, Request, Settlement, T, Usage


class AsyncFluxGate(Core):
    """Decides requests by calling a server, with asyncio. The parameters are those of FluxGate.

    It can be created before there is an event loop, and used in several of them.
    """

    async def check(self, request: Request, *, timeout: float | None = None) -> Decision:
        """Decides a request and takes its tokens.

        A check that was sent is never sent again, since it may have taken its tokens, unless the server was busy and
        has taken none. If the caller is cancelled meanwhile, what the check takes is given back.
        """
        # The check goes on if its caller is cancelled: the receipt is needed to give back.
        checking = self._background(self._check(request, False, timeout))
        try:
            return await asyncio.shield(checking)
        except asyncio.CancelledError:
            self._background(self._give_back(checking))
            raise

    async def peek(self, request: Request, *, timeout: float | None = None) -> Decision:
        """Decides a request and takes nothing. Without a cost it only reads the state."""
        return await self._check(request, True, timeout)

    async def settle(self, receipt: str, cost: int | Usage, *, timeout: float | None = None) -> dict[str, Settlement]:
        """Settles a receipt, once. It returns what was given back and charged, by measure.

        A number is the cost under rules that count requests, where 0 withdraws the request under all rules; a usage is for
        all rules.
        """
        return await self._settle(receipt, cost, timeout)

    async def extend(self, receipt: str, *, timeout: float | None = None) -> str:
        """Renews the slots of a request that goes on. It returns the receipt to use from then on."""
        return await self._extend(receipt, timeout)

    def reservation(self, request: Request, *, timeout: float | None = None) -> AsyncReservation:
        """Takes the most that a request may cost, for an ``async with`` statement, and settles at its end.

        While the statement runs, slots of concurrent requests are renewed. A rejected request raises Rejected. After an
        exception the request stays charged at its estimate, unless ``report`` was called.
        """
        return AsyncReservation(self, request, timeout)

    async def close(self) -> None:
        """Closes the connections of this event loop, after what is given back in the background."""
        loop = asyncio.get_running_loop()
        while mine := [task for task in self._tasks if task.get_loop() is loop]:
            await asyncio.wait(mine)
        if loop in self._transports:
            await self._transports.pop(loop).aclose()

    def _open(self) -> None:
        # Connections cannot be used in another event loop.
        self._transports: dict[asyncio.AbstractEventLoop, httpx.AsyncHTTPTransport] = {}
        self._tasks: set[asyncio.Task[Any]] = set()  # a loop does not keep them
        # Parsing an address takes a quarter of the time of a check.
        self._urls = {path: httpx.URL(self._url + path) for path in ("/v1/check", "/v1/settle", "/v1/extend")}

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _send(self, path: str, body: bytes, until: float) -> Answer:
        # In a task of its own: the time ends the call, whatever the libraries below do when they are cancelled.
        exchange = self._background(self._exchange(path, body))
        try:
            return await asyncio.wait_for(asyncio.shield(exchange), until - time.monotonic())
        except Exception as why:  # httpx passes on errors of the libraries below it
            raise no_answer(why) from None
        finally:
            exchange.cancel()

    async def _exchange(self, path: str, body: bytes) -> Answer:
        text = bytearray()
        # Without the client of httpx, which adds redirects, cookies and a quarter of the time.
        request = httpx.Request("POST", self._urls[path], content=body, headers=self._headers)
        async with contextlib.aclosing(await self._transport().handle_async_request(request)) as response:
            async for chunk in response.aiter_raw():
                text += chunk
                if len(text) > MAX_ANSWER:
                    break
            return response.status_code, response.headers.get, bytes(text)

    def _transport(self) -> httpx.AsyncHTTPTransport:
        loop = asyncio.get_running_loop()
        if loop not in self._transports:
            for ended in [known for known in tuple(self._transports) if known.is_closed()]:
                self._transports.pop(ended, None)
            limits = httpx.Limits(max_connections=MAX_IDLE, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_TIME)
            # Without https:// there is no TLS to verify.
            self._transports[loop] = httpx.AsyncHTTPTransport(verify=self._tls or False, trust_env=False, limits=limits)
        return self._transports[loop]

    async def _give_back(self, check: asyncio.Task[Decision]) -> None:
        try:
            if receipt := (await check).receipt:
                await self._settle(receipt, 0)
        except FluxGateError as error:
            self._report(error)

    def _background(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # asyncio would log one that nobody waits for
        return task


class AsyncReservation(Reserved[AsyncFluxGate]):
    """A request that was let in, until the end of an ``async with`` statement."""

    async def __aenter__(self) -> AsyncReservation:
        self._begin(await self._limiter.check(self._request, timeout=self._timeout))
        return self

    async def __aexit__(self, *_: object) -> None:
        # It is settled also if the caller is cancelled meanwhile.
        await asyncio.shield(self._limiter._background(self._finish()))

    def _begin(self, decision: Decision) -> None:
        super()._begin(decision)
        self._stop = asyncio.Event()
        self._renewal = self._limiter._background(self._renew_until_end())

    async def _finish(self) -> None:
        self._stop.set()
        await self._renewal
        await self._end()

    async def _renew_until_end(self) -> None:
        pause, going = self._first, self._every > 0
        while going:
            try:
                await asyncio.wait_for(self._stop.wait(), pause)
                return
            except TimeoutError:
                pause, going = self._every, await self._renew()
