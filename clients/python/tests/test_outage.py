"""An application on a real uvicorn under load while its FluxGate server is frozen, killed, busy and restarted."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from fluxgate import FluxGate, Request
from outage_app import TIMEOUT
from servers import HERE, TOKEN, Gate, Servers, eventually, free_port, http_server, reply

CALLERS = 16  # of each of two applications
FROZEN = 5.0  # how long the server does not answer, in seconds
MARGIN = 0.05  # how much longer than its deadline a request may take


@dataclass(frozen=True)
class Call:
    phase: str
    user: str
    status: int
    degraded: bool
    took: float


class Load:
    """Callers that send requests one after the other, each with a user of its own."""

    def __init__(self, port: int) -> None:
        self.port, self.phase, self.calls, self.going = port, "", list[Call](), True
        self.failures: list[BaseException] = []
        self.threads = [threading.Thread(target=self.caller, args=(n,)) for n in range(CALLERS)]
        for thread in self.threads:
            thread.start()

    def caller(self, n: int) -> None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            for i in range(1_000_000):
                if not self.going:
                    return
                time.sleep(0.1)
                user, phase, begin = f"outage-{self.port}-{n}-{i}", self.phase, time.monotonic()
                connection.request("GET", "/api/orders", headers={"X-User": user})
                answer = connection.getresponse()
                body = json.loads(answer.read())
                took = time.monotonic() - begin
                if answer.status == 503:
                    assert body["reason"] == "store-failure"
                # A request that was sent in one phase and answered in another belongs to neither.
                self.calls.append(Call(phase if phase == self.phase else "between", user, answer.status, body.get("degraded", True), took))
        except BaseException as failure:
            self.failures.append(failure)

    def end(self) -> None:
        self.going = False
        for thread in self.threads:
            thread.join(60)
        assert not self.failures, self.failures


def run_faults(loads: list[Load], servers: Servers, redis: str, gate: Gate) -> Gate:
    def during(phase: str, seconds: float) -> None:
        for load in loads:
            load.phase = phase
        time.sleep(seconds)
        for load in loads:
            load.phase = "between"

    def decides() -> None:
        """Waits until the server decides requests that were sent from now on. A slow machine may need longer."""
        marks = [len(load.calls) + CALLERS for load in loads]
        eventually("the server decides", lambda: all(any(not call.degraded for call in load.calls[mark:]) for load, mark in zip(loads, marks)), 60)

    decides()
    during("healthy", 1)
    gate.signal(signal.SIGSTOP)
    time.sleep(2 * TIMEOUT)
    during("frozen", FROZEN)
    gate.signal(signal.SIGCONT)
    decides()
    during("thawed", 1)
    gate.process.kill()
    gate.process.wait()
    time.sleep(2 * TIMEOUT)
    during("killed", 1.5)

    def busy(request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        reply(request, {"status": 503, "detail": "The server is starting."}, 503, Retry_After="1")

    with http_server(busy, gate.port):
        time.sleep(2 * TIMEOUT)
        during("busy", 1.5)
    restarted = servers.gate(redis, port=gate.port)
    decides()
    during("restarted", 1)
    return restarted


def test_outage(servers: Servers, redis: str) -> None:
    gate, loads = servers.gate(redis), dict[str, Load]()
    for mode in ("allow", "deny", "sleep"):
        port = free_port()
        environment = {**os.environ, "PYTHONPATH": f"{HERE.parent / 'src'}:{HERE}", "FLUXGATE_URL": gate.url, "MODE": mode}
        servers.start([sys.executable, "-m", "uvicorn", "outage_app:app", "--port", str(port), "--log-level", "critical", "--backlog", "512"], port, environment)
        loads[mode] = Load(port)
    sleeping = loads.pop("sleep")
    try:
        restarted = run_faults(list(loads.values()), servers, redis, gate)
    finally:
        for load in (*loads.values(), sleeping):
            load.end()
    slept = max(call.took for call in sleeping.calls)
    print(f"slept: {len(sleeping.calls)} requests, slowest {slept:.3f}s")
    for mode, load in loads.items():
        compare(mode, load.calls, slept)
        counted_once(restarted, load.calls)


def compare(mode: str, calls: list[Call], slept: float) -> None:
    """What requests took longer that only slept for the timeout is the machine's: the others wake up three times as often."""
    by_phase = {phase: [call for call in calls if call.phase == phase] for phase in {call.phase for call in calls}}
    for phase, of in by_phase.items():
        slowest = sorted(call.took for call in of)
        counts = Counter((call.status, "degraded" if call.degraded else "decided") for call in of)
        print(f"{mode} {phase}: {len(of)} requests, median {slowest[len(of) // 2]:.3f}s, slowest {slowest[-1]:.3f}s, {dict(counts)}")
    assert max(call.took for call in calls) < TIMEOUT + MARGIN + 3 * (slept - TIMEOUT)
    assert {call.status for call in calls if call.degraded} == {200 if mode == "allow" else 503}
    assert {call.status for call in calls if not call.degraded} == {200}
    for phase in ("frozen", "killed", "busy"):
        assert by_phase[phase] and all(call.degraded for call in by_phase[phase]), phase


def counted_once(gate: Gate, calls: list[Call]) -> None:
    """Every request has taken one token at most, and one if the server decided it."""
    limiter = FluxGate(gate.url, token=TOKEN, on_failure="raise", timeout=20)
    sample = [call for call in calls if call.phase in ("between", "frozen", "killed", "busy")][-200:] + calls[:50]
    for call in sample:
        taken = 10 - limiter.peek(Request(user_id=call.user, path="/api/orders")).remaining
        assert taken in ((0, 1) if call.degraded else (1,)), (call, taken)
    limiter.close()
