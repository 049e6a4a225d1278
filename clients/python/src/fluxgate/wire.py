"""The requests and answers of the HTTP API, and their JSON."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Mapping, Sequence, TypeVar, cast

T = TypeVar("T")

MAX_REQUEST = 256 << 10
"""The longest body in bytes that is sent."""


@dataclass
class Estimate:
    """What a request may use of a language model."""

    model: str = ""
    input_tokens: int = 0
    max_output_tokens: int | Sequence[int] | None = None
    """The most tokens of the answer, or a list of maxima. The default is the model's."""


@dataclass
class Request:
    """What is known about a request. Every field is optional."""

    rule_set: str = ""
    ip: str = ""
    user_id: str = ""
    api_key: str = field(default="", repr=False)
    method: str = ""
    path: str = ""
    """The path as it was sent, without the query."""
    host: str = ""
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict)
    descriptor: Sequence[Mapping[str, str]] = ()
    """Entries such as ``{"key": "route", "value": "login"}``."""
    cost: int | None = None
    """How many tokens it takes under rules that count requests. The default is 1."""
    costs: Mapping[str, int] = field(default_factory=dict)
    """The most it may cost under rules with other measures."""
    estimate: Estimate | None = None


@dataclass
class Usage:
    """What a request has used. At least one number is required; it may be 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    costs: Mapping[str, int] = field(default_factory=dict)
    """Costs by measure. They replace what the tokens cost."""


@dataclass(frozen=True)
class Band:
    """The state of one limit of a decision. Empty texts and 0 mean that the server has not sent the field."""

    rule: str
    status: str
    source: str
    limit: int
    remaining: int
    capacity: int
    label: str = ""
    shadow: bool = False
    measure: str = ""
    cost: int = 1
    owed: int = 0
    wait_ms: float = 0
    more_after_ms: float = 0
    full_after_ms: float = 0
    refill_tokens: int = 0
    refill_ms: float = 0
    kind: str = ""
    period: str = ""
    timezone: str = ""
    hold_ms: float = 0


@dataclass(frozen=True)
class Decision:
    """The answer to a request. Empty texts and 0 mean that the server has not sent the field."""

    allowed: bool
    reason: str
    remaining: int
    rule: str = ""
    band: str = ""
    limit: int = 0
    owed: int = 0
    reset_after_ms: float = 0
    retry_after_ms: float = 0
    wait_ms: float = 0
    time_ms: float = 0
    source: str = ""
    degraded: bool = False
    """The store was unavailable for at least one rule, or the server has not decided."""
    bands: tuple[Band, ...] = ()
    receipt: str = field(default="", repr=False)


@dataclass(frozen=True)
class Settlement:
    """How many tokens were given back and charged."""

    returned: int
    charged: int


def encode(body: Mapping[str, object]) -> bytes:
    """The JSON of a body. Raises ValueError, without values, if it cannot be sent."""
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, default=plain).encode()
    except (TypeError, ValueError, RecursionError):
        # A surrogate too: the server would replace it, and two callers would become one.
        raise ValueError("a value is not possible in JSON, or not valid Unicode") from None
    if len(text) > MAX_REQUEST:
        raise ValueError(f"it has more than {MAX_REQUEST} bytes")
    return text


def plain(value: Request | Estimate | Usage) -> dict[str, Any]:
    """The fields that are set."""
    every = ((f.name, getattr(value, f.name)) for f in fields(value))
    return {_camel(name): of for name, of in every if of is not None and of != "" and of != () and of != {}}


def _camel(name: str) -> str:
    return name[0] + name.title().replace("_", "")[1:]


_ID = re.compile(r"[A-Za-z0-9_.-]{0,128}")
_IDS = ("rule", "band", "label", "measure", "period")  # they become a part of headers
_TYPES: dict[str, Any] = {"str": str, "bool": bool, "int": int, "float": (int, float)}


def read(cls: type[T], value: object) -> T:
    """An answer: known fields of known types only, whatever the other side has sent. Raises ValueError."""
    sent: dict[str, Any] = value if isinstance(value, dict) else {}
    known: dict[str, Any] = {}
    for f in fields(cast(Any, cls)):  # T is one of the classes above
        of: Any = sent.get(_camel(f.name))
        kind = str(f.type)
        if of is None and f.default is not MISSING:
            continue
        if f.name == "bands" and isinstance(of, list):
            of = tuple(read(Band, band) for band in of)
        # Counts and times are not negative, infinite or NaN.
        elif not isinstance(of, _TYPES.get(kind, ())) or isinstance(of, bool) != (kind == "bool") or (kind in ("int", "float") and not 0 <= of < 2**63):
            raise ValueError(f"{f.name} is missing, or has a wrong type")
        elif f.name in _IDS and not _ID.fullmatch(of):
            raise ValueError(f"{f.name} is not an id")
        known[f.name] = of
    return cls(**known)
