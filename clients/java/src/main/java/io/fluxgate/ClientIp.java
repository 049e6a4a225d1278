package io.fluxgate;

import java.math.BigInteger;
import java.net.*;
import java.util.*;
import java.util.regex.*;

/**
 * Finds the client behind trusted proxies, as the package clientip for Go does. It starts with the peer, and steps left in the chain that
 * the proxies wrote into one header while the address is that of a trusted proxy. What is further left came from the client.
 */
final class ClientIp {
    /** Bounds of the part of a chain that is read, and of an entry: an address, with room for brackets, a port and a zone. */
    private static final int MAX_ENTRIES = 32, MAX_LENGTH = 4096, MAX_ADDRESS = 128;
    /** Wider networks contain other people's clients. */
    private static final int WIDEST_IPV4 = 8, WIDEST_IPV6 = 7;

    private static final String TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+", PORT = "(?::[0-9]{1,5})?";
    private static final String OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])", IPV4 = OCTET + "(?:\\." + OCTET + "){3}";
    private static final String IPV6 = "(?:[0-9a-fA-F]{0,4}:){2,8}(?:[0-9a-fA-F]{0,4}|" + IPV4 + ")";
    private static final Pattern ADDRESS = Pattern.compile(IPV4 + "|" + IPV6);
    /** An entry of a chain, with spaces and tabs around it. Without brackets only IPv4 has a port. */
    private static final Pattern ENTRY = Pattern.compile("[ \t]*+((" + IPV4 + ")" + PORT + "|(" + IPV6 + ")(?:%.*\\S)?|\\[(" + IPV6 + ")(?:%[^\\]]+)?\\]" + PORT + ")[ \t]*+");

    /** The addresses that begin with the same bits. */
    private record Network(int family, BigInteger prefix, int rest) {
        boolean contains(InetAddress address) { return family == size(address) && prefix.equals(number(address).shiftRight(rest)); }
    }

    final String header;
    private final boolean single;
    private final List<Network> trusted;

    /** Any header but X-Forwarded-For has a single address, which each trusted proxy overwrites. */
    ClientIp(String header, String... proxies) {
        if (!header.matches(TOKEN) || header.equalsIgnoreCase("Forwarded")) throw new IllegalArgumentException("invalid or unsupported header \"" + header + "\"");
        this.header = header;
        this.single = !header.equalsIgnoreCase("X-Forwarded-For");
        this.trusted = Arrays.stream(proxies).map(ClientIp::network).toList();
    }

    private static Network network(String proxy) {
        String[] parts = proxy.split("/", 2);
        InetAddress address = literal(parts[0]);
        if (address != null && !address.isAnyLocalAddress() && (parts.length == 1 || parts[1].matches("0|[1-9][0-9]{0,2}"))) {
            // An IPv4 address that is mapped into IPv6 begins at its 96th bit.
            int size = size(address), mapped = size == 32 && proxy.contains(":") ? 96 : 0;
            int bits = parts.length == 1 ? size : Integer.parseInt(parts[1]) - mapped;
            boolean wide = bits < (size == 32 ? WIDEST_IPV4 : WIDEST_IPV6);
            if (!wide && bits <= size && number(address).getLowestSetBit() >= size - bits) return new Network(size, number(address).shiftRight(size - bits), size - bits);
        }
        throw new IllegalArgumentException("trusted proxy \"" + proxy + "\" is neither an address such as 192.0.2.10 nor a network such as 10.1.0.0/16"
                + " without bits beyond its prefix; the widest networks are /" + WIDEST_IPV4 + " in IPv4 and /" + WIDEST_IPV6 + " in IPv6");
    }

    private static BigInteger number(InetAddress address) { return new BigInteger(1, address.getAddress()); }

    private static int size(InetAddress address) { return address.getAddress().length * 8; }

    /**
     * Returns the client's address, or null if it is unknown. It is searched from the right, which the nearest proxy wrote. An entry that is
     * no address ends the search at the proxy that wrote it.
     */
    String resolve(String peer, List<String> lines) {
        InetAddress address = entry(peer == null ? "" : peer);
        String chain = String.join(",", lines);
        boolean readable = !single || lines.size() == 1; // one of two lines may be the client's
        for (int end = chain.length(), entries = 0, comma; readable && end >= 0 && trusts(address); end = comma) {
            comma = single ? -1 : chain.lastIndexOf(',', end - 1);
            InetAddress before = chain.length() - comma > MAX_LENGTH ? null : entry(chain.substring(comma + 1, end));
            readable = before != null && ++entries <= MAX_ENTRIES;
            if (readable) address = before;
        }
        return address == null ? null : address.getHostAddress();
    }

    private boolean trusts(InetAddress address) { return address != null && trusted.stream().anyMatch(network -> network.contains(address)); }

    private static InetAddress entry(String text) {
        Matcher entry = ENTRY.matcher(text);
        if (!entry.matches() || entry.group(1).length() > MAX_ADDRESS) return null;
        InetAddress address = literal(entry.group(2) != null ? entry.group(2) : entry.group(3) != null ? entry.group(3) : entry.group(4));
        return address == null || address.isAnyLocalAddress() ? null : address;
    }

    /** An address, or null. The pattern lets through only what Java never looks up as a name. */
    private static InetAddress literal(String text) {
        try {
            return ADDRESS.matcher(text).matches() ? InetAddress.getByName(text) : null;
        } catch (UnknownHostException notAnAddress) { return null; }
    }
}
