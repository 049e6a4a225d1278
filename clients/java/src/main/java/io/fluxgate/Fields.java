package io.fluxgate;

import java.util.Map;
import java.util.regex.Pattern;

/** The fields of an answer. A wrong type is an error, and an unknown field is ignored. */
record Fields(Map<?, ?> map) {
    private static final Pattern ID = Pattern.compile("[\\w.-]{1,128}");

    /** Returns the fields of an object that has at least the required ones. */
    static Fields of(Object value, String... required) {
        if (!(value instanceof Map<?, ?> map)) throw FluxGateException.notAnswer();
        for (String name : required) valid(map.get(name) != null, name);
        return new Fields(map);
    }

    private static <T> T valid(boolean valid, T value) {
        if (!valid) throw FluxGateException.notAnswer();
        return value;
    }

    <T> T get(String name, Class<T> type, T absent) {
        Object value = map.get(name);
        return value == null ? absent : type.cast(valid(type.isInstance(value), value));
    }

    String text(String name) { return get(name, String.class, null); }

    /** Ids become a part of headers. */
    String id(String name) { return valid(text(name) == null || ID.matcher(text(name)).matches(), text(name)); }

    boolean flag(String name) { return get(name, Boolean.class, false); }

    /** Numbers are counts and times: none is negative. */
    double number(String name) {
        double number = get(name, Number.class, 0L).doubleValue();
        return valid(number >= 0, number);
    }

    long count(String name, long absent) {
        long count = get(name, Long.class, absent);
        return valid(count >= 0, count);
    }

    long count(String name) { return count(name, 0); }
}
