package io.fluxgate;

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
    /** An entry of a chain. Without brackets only IPv4 has a port. */
    private static final Pattern ENTRY = Pattern.compile("(" + IPV4 + ")" + PORT + "|(" + IPV6 + ")(?:%.+)?|\\[(" + IPV6 + ")(?:%[^\\]]+)?\\]" + PORT);

    private record Network(byte[] address, int bits) {
        boolean contains(byte[] other) {
            int whole = bits / 8;
            return other.length == address.length && Arrays.equals(address, 0, whole, other, 0, whole)
                    && (bits % 8 == 0 || (address[whole] ^ other[whole]) >> 8 - bits % 8 == 0);
        }
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
        byte[] address = literal(parts[0]);
        int size = address == null ? 0 : address.length * 8, widest = size == 32 ? WIDEST_IPV4 : WIDEST_IPV6;
        // An IPv4 address that is mapped into IPv6 begins at its 96th bit.
        int mapped = size == 32 && proxy.contains(":") ? 96 : 0;
        boolean number = parts.length == 1 || parts[1].matches("0|[1-9][0-9]{0,2}");
        int bits = parts.length == 1 || !number ? size : Integer.parseInt(parts[1]) - mapped;
        boolean host = number && size > 0 && bits <= size && !unspecified(address);
        for (int bit = bits; host && bit < size; bit++) host = bit < 0 || (address[bit / 8] & 0x80 >> bit % 8) == 0;
        if (host && bits >= widest) return new Network(address, bits);
        throw new IllegalArgumentException("trusted proxy \"" + proxy + "\" is neither an address such as 192.0.2.10 nor a network such as 10.1.0.0/16"
                + " without bits beyond its prefix; the widest networks are /" + WIDEST_IPV4 + " in IPv4 and /" + WIDEST_IPV6 + " in IPv6");
    }

    /** Returns the client's address, or null if it is unknown. */
    String resolve(String peer, List<String> lines) {
        byte[] address = entry(peer == null ? "" : peer);
        if (address != null && trusts(address)) address = walk(address, lines);
        try {
            return address == null ? null : InetAddress.getByAddress(address).getHostAddress();
        } catch (UnknownHostException impossible) { throw new IllegalStateException(impossible); }
    }

    private boolean trusts(byte[] address) { return trusted.stream().anyMatch(network -> network.contains(address)); }

    /** Reads from the right, which the nearest proxy wrote. An entry that is no address ends the search at the proxy that wrote it. */
    private byte[] walk(byte[] address, List<String> lines) {
        if (single) { // one of two lines may be the client's
            byte[] client = lines.size() == 1 ? entry(trim(lines.get(0))) : null;
            return client == null ? address : client;
        }
        for (int i = lines.size() - 1, entries = MAX_ENTRIES, length = MAX_LENGTH; i >= 0; i--) {
            for (int end = lines.get(i).length(), comma; end >= 0; end = comma) {
                comma = lines.get(i).lastIndexOf(',', end - 1);
                length -= end - comma;
                if (--entries < 0 || length < 0) return address;
                byte[] before = entry(trim(lines.get(i).substring(comma + 1, end)));
                if (before == null) return address;
                address = before;
                if (!trusts(address)) return address;
            }
        }
        return address;
    }

    /** Removes spaces and tabs. A regular expression would take the square of the time that a caller can make it take. */
    private static String trim(String text) {
        int start = 0, end = text.length();
        while (start < end && " \t".indexOf(text.charAt(start)) >= 0) start++;
        while (end > start && " \t".indexOf(text.charAt(end - 1)) >= 0) end--;
        return text.substring(start, end);
    }

    private static byte[] entry(String text) {
        Matcher entry = ENTRY.matcher(text);
        if (text.length() > MAX_ADDRESS || !entry.matches()) return null;
        byte[] address = literal(entry.group(1) != null ? entry.group(1) : entry.group(2) != null ? entry.group(2) : entry.group(3));
        return address == null || unspecified(address) ? null : address;
    }

    /** The bytes of an address, or null. The pattern lets through only what Java never looks up as a name. */
    private static byte[] literal(String text) {
        try {
            return ADDRESS.matcher(text).matches() ? InetAddress.getByName(text).getAddress() : null;
        } catch (UnknownHostException notAnAddress) { return null; }
    }

    private static boolean unspecified(byte[] address) { return Arrays.equals(address, new byte[address.length]); }
}
