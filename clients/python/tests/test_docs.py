"""The code of README.md and docs/clients.md runs, and prints what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from servers import HERE, TOKEN, Servers

ROOT = HERE.parent
README = (ROOT / "README.md").read_text()
PAGE = (ROOT.parent.parent / "docs" / "clients.md").read_text().partition("\n## Python\n")[2].partition("\n## ")[0]
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


EXAMPLE = """\
  tokens: 3710 given back, 0 charged
  usd: 2221 given back, 0 charged
an answer to 3 words
  tokens: 1600 given back, 0 charged
  usd: 915 given back, 0 charged
an answer to 25 words
  tokens: 0 given back, 320 charged
  usd: 0 given back, 273 charged
an answer to 45 words
rejected by money.daily: 608 left
"""


# The programs have the default timeout of half a second. On a busy machine, the first call of a process takes longer.
PATIENT = "import fluxgate.core, sys; fluxgate.core.Core.__init__.__kwdefaults__['timeout'] = 30; exec(sys.argv[1])"


def run(program: str, url: str) -> str:
    command = [sys.executable, "-c", PATIENT, program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "FLUXGATE_URL": url, "FLUXGATE_TOKEN": TOKEN}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return re.sub(r" 179\d$", " 1800", done.stdout, flags=re.M)  # Retry-After, some seconds later


@pytest.fixture(scope="module")
def url(servers: Servers, redis: str) -> str:
    rules = README.partition("```yaml\n")[2].partition("```")[0]
    return servers.gate(redis, rules, "ratelimit.default-rule-set-id=api-limits").url


@pytest.mark.parametrize("number", range(len(BLOCK.findall(README))))
def test_readme(url: str, number: int) -> None:
    program, printed = BLOCK.findall(README)[number]
    assert run(program, url) == printed


def test_page(url: str) -> None:
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == 2
    for program, printed in blocks:
        assert run(program.replace('"https://fluxgate.example.com:8080"', repr(url)).replace("token=token", f"token={TOKEN!r}"), url) == printed


def test_example(servers: Servers, redis: str) -> None:
    rules = (ROOT / "examples" / "rules.yaml").read_text()
    url = servers.gate(redis, rules, "ratelimit.default-rule-set-id=models").url
    assert run((ROOT / "examples" / "model.py").read_text(), url) == EXAMPLE
