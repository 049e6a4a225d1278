"""What is shipped: the wheel and the source distribution, and the load program."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from servers import HERE, TOKEN, Gate

ROOT = HERE.parent
MODULES = {path.name for path in (ROOT / "src" / "fluxgate").iterdir() if path.suffix == ".py"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as pip does it, without the network."""
    target = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(target)], cwd=ROOT, check=True, capture_output=True)
    return target


def test_wheel(dist: Path, tmp_path: Path) -> None:
    [wheel] = dist.glob("*.whl")
    assert wheel.stat().st_size <= 40 << 10
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("fluxgate/")}
        assert names == {f"fluxgate/{name}" for name in MODULES | {"py.typed"}}
        archive.extractall(tmp_path)
    [license] = (path for path in tmp_path.rglob("LICENSE*"))
    assert license.read_text() == (ROOT / "LICENSE").read_text() == (ROOT.parent.parent / "LICENSE").read_text()
    # The blocking client needs the standard library alone: -S hides all other modules.
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import fluxgate; print(fluxgate.FluxGate.__name__)"
    done = subprocess.run([sys.executable, "-S", "-I", "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "FluxGate\n"


def test_source_distribution(dist: Path) -> None:
    [source] = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/fluxgate/{name}" for name in MODULES} | {"LICENSE", "README.md", "pyproject.toml", "src/fluxgate/py.typed"} <= names
    assert not any(name.startswith(("tests", "build")) for name in names)


def test_bench(gate: Gate) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "bench.py"), gate.url, TOKEN, "0.2"], check=True, capture_output=True, text=True)
    rates = [line.split() for line in done.stdout.splitlines()]
    assert [rate[0] for rate in rates] == ["blocking", "async"] and all(int(rate[1]) > 0 for rate in rates)
