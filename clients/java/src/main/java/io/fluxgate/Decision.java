package io.fluxgate;

import java.util.List;

/**
 * The answer to a request, with the fields of the HTTP API. A text that is absent is null, a number 0. Times are in milliseconds.
 *
 * @param allowed whether the request may pass
 * @param reason why: {@code ok}, {@code limited}, {@code denied} and others
 * @param rule the rule of the binding limit
 * @param band the name of the binding limit
 * @param limit its capacity
 * @param remaining how many whole tokens are left
 * @param owed tokens booked beyond the limit
 * @param resetAfterMs until the limit is full
 * @param retryAfterMs until a rejected request would fit, or 0 if it never does
 * @param waitMs how long the request waited for tokens
 * @param timeMs when it was decided, by the clock of the store
 * @param source where the answer came from
 * @param degraded whether the store or the server was unavailable
 * @param bands every limit of the rules that apply
 * @param receipt to settle with, once, or null if nothing was counted
 */
public record Decision(boolean allowed, String reason, String rule, String band, long limit, long remaining, long owed, double resetAfterMs,
        double retryAfterMs, double waitMs, double timeMs, String source, boolean degraded, List<Band> bands, String receipt) {
    /**
     * The state of one limit.
     *
     * @param rule its rule
     * @param label its label
     * @param shadow whether the rule only observes
     * @param measure what it counts, or null for requests
     * @param cost what the request costs
     * @param status {@code ok}, {@code rejected}, {@code too costly}, {@code unavailable} or {@code not asked}
     * @param source where its numbers came from
     * @param limit what it holds at most, here and now
     * @param remaining how many whole tokens are left
     * @param owed tokens booked beyond the limit
     * @param waitMs until the request would fit
     * @param moreAfterMs until more is left, if nothing is taken; 0 if it is full, and for concurrent requests
     * @param fullAfterMs until it is full
     * @param capacity its capacity in the rule
     * @param refillTokens how many tokens it regains in each refillMs
     * @param refillMs see refillTokens
     * @param kind {@code quota}, {@code sliding-window}, {@code concurrency}, or null for a token bucket
     * @param period the period of a quota
     * @param timezone the time zone of a quota
     * @param holdMs how long a slot is held without being renewed
     */
    public record Band(String rule, String label, boolean shadow, String measure, long cost, String status, String source, long limit, long remaining,
            long owed, double waitMs, double moreAfterMs, double fullAfterMs, long capacity, long refillTokens, double refillMs, String kind, String period,
            String timezone, double holdMs) {
        static Band read(Object value) {
            Fields f = Fields.of(value, "rule", "status", "source", "limit", "remaining", "capacity");
            return new Band(f.id("rule"), f.id("label"), f.flag("shadow"), f.id("measure"), f.count("cost", 1), f.text("status"), f.text("source"),
                    f.count("limit"), f.count("remaining"), f.count("owed"), f.number("waitMs"), f.number("moreAfterMs"), f.number("fullAfterMs"),
                    f.count("capacity"), f.count("refillTokens"), f.number("refillMs"), f.text("kind"), f.id("period"), f.text("timezone"), f.number("holdMs"));
        }
    }

    static Decision read(Object value) {
        Fields f = Fields.of(value, "allowed", "reason", "remaining");
        return new Decision(f.flag("allowed"), f.text("reason"), f.id("rule"), f.id("band"), f.count("limit"), f.count("remaining"), f.count("owed"),
                f.number("resetAfterMs"), f.number("retryAfterMs"), f.number("waitMs"), f.number("timeMs"), f.text("source"), f.flag("degraded"),
                ((List<?>) f.get("bands", List.class, List.of())).stream().map(Band::read).toList(), f.text("receipt"));
    }

    /** The decision without an answer of the server. */
    static Decision failed(boolean allowed) { return new Decision(allowed, "store-failure", null, null, 0, 0, 0, 0, 0, 0, 0, null, true, List.of(), null); }
}
