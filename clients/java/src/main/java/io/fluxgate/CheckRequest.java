package io.fluxgate;

import java.time.Duration;
import java.util.*;
import java.util.stream.LongStream;

/** What is known about a request. Every field is optional, and null counts as absent. It is encoded when a check begins. */
public final class CheckRequest {
    final Map<String, Object> fields = new LinkedHashMap<>();
    Duration timeout;

    /** Sets the rule set. The default is that of the server. */
    public CheckRequest ruleSet(String id) { return set("ruleSet", id); }

    /** Sets the client's address. */
    public CheckRequest ip(String ip) { return set("ip", ip); }

    /** Sets the user. */
    public CheckRequest userId(String userId) { return set("userId", userId); }

    /** Sets the API key. */
    public CheckRequest apiKey(String apiKey) { return set("apiKey", apiKey); }

    /** Sets the HTTP method. */
    public CheckRequest method(String method) { return set("method", method); }

    /** Sets the path as the client has sent it. */
    public CheckRequest path(String path) { return set("path", path); }

    /** Sets the host. */
    public CheckRequest host(String host) { return set("host", host); }

    /** Sets the lines of a header. */
    public CheckRequest header(String name, List<String> lines) { return entry("headers", name, List.copyOf(lines)); }

    /** Sets another value for conditions and keys. */
    public CheckRequest attribute(String name, String value) { return entry("attributes", name, value); }

    /** Adds an entry to the descriptor. */
    public CheckRequest descriptor(String key, String value) {
        List<Object> entries = new ArrayList<>((List<?>) fields.getOrDefault("descriptor", List.of()));
        entries.add(value == null ? Map.of("key", key) : Map.of("key", key, "value", value));
        return set("descriptor", entries);
    }

    /** Sets how many tokens it takes under rules that count requests. The default is 1. */
    public CheckRequest cost(long tokens) { return set("cost", count(tokens)); }

    /** Sets the most that it may cost under rules that count something else. */
    public CheckRequest cost(String measure, long tokens) { return entry("costs", measure, count(tokens)); }

    /** Sets what it may use of a language model. Of several maxima the largest counts; without one that of the model does. */
    public CheckRequest estimate(String model, long inputTokens, long... maxOutputTokens) {
        List<Long> maxima = LongStream.of(maxOutputTokens).map(CheckRequest::count).boxed().toList();
        fields.remove("estimate");
        return entry("estimate", "model", model).entry("estimate", "inputTokens", count(inputTokens)).entry("estimate", "maxOutputTokens", maxima.isEmpty() ? null : maxima);
    }

    /** Sets whether it takes nothing. Without a cost a peek only reads the state. */
    public CheckRequest peek(boolean peek) { return set("peek", peek ? true : null); }

    /** Sets how long the check may take, with the time that a rule holds the request. The default is that of the client. */
    public CheckRequest timeout(Duration timeout) { this.timeout = FluxGate.positive(timeout); return this; }

    private CheckRequest set(String name, Object value) { fields.put(name, value); return this; }

    private CheckRequest entry(String field, String name, Object value) {
        Map<Object, Object> entries = new LinkedHashMap<>((Map<?, ?>) fields.getOrDefault(field, Map.of()));
        entries.put(name, value);
        return set(field, entries);
    }

    static long count(long count) {
        if (count < 0) throw new IllegalArgumentException("the number is negative");
        return count;
    }

    long cost() { return (Long) fields.getOrDefault("cost", 1L); }
}
