package io.fluxgate;

import java.util.*;
import java.util.stream.*;

/** The headers and problem documents of decisions, as the middleware for Go has them. */
final class Answers {
    /** The lists of limits have at most so many entries. */
    private static final int MAX_ENTRIES = 8;
    /** The largest number of a structured field. */
    private static final long MAX_INTEGER = 999_999_999_999_999L;

    private record Unit(String suffix, long micros) { }

    private static final List<Unit> UNITS = List.of(new Unit("d", 86_400_000_000L), new Unit("h", 3_600_000_000L), new Unit("m", 60_000_000),
            new Unit("s", 1_000_000), new Unit("ms", 1000), new Unit("us", 1));

    private record Plain(int status, String title, String detail) { }

    private static final Map<String, Plain> PLAIN = Map.of("denied", new Plain(403, "Forbidden", "A rule rejects this request."),
            "bad-path", new Plain(400, "Bad Request", "The path is too long or can be read in more than one way: "
                    + "send it without #, backslash, %2F, dot segments and empty segments."),
            "too-many-rules", new Plain(403, "Forbidden", "More rules apply to this request than can be counted."),
            "missing-identity", new Plain(403, "Forbidden", "The request has no identity, and a rule requires one."),
            "no-rule", new Plain(403, "Forbidden", "No rule allows this request."),
            "no-rule-set", new Plain(503, "Service Unavailable", "There is no rule set for this request."),
            "store-failure", new Plain(503, "Service Unavailable", "The request cannot be counted now."));

    private Answers() { }

    /** The headers of a decision. */
    static Map<String, String> headers(Decision d) {
        Map<String, String> headers = new LinkedHashMap<>();
        if (!d.allowed() && d.retryAfterMs() > 0) headers.put("Retry-After", Long.toString(seconds(d.retryAfterMs())));
        if (d.band() == null) return headers;
        headers.put("X-RateLimit-Limit", Long.toString(d.limit()));
        headers.put("X-RateLimit-Remaining", Long.toString(d.remaining()));
        if (d.timeMs() > 0) headers.put("X-RateLimit-Reset", Long.toString(seconds(d.timeMs() + d.resetAfterMs())));
        List<Decision.Band> shown = shown(d);
        if (shown.isEmpty()) return headers;
        headers.put("RateLimit", shown.stream().map(b -> state(b, d)).collect(Collectors.joining(", ")));
        headers.put("RateLimit-Policy", shown.stream().map(Answers::policy).collect(Collectors.joining(", ")));
        return headers;
    }

    /** The limits of the lists, always with the binding one. */
    private static List<Decision.Band> shown(Decision d) {
        List<Decision.Band> all = visible(d).filter(b -> !b.status().equals("unavailable") && !b.status().equals("not asked"))
                .filter(Answers::hasUnit).toList();
        Stream<Decision.Band> last = all.stream().skip(MAX_ENTRIES - 1).sorted(Comparator.comparing(b -> !name(b).equals(binding(d)))).limit(1);
        return Stream.concat(all.stream().limit(MAX_ENTRIES - 1), last).toList();
    }

    private static Stream<Decision.Band> visible(Decision d) { return d.bands().stream().filter(b -> !b.shadow()); }

    /** The registered units are requests, bytes and concurrent requests: clients take tokens and money for requests. */
    private static boolean hasUnit(Decision.Band b) { return b.measure() == null || "concurrency".equals(b.kind()); }

    private static String binding(Decision d) { return name(Objects.toString(d.rule(), ""), d.band()); }

    private static String name(Decision.Band b) { return name(b.rule(), bandName(b)); }

    /** The name of a limit: with a slash where it would else be that of another, because the rule or the band has a dot. */
    private static String name(String rule, String band) { return rule + (rule.contains(".") || band.contains(".") ? "/" : ".") + band; }

    /** The label of a limit, or its numbers, such as 100-per-1m. */
    private static String bandName(Decision.Band b) {
        if (b.label() != null) return b.label();
        if ("concurrency".equals(b.kind())) return b.capacity() + "-at-once";
        if ("quota".equals(b.kind())) return b.capacity() + "-per-" + b.period();
        long micros = Math.round(b.refillMs() * 1000);
        Unit unit = UNITS.stream().filter(u -> micros % u.micros == 0).findFirst().orElseThrow();
        return refill(b) + "-per-" + micros / unit.micros + unit.suffix;
    }

