"""The address of the client behind the proxies that you run, so that no caller can choose the bucket it is counted in."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Iterator, Sequence

Address = IPv4Address | IPv6Address

# The widest networks that can be trusted: 10.0.0.0/8 and fc00::/7 are the widest of one owner.
_WIDEST = {4: 8, 6: 7}
_MAX_ADDRESS, _MAX_ENTRIES, _MAX_BYTES = 128, 32, 4096

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# An address with a port, of which RFC 7239 allows names too. Without brackets only IPv4 can have one.
_HOST = re.compile(rf"(?:\[(?P<six>[^\]]*:[^\]]*)\]|(?P<four>[^:\[][^:]*)(?=:|\Z)|(?P<bare>[^\[].*\Z))(?::(?:[0-9]{{1,5}}|_{_TOKEN}))?", re.DOTALL)
_PARAMETER = re.compile(rf'[ \t]*(?:(?P<name>{_TOKEN})=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^"; \t]+))[ \t]*)?(?:;|\Z)', re.DOTALL)


class ClientIP:
    """Finds the client's address, as the package clientip for Go does. Without trusted proxies it is the peer's.

    Trusted proxies are addresses and networks, such as "192.0.2.10" and "10.1.0.0/16". They name the client in one header:
    "X-Forwarded-For", the default, "Forwarded" (RFC 7239), or another one with a single address that every trusted
    proxy overwrites, such as "CF-Connecting-IP". No other header is read.
    """

    def __init__(self, trusted_proxies: Sequence[str] = (), header: str = "", *, trust_unix_socket: bool = False) -> None:
        if header and not trusted_proxies and not trust_unix_socket:
            raise ValueError(f'header "{header}" is never read without trusted proxies: set them')
        if header and not re.fullmatch(_TOKEN, header):
            raise ValueError(f'invalid header name "{header}"')
        self.header = (header or "X-Forwarded-For").lower()
        self._trust_unix = trust_unix_socket
        self._networks = {_network(proxy) for proxy in trusted_proxies}
        self._sizes = {network[:2] for network in self._networks}

    def resolve(self, peer: str, lines: Sequence[str]) -> str:
        """The client's address, or an empty text if it is unknown.

        ``peer`` is the address at the other end of the connection, empty for a unix socket; ``lines`` are those of the header.
        """
        address = _address(peer)
        if self._trusts(address) if peer else self._trust_unix:
            if self.header in ("x-forwarded-for", "forwarded"):
                address = self._walk(address, lines)
            elif len(lines) == 1:  # one of two lines may be the client's
                address = _address(lines[0].strip(" \t")) or address
        return str(address or "")

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any((v, bits, _prefix(address, bits)) in self._networks for v, bits in self._sizes if v == address.version)

    def _walk(self, address: Address | None, lines: Sequence[str]) -> Address | None:
        """Reads a chain from the right, which the nearest proxy wrote, to the first address that is not trusted.

        An entry that is not an address ends it with the address of the proxy that wrote the entry.
        """
        left = _MAX_BYTES
        for count, entry in enumerate(_from_right(lines)):
            left -= len(entry) + 1
            entry = entry.strip(" \t")
            before = _address(_forwarded_for(entry) if self.header == "forwarded" else entry)
            if count == _MAX_ENTRIES or left < 0 or before is None:
                break
            address = before
            if not self._trusts(address):
                break
        return address


def _from_right(lines: Sequence[str]) -> Iterator[str]:
    """The entries of lists with commas between them. Commas in quoted strings do not count.

    A parser of RFC 7239 reads from the left, but there the text is the client's: a quote that it opens and never closes
    would hide the entries of the proxies. Theirs are well-formed, and both directions read them alike.
    """
    for line in reversed(lines):
        rest = line[-_MAX_BYTES - 1 :]  # what is further left is not read
        end, quoted = len(rest), False
        for i in range(len(rest) - 1, -1, -1):
            if rest[i] == "," and not quoted:
                yield rest[i + 1 : end]
                end = i
            elif rest[i] == '"' and (not quoted or i == 0 or rest[i - 1] != "\\"):
                quoted = not quoted
        yield rest[:end]


def _forwarded_for(element: str) -> str:
    """The value of the one parameter "for" of an element, or an empty text if there is none or the element is malformed."""
    values, at = [], 0
    while at < len(element):
        part = _PARAMETER.match(element, at)
        if not part:
            return ""
        if (part["name"] or "").lower() == "for":
            values.append(part["plain"] if part["quoted"] is None else re.sub(r"\\(.)", r"\1", part["quoted"], flags=re.DOTALL))
        at = part.end()
    return values[0] if len(values) == 1 else ""


def _address(text: str) -> Address | None:
    """An address with or without brackets, port and zone, alone. 0.0.0.0 and :: are not accepted."""
    match = _HOST.fullmatch(text) if len(text) <= _MAX_ADDRESS else None
    host, percent, zone = (match["six"] or match["four"] or match["bare"] if match else "").partition("%")
    try:
        address = _unmapped(ip_address(host))
    except ValueError:
        return None
    return None if address.is_unspecified or (percent and (not zone or ":" not in host)) else address


def _unmapped(address: Address) -> Address:
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _prefix(address: Address, bits: int) -> int:
    return int(address) >> (address.max_prefixlen - bits)


def _network(text: str) -> tuple[int, int, int]:
    """The version, size and prefix of a trusted proxy. Raises ValueError if it is invalid, or too wide for proxies."""
    host, slash, size = text.partition("/")
    try:
        given = ip_address(host)
        bits = int(size) if slash else given.max_prefixlen
        valid = "%" not in text and bits <= given.max_prefixlen and size == (str(bits) if slash else "")
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f'trusted proxy "{text}" is neither an address such as 192.0.2.10 nor a network such as 10.1.0.0/16')
    address = _unmapped(given)
    bits -= given.max_prefixlen - address.max_prefixlen
    if bits < _WIDEST[address.version]:
        raise ValueError(f'trusted proxy "{text}" is too wide: the widest network of proxies is /{_WIDEST[address.version]}')
    if int(address) != _prefix(address, bits) << (address.max_prefixlen - bits) or (bits == address.max_prefixlen and address.is_unspecified):
        raise ValueError(f'trusted proxy "{text}" has bits beyond its prefix, or is not an address of a host')
    return address.version, bits, _prefix(address, bits)
