"""The client's address, with the cases of the package clientip for Go."""

from __future__ import annotations

import pytest

from fluxgate import ClientIP

PROXIES = ["10.0.0.0/8", "2001:db8:aaaa::/48"]
NEAREST = "10.0.0.1"


@pytest.mark.parametrize(
    "peer,lines,client",
    [
        ("192.0.2.7", ["198.51.100.1"], "192.0.2.7"),  # a peer that is not trusted
        (NEAREST, [], NEAREST),
        (NEAREST, ["192.0.2.7"], "192.0.2.7"),
        (NEAREST, ["1.1.1.1, 192.0.2.7"], "192.0.2.7"),  # what the client claims
        (NEAREST, ["2001:db8::7, 10.0.0.2"], "2001:db8::7"),
        (NEAREST, ["192.0.2.7", "10.0.0.2"], "192.0.2.7"),
        (NEAREST, ["[fe80::7%eth0]:4711, 10.0.0.2:80"], "fe80::7"),
        (NEAREST, ["fe80::7%eth0"], "fe80::7"),
        (NEAREST, ["192.0.2.7:_hidden"], NEAREST),
        (NEAREST, ["::ffff:192.0.2.7, ::ffff:10.0.0.2"], "192.0.2.7"),
        (NEAREST, ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),  # every address is trusted
        (NEAREST, ["\t192.0.2.7 "], "192.0.2.7"),
        *[
            (NEAREST, [f"1.1.1.1, {entry}"], NEAREST)
            for entry in [
                "", "unknown", "_hidden", "192.0.2.07", "0xC0.0.2.7", "3221225991", "192.0.2", "192.0.2.7:", "192.0.2.7:123456", "192.0.2.7:x", "[192.0.2.7]", "[::1", "::1]", "[]", "0.0.0.0", "::",
                "[::ffff:0.0.0.0]", "192.0.2.7%eth0", "fe80::7%", "192.0.2.7\x00", "１９２.0.2.7", "192.0.2.7 192.0.2.8", '"192.0.2.7"', "for=192.0.2.7", "192.0.2.7/32", "1" * 200,
            ]
        ],
        (NEAREST, ['"1.1.1.1, 192.0.2.7'], "192.0.2.7"),  # a quote that the client opens hides nothing
        (NEAREST, ["1.1.1.1, " + ", ".join(["10.0.0.2"] * 31)], "1.1.1.1"),
        (NEAREST, ["1.1.1.1, " + ", ".join(["10.0.0.2"] * 32)], "10.0.0.2"),  # at most 32 entries
        (NEAREST, ["1.1.1.1," + " " * 4090 + "10.0.0.2"], NEAREST),  # at most 4 KiB
        (NEAREST, ["1.1.1.1" * 600], NEAREST),
        (NEAREST, ["x" * 10 + "1.1.1.1," + " " * 4080 + "10.0.0.2"], "10.0.0.2"),  # an entry that the bound cuts
        ("2001:db8:aaaa::1", ["192.0.2.7"], "192.0.2.7"),
        ("::ffff:10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("unknown", ["192.0.2.7"], ""),
        ("", ["192.0.2.7"], ""),
    ],
)  # fmt: skip
def test_chain(peer: str, lines: list[str], client: str) -> None:
    assert ClientIP(PROXIES).resolve(peer, lines) == client


def test_no_proxies() -> None:
    assert ClientIP().resolve("192.0.2.7", ["1.1.1.1"]) == "192.0.2.7"
    assert ClientIP().resolve("", ["1.1.1.1"]) == ""


def test_unix_socket() -> None:
    assert ClientIP(trust_unix_socket=True).resolve("", ["192.0.2.7"]) == "192.0.2.7"
    assert ClientIP(trust_unix_socket=True).resolve("", ["unknown"]) == ""
    assert ClientIP(trust_unix_socket=True).resolve("192.0.2.8", ["192.0.2.7"]) == "192.0.2.8"


def test_single_address() -> None:
    cdn = ClientIP(PROXIES, "CF-Connecting-IP")
    assert cdn.header == "cf-connecting-ip"
    assert cdn.resolve(NEAREST, ["192.0.2.7"]) == "192.0.2.7"
    assert cdn.resolve("192.0.2.8", ["192.0.2.7"]) == "192.0.2.8"
    many: list[list[str]] = [[], ["192.0.2.7", "192.0.2.9"], ["192.0.2.7, 192.0.2.9"], ["unknown"]]
    for lines in many:
        assert cdn.resolve(NEAREST, lines) == NEAREST


@pytest.mark.parametrize(
    "proxy",
    [
        "", "proxy.example.com", "10.0.0.1:80", " 10.0.0.1", "010.0.0.1", "10.0.0.1,10.0.0.2", "10.0.0.0/33", "10.0.0.0/255.0.0.0", "10.0.0.0/", "10.0.0.0/0x8", "fe80::1%eth0", "fe80::%eth0/64",
        "10.1.2.3/16", "::ffff:10.1.2.3/112", "0.0.0.0/0", "128.0.0.0/1", "10.0.0.1/0", "::/0", "2000::/3", "::ffff:0.0.0.0/96", "::ffff:0.0.0.0/95", "0.0.0.0", "::",
    ],
)  # fmt: skip
def test_invalid_proxies(proxy: str) -> None:
    with pytest.raises(ValueError):
        ClientIP([proxy])


def test_invalid_headers() -> None:
    for header in ("X Real IP", "X-Real-IP:", "X-Réal-IP", "Forwarded", "X-Real-IP\n"):
        with pytest.raises(ValueError):
            ClientIP(PROXIES, header)
    with pytest.raises(ValueError):
        ClientIP(header="X-Forwarded-For")
    with pytest.raises(ValueError):
        ClientIP("10.0.0.1")  # a list in one string


def test_networks() -> None:
    for proxy, inside, outside in [
        ("192.0.2.10", "::ffff:192.0.2.10", "192.0.2.11"),
        ("::1", "::1", "::2"),
        ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
        ("fc00::/7", "fdff::1", "fe00::1"),
        ("::ffff:10.0.0.0/104", "10.255.0.1", "11.0.0.1"),
    ]:
        assert ClientIP([proxy]).resolve(inside, ["203.0.113.99"]) == "203.0.113.99"
        assert ClientIP([proxy]).resolve(outside, ["203.0.113.99"]) != "203.0.113.99"
