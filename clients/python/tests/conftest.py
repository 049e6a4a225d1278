from __future__ import annotations

from typing import Iterator

import pytest

from servers import Gate, Servers


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    started = Servers()
    yield started
    started.end()


@pytest.fixture(scope="session")
def redis(servers: Servers) -> str:
    return servers.redis()


@pytest.fixture(scope="session")
def gate(servers: Servers, redis: str) -> Gate:
    """The server of the conformance cases."""
    return servers.gate(redis)
