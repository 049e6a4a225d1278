"""The response headers and the problem document of a decision, as the middleware for Go writes them."""

from __future__ import annotations

import math
from typing import Any

from .wire import Band, Decision

_MAX_ENTRIES, _MAX_INTEGER = 8, 999_999_999_999_999  # the latter is that of structured fields

_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1))

_PLAIN: dict[str, tuple[int, str]] = {
    "denied": (403, "A rule rejects this request."),
    "bad-path": (400, "The path is too long or can be read in more than one way: send it without #, backslash, %2F, dot segments and empty segments."),
    "too-many-rules": (403, "More rules apply to this request than can be counted."),
    "missing-identity": (403, "The request has no identity, and a rule requires one."),
    "no-rule": (403, "No rule allows this request."),
    "no-rule-set": (503, "There is no rule set for this request."),
    "store-failure": (503, "The request cannot be counted now."),
}
_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
_TITLES = {400: "Bad Request", 403: "Forbidden", 503: "Service Unavailable"}


def rate_limit_headers(d: Decision) -> dict[str, str]:
    headers = {} if d.allowed or d.retry_after_ms <= 0 else {"Retry-After": str(_seconds(d.retry_after_ms))}
    if not d.band:
        return headers
    headers |= {"X-RateLimit-Limit": str(d.limit), "X-RateLimit-Remaining": str(d.remaining)}
    if d.time_ms:
        headers["X-RateLimit-Reset"] = str(_seconds(d.time_ms + d.reset_after_ms))
    # The registered units are requests, bytes and concurrent requests: clients take tokens and money for requests.
    entries = [(name, b) for name, b in _named(d) if b.status not in ("unavailable", "not asked") and (not b.measure or b.kind == "concurrency")]
    binding = [entry for entry in entries[_MAX_ENTRIES:] if entry[0] == _policy_name(d.rule, d.band)]
    entries = entries[: _MAX_ENTRIES - len(binding)] + binding
    if entries:
        headers["RateLimit"] = ", ".join(f'"{name}";r={min(b.remaining, _MAX_INTEGER)}{_reset(b, d)}' for name, b in entries)
        headers["RateLimit-Policy"] = ", ".join(_policy(name, b) for name, b in entries)
    return headers


def problem_of(d: Decision) -> dict[str, Any]:
    """The problem document of a rejection, as in RFC 9457."""
    if d.reason in _PLAIN:
        status, detail = _PLAIN[d.reason]
        return {"title": _TITLES[status], "status": status, "detail": detail, "reason": d.reason}
    problem = {"type": _EXCEEDED, "title": "Request cannot be satisfied as assigned quota has been exceeded", "status": 429, "reason": d.reason}
    if not d.band:
        return problem
    binding = _policy_name(d.rule, d.band)
    violated = [name for name, b in _named(d) if (b.status == "rejected" and b.wait_ms) or (b.status == "too costly" and b.cost > b.limit)]
    return problem | {"detail": _exceeded(d, binding), "violated-policies": list(dict.fromkeys([binding, *violated]))[:_MAX_ENTRIES]}


def _exceeded(d: Decision, binding: str) -> str:
    cost = next((b.cost for b in reversed(d.bands) if b.rule == d.rule and not b.shadow), 1)
    if d.reason == "cost-too-high":
        return f"The request costs {cost}, but {binding} holds at most {d.limit}: it is never allowed."
    state = f"owes {d.owed} token{'s' if d.owed > 1 else ''}" if d.owed else f"has {d.remaining} of {d.limit} left"
    again = f" Try again in {_seconds(d.retry_after_ms)}s." if d.retry_after_ms > 0 else ""
    return f"{binding} {state}, and the request costs {cost}.{again}"


def _seconds(ms: float) -> int:
    return math.ceil(ms / 1000)


def _named(d: Decision) -> list[tuple[str, Band]]:
    """The bands that headers and problem documents show, by their names."""
    return [(_policy_name(b.rule, b.label or _numbers(b)), b) for b in d.bands if not b.shadow]


def _policy_name(rule: str, band: str) -> str:
    """The name of a limit: with a slash where it would else be that of another, because the rule or the band has a dot."""
    return f"{rule}/{band}" if "." in rule + band else f"{rule}.{band}"


def _numbers(b: Band) -> str:
    """The name of a band without a label, such as 100-per-1m."""
    if b.kind == "concurrency":
        return f"{b.capacity}-at-once"
    if b.kind == "quota":
        return f"{b.capacity}-per-{b.period}"
    us = round(b.refill_ms * 1000)
    suffix, length = next(unit for unit in _UNITS if us % unit[1] == 0)
    return f"{b.refill_tokens or b.capacity}-per-{us // length}{suffix}"


def _reset(b: Band, d: Decision) -> str:
    """When more is left, unless it is unknown, there cannot be more, or a rejected request can be sent again before."""
    if not b.more_after_ms or 0 < d.retry_after_ms < b.more_after_ms:
        return ""
    left = max(0.0, b.more_after_ms - d.wait_ms)
    overflows = left < 1000 and b.kind != "quota" and _window(b) < 1000  # in a second
    return f";t={0 if overflows else _seconds(left)}"


def _window(b: Band) -> float:
    """How long an empty token bucket or sliding window takes to become full, in milliseconds."""
    return b.refill_ms * b.capacity / (b.refill_tokens or b.capacity or 1)


def _policy(name: str, b: Band) -> str:
    unit = ';qu="concurrent-requests"' if b.kind == "concurrency" else ""
    window = "" if b.kind in ("quota", "concurrency") or _window(b) < 1000 else f";w={_seconds(_window(b))}"
    return f'"{name}";q={min(b.limit, _MAX_INTEGER)}{unit}{window}'
