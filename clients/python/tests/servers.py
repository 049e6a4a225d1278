"""Real servers for the tests: redis-server, fluxgate, uvicorn, and scripts that answer like a bad server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import socketserver
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Iterator, cast

import hypercorn.asyncio
import hypercorn.config
import uvicorn

HERE = Path(__file__).parent
CONFORMANCE = HERE.parent.parent / "conformance"
PROGRAM, HARNESS = HERE.parent / "build" / "fluxgate", HERE.parent / "build" / "harness"  # make client-python builds them
TOKEN = "token-of-a-gateway"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def eventually(what: str, holds: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"not within {seconds} seconds: {what}"
        time.sleep(0.01)


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Servers:
    """Starts processes in a folder of their own, and ends them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fluxgate-python-")
        self.folder = Path(self._folder.name)
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str], port: int, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, env=environment)
        self._processes.append(process)

        def listens() -> bool:
            assert process.poll() is None, f"{command[0]} has ended with {process.returncode}"
            return accepts(port)

        eventually(f"{command[0]} listens", listens)
        return process

    def redis(self) -> str:
        port = free_port()
        self.start(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)], port)
        return f"redis://127.0.0.1:{port}"

    def gate(self, redis: str, rules: str | None = None, *sets: str, port: int = 0) -> Gate:
        """A server of the conformance cases, or with these rules."""
        port = port or free_port()
        file = CONFORMANCE / "rules.yaml"
        if rules is not None:
            file = self.folder / f"rules-{port}.yaml"
            file.write_text(rules)
        options = [f"rules.file={file}", f"server.http=127.0.0.1:{port}", f"redis.uri={redis}", "log.level=error", "redis.timeout=10s", *sets]
        command = [str(PROGRAM), "serve", "--config", str(CONFORMANCE / "fluxgate.yaml")]
        for option in options:
            command += ["--set", option]
        return Gate(f"http://127.0.0.1:{port}", port, self.start(command, port))

    def harness(self) -> str:
        port = free_port()
        self.start([str(HARNESS), f"127.0.0.1:{port}", str(CONFORMANCE / "cases.json")], port)
        return f"http://127.0.0.1:{port}"

    def end(self) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        self._folder.cleanup()


class Gate:
    def __init__(self, url: str, port: int, process: subprocess.Popen[bytes]) -> None:
        self.url, self.port, self.process = url, port, process

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)


Handler = Callable[[BaseHTTPRequestHandler, str, bytes], None]


@contextlib.contextmanager
def http_server(handle: Handler, port: int = 0) -> Iterator[str]:
    """An HTTP/1.1 server that calls handle(request, path, body)."""

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            handle(self, self.path, self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            connections.append(request)
            super().process_request_thread(request, client_address)

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    connections: list[socket.socket] = []
    server = Server(("127.0.0.1", port), Requests)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        for connection in connections:  # their threads would go on answering on them
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def reply(request: BaseHTTPRequestHandler, body: object, status: int = 200, **headers: str) -> None:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    request.send_response(status)
    kind = "application/json" if status == 200 else "application/problem+json"
    for name, value in {"Content-Type": kind, "Content-Length": str(len(text)), **headers}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(text)


@contextlib.contextmanager
def raw_server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A TCP server that calls answer(connection) after the first bytes of each connection."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                if self.request.recv(65536):
                    answer(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    server = Server(("127.0.0.1", 0), Connection)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def uvicorn_server(app: Any, **options: Any) -> Iterator[str]:
    """An application on a real uvicorn, in a thread."""
    port = free_port()
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical", backlog=512, **{"proxy_headers": False, **options})
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually("uvicorn has started", lambda: bool(server.started))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "uvicorn does not end"


@contextlib.contextmanager
def hypercorn_server(app: Any, **options: Any) -> Iterator[str]:
    """An application on a real hypercorn, in a thread: it speaks HTTP/2 without TLS too."""
    port = free_port()
    config = hypercorn.config.Config()
    config.bind, config.errorlog = [f"127.0.0.1:{port}"], None
    for name, value in options.items():
        setattr(config, name, value)
    runner, ended = asyncio.Runner(), asyncio.Event()
    loop, trigger = runner.get_loop(), cast(Any, ended.wait)
    tasks: list[asyncio.Task[Any]] = []

    def keep(loop: asyncio.AbstractEventLoop, call: Any, **options: Any) -> asyncio.Task[Any]:
        """hypercorn has no reference to some tasks: Python may collect them before they end, and reports that in any test."""
        tasks.append(asyncio.Task(call, loop=loop, **options))
        return tasks[-1]

    loop.set_task_factory(keep)

    def serve() -> None:
        with runner:  # which cancels what hypercorn leaves behind
            runner.run(hypercorn.asyncio.serve(app, config, shutdown_trigger=trigger))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    eventually("hypercorn has started", lambda: accepts(port))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(20)
        assert not thread.is_alive(), "hypercorn does not end"
