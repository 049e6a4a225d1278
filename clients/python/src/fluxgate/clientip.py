"""The address of the client behind the proxies that you run, so that no caller can choose the bucket it is counted in."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Sequence

Address = IPv4Address | IPv6Address

# The widest networks that can be trusted: 10.0.0.0/8 and fc00::/7 are the widest of one owner.
_WIDEST = {4: 8, 6: 7}
_MAX_ADDRESS, _MAX_ENTRIES, _MAX_BYTES = 128, 32, 4096

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# An address with or without a port. Without brackets only IPv4 can have one.
_HOST = re.compile(r"(?:\[(?P<six>[^\]]*:[^\]]*)\]|(?P<four>[^:\[][^:]*)(?=:|\Z)|(?P<bare>[^\[].*\Z))(?::[0-9]{1,5})?", re.DOTALL)


class ClientIP:
    """Finds the client's address, as the package clientip for Go does. Without trusted proxies it is the peer's.

    Trusted proxies are addresses and networks, such as "192.0.2.10" and "10.1.0.0/16". They name the client in one header:
    "X-Forwarded-For", the default, or another one with a single address that every trusted proxy overwrites, such as
    "CF-Connecting-IP". No other header is read.
    """

    def __init__(self, trusted_proxies: Sequence[str] = (), header: str = "", *, trust_unix_socket: bool = False) -> None:
        if header and not trusted_proxies and not trust_unix_socket:
            raise ValueError(f'header "{header}" is never read without trusted proxies: set them')
        if header.lower() == "forwarded" or not re.fullmatch(f"{_TOKEN}|", header):
            raise ValueError(f'header "{header}" has no name of a header, or a format that is not supported')
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
            if self.header == "x-forwarded-for":
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
        chain = [entry for line in reversed(lines) for entry in reversed(line[-_MAX_BYTES:].split(","))]
        left = _MAX_BYTES
        for entry in chain[:_MAX_ENTRIES]:
            left -= len(entry) + 1
            before = _address(entry.strip(" \t"))
            if left < 0 or before is None:
                break
            address = before
            if not self._trusts(address):
                break
        return address


def _address(text: str) -> Address | None:
    """An address with or without brackets, port and zone, alone. 0.0.0.0 and :: are not accepted."""
    match = _HOST.fullmatch(text) if len(text) <= _MAX_ADDRESS and '"' not in text else None
    host, percent, zone = (match["six"] or match["four"] or match["bare"] if match else "").partition("%")
    try:
        address = ip_address(host)
    except ValueError:
        return None
    address = address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
    return None if address.is_unspecified or (percent and (not zone or ":" not in host)) else address


def _prefix(address: Address, bits: int) -> int:
    return int(address) >> (address.max_prefixlen - bits)


def _network(text: str) -> tuple[int, int, int]:
    """The version, size and prefix of a trusted proxy. Raises ValueError if it is invalid, or too wide for proxies."""
    try:
        network = ip_network(text)
        mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
        network = ip_network((mapped, network.prefixlen - 96)) if mapped else network
    except ValueError as why:
        raise ValueError(f"trusted proxy: {why}") from None
    first, bits = network.network_address, network.prefixlen
    if bits < _WIDEST[network.version] or (network.num_addresses == 1 and first.is_unspecified) or not re.fullmatch(r"[^%/]+(/[0-9]+)?", text):
        raise ValueError(f'trusted proxy "{text}" is too wide (/{_WIDEST[network.version]} is the widest), or not an address or network of hosts')
    return first.version, bits, _prefix(first, bits)