    private static long refill(Decision.Band b) { return b.refillTokens() == 0 ? b.capacity() : b.refillTokens(); }

    /** What is left, and when more is, unless nobody knows, there cannot be more, or a rejected request can be sent again before. */
    private static String state(Decision.Band b, Decision d) {
        String state = '"' + name(b) + "\";r=" + Math.min(b.remaining(), MAX_INTEGER);
        if (b.moreAfterMs() == 0 || d.retryAfterMs() > 0 && b.moreAfterMs() > d.retryAfterMs()) return state;
        double left = Math.max(0, b.moreAfterMs() - d.waitMs());
        boolean overflows = left < 1000 && !"quota".equals(b.kind()) && window(b) < 1000; // in a second
        return state + ";t=" + (overflows ? 0 : seconds(left));
    }

    /** How long an empty token bucket or sliding window takes to become full, in milliseconds. */
    private static double window(Decision.Band b) { return b.refillMs() * b.capacity() / Math.max(1, refill(b)); }

    private static String policy(Decision.Band b) {
        String unit = "concurrency".equals(b.kind()) ? ";qu=\"concurrent-requests\"" : "";
        boolean noWindow = "quota".equals(b.kind()) || "concurrency".equals(b.kind()) || window(b) < 1000;
        String window = noWindow ? "" : ";w=" + seconds(window(b));
        return '"' + name(b) + "\";q=" + Math.min(b.limit(), MAX_INTEGER) + unit + window;
    }

    /** A time in whole seconds, rounded up. */
    private static long seconds(double ms) { return (long) Math.ceil(ms / 1000); }

    /** The problem document of a rejection (RFC 9457). */
    static Map<String, Object> problem(Decision d) {
        if (PLAIN.containsKey(d.reason())) return problem(null, PLAIN.get(d.reason()), d.reason());
        Plain exceeded = new Plain(429, "Request cannot be satisfied as assigned quota has been exceeded", d.band() == null ? null : exceeded(d));
        Map<String, Object> problem = problem("https://iana.org/assignments/http-problem-types#quota-exceeded", exceeded, d.reason());
        if (d.band() != null) problem.put("violated-policies", Stream.concat(Stream.of(binding(d)), visible(d).filter(Answers::violated).map(Answers::name))
                .distinct().limit(MAX_ENTRIES).toList());
        return problem;
    }

    /** The problem document of a request that has no decision. */
    static Map<String, Object> problem(FluxGateException error) {
        if (error.serverStatus() == 404) return problem(null, PLAIN.get("no-rule-set"), "no-rule-set");
        return problem(null, new Plain(500, "Internal Server Error", null), null);
    }

    private static Map<String, Object> problem(String type, Plain plain, String reason) {
        Map<String, Object> problem = new LinkedHashMap<>();
        problem.put("type", type);
        problem.put("title", plain.title);
        problem.put("status", plain.status);
        problem.put("detail", plain.detail);
        problem.put("reason", reason);
        return problem;
    }

    private static boolean violated(Decision.Band b) {
        return b.status().equals("rejected") && b.waitMs() > 0 || b.status().equals("too costly") && b.cost() > b.limit();
    }

    private static String exceeded(Decision d) {
        long cost = visible(d).filter(b -> b.rule().equals(d.rule())).reduce((first, last) -> last).map(Decision.Band::cost).orElse(1L);
        if (d.reason().equals("cost-too-high")) {
            return "The request costs " + cost + ", but " + binding(d) + " holds at most " + d.limit() + ": it is never allowed.";
        }
        String state = d.owed() == 0 ? "has " + d.remaining() + " of " + d.limit() + " left" : "owes " + d.owed() + (d.owed() == 1 ? " token" : " tokens");
        String again = d.retryAfterMs() > 0 ? " Try again in " + seconds(d.retryAfterMs()) + "s." : "";
        return binding(d) + " " + state + ", and the request costs " + cost + "." + again;
    }
}
