package io.fluxgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The cases are those of the package clientip for Go, read from its tests. */
class ClientIpTest {
    private static final Path GO = Path.of("../../clientip");
    private static final String TEXT = "(?:\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`)";
    private static final Pattern ROW = Pattern.compile(
            "\\{(" + TEXT + "), (nearest|" + TEXT + "), (nil|one\\(" + TEXT + "\\)|\\[\\]string\\{" + TEXT + "(?:, " + TEXT + ")*\\}), (" + TEXT + ")\\},");
    private static final String[] PROXIES = {"10.0.0.0/8", "2001:db8:aaaa::/48"};

    private static int rows(String file, String header) throws IOException {
        ClientIp resolver = new ClientIp(header, PROXIES);
        int rows = 0;
        for (Matcher row = ROW.matcher(Files.readString(GO.resolve(file))); row.find(); rows++) {
            String peer = row.group(2).equals("nearest") ? "10.0.0.1:80" : text(row.group(2));
            List<String> lines = Pattern.compile(TEXT).matcher(row.group(3)).results().map(match -> text(match.group())).toList();
            String want = text(row.group(4));
            assertEquals(want.isEmpty() ? null : InetAddress.getByName(want).getHostAddress(), resolver.resolve(peer, lines), file + ": " + row.group(1));
        }
        return rows;
    }

    /** The value of a string of Go. */
    private static String text(String literal) {
        String inside = literal.substring(1, literal.length() - 1);
        if (literal.startsWith("`")) return inside;
        return Pattern.compile("\\\\(x([0-9a-f]{2})|u([0-9a-f]{4})|.)").matcher(inside).replaceAll(escape -> {
            String hex = escape.group(2) == null ? escape.group(3) : escape.group(2);
            String value = hex != null ? String.valueOf((char) Integer.parseInt(hex, 16)) : escape.group(1).equals("t") ? "\t" : escape.group(1).equals("n") ? "\n" : escape.group(1);
            return Matcher.quoteReplacement(value);
        });
    }

    @Test
    void casesOfGo() throws IOException {
        assertTrue(Files.readString(GO.resolve("fixture_test.go")).contains("\"" + PROXIES[0] + "\", \"" + PROXIES[1] + "\""), "the proxies of the cases are others");
        int chain = rows("xforwardedfor_test.go", "X-Forwarded-For");
        int single = rows("single_test.go", "CF-Connecting-IP");
        assertTrue(chain > 80 && single > 14, chain + " and " + single + " cases");
    }

    @Test
    void invalidConfigurations() {
        for (String proxy : List.of("", "proxy.example.com", "10.0.0.1:80", " 10.0.0.1", "010.0.0.1", "10.0.0.1,10.0.0.2", "10.0.0.0/33", "10.0.0.0/255.0.0.0", "10.0.0.0/",
                "fe80::1%eth0", "10.1.2.3/16", "::ffff:10.1.2.3/112", "0.0.0.0/0", "128.0.0.0/1", "10.0.0.1/0", "::/0", "2000::/3", "::ffff:0.0.0.0/96", "::ffff:0.0.0.0/95",
                "0.0.0.0", "::", "fc00::/129", "10.0.0.0/99999999999")) {
            assertThrows(IllegalArgumentException.class, () -> new ClientIp("X-Forwarded-For", proxy), proxy);
        }
        for (String header : List.of("X Real IP", "Forwarded")) assertThrows(IllegalArgumentException.class, () -> new ClientIp(header, PROXIES), header);
        assertEquals("192.0.2.7", new ClientIp("X-Forwarded-For", "::ffff:10.0.0.0/104", "fc00::/7").resolve("10.255.0.1", List.of("192.0.2.7, fdff::1")));
        assertNull(new ClientIp("X-Forwarded-For", PROXIES).resolve("", List.of("192.0.2.7")));
    }

    /** A header that a caller writes costs little time and no stack. */
    @Test
    void hostileHeaders() {
        List<String> lines = List.of(" ".repeat(100_000) + "x", "\"".repeat(100_000), "for=\"" + "\\a".repeat(2_000) + "\"", "for=\"" + "x\\a".repeat(1_300) + "\"", "for=" + "a".repeat(4_000) + "\"",
                ";".repeat(4_000), "a=b;".repeat(1_000) + "for=192.0.2.7", "for=\"" + ",\\\"".repeat(50_000), ":".repeat(4_000), "for=" + ":".repeat(4_000));
        assertTimeout(Duration.ofSeconds(5), () -> {
            for (int i = 0; i < 20; i++) {
                for (String line : lines) {
                    for (ClientIp resolver : List.of(new ClientIp("X-Forwarded-For", PROXIES), new ClientIp("X-Real-IP", PROXIES))) {
                        assertEquals("10.0.0.1", resolver.resolve("10.0.0.1", List.of(line)));
                    }
                }
            }
        });
    }
}
