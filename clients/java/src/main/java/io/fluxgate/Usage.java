package io.fluxgate;

import java.util.*;

/** What a request has used, to settle all its rules. At least one number is required; it may be 0. */
public final class Usage {
    final Map<String, Object> fields = new LinkedHashMap<>();
    private final Map<String, Long> costs = new LinkedHashMap<>();

    /** Sets the tokens of the prompt. */
    public Usage inputTokens(long tokens) { return set("inputTokens", CheckRequest.count(tokens)); }

    /** Sets the tokens of the answer. */
    public Usage outputTokens(long tokens) { return set("outputTokens", CheckRequest.count(tokens)); }

    /** Sets the part of the prompt that the model had in its cache. */
    public Usage cachedInputTokens(long tokens) { return set("cachedInputTokens", CheckRequest.count(tokens)); }

    /** Sets the part of the answer that was used for reasoning. */
    public Usage reasoningTokens(long tokens) { return set("reasoningTokens", CheckRequest.count(tokens)); }

    /** Sets the cost by a measure. It replaces what the tokens cost. */
    public Usage cost(String measure, long tokens) {
        costs.put(measure, CheckRequest.count(tokens));
        return set("costs", costs);
    }

    private Usage set(String name, Object value) { fields.put(name, value); return this; }
}
