package io.fluxgate;

import java.util.*;
import java.util.function.Consumer;
import java.util.regex.*;
import java.util.stream.Collectors;

/** Reads and writes JSON, so that the client needs no library for it. Callers bound the length of what is read. */
final class Json {
    /** A decision is four values deep. The bound keeps the other side from exhausting the stack. */
    private static final int MAX_DEPTH = 16;
    /** Longer numbers are slow to read and have no meaning. */
    private static final int MAX_NUMBER = 40;
    private static final Pattern WORD = Pattern.compile("true|false|null|-?(?:0|[1-9][0-9]*)((?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)");

    private final String text;
    private int at;

    private Json(String text) { this.text = text; }

    /** Returns a Map, List, String, Long, Double, Boolean or null. Anything else than one value is an IllegalArgumentException. */
    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value(MAX_DEPTH);
        json.skip(' ');
        if (json.at < text.length()) throw json.invalid();
        return value;
    }

    private Object value(int depth) {
        skip(' ');
        if (depth == 0) throw invalid();
        return switch (next()) {
            case '{' -> entries('}', new LinkedHashMap<String, Object>(), object -> {
                String name = string();
                if (!skip(':') || object.containsKey(name)) throw invalid();
                object.put(name, value(depth - 1));
            });
            case '[' -> entries(']', new ArrayList<>(), list -> list.add(value(depth - 1)));
            case '"' -> string();
            default -> word();
        };
    }

    private <C> C entries(char end, C collection, Consumer<C> entry) {
        at++;
        if (skip(end)) return collection;
        do entry.accept(collection); while (skip(','));
        if (!skip(end)) throw invalid();
        return collection;
    }

    private String string() {
        if (!skip('"')) throw invalid();
        StringBuilder string = new StringBuilder();
        for (; next() >= ' ' && next() != '"'; at++) string.append(next() == '\\' ? escaped() : next());
        if (next() != '"') throw invalid();
        at++;
        return string.toString();
    }

    /** Reads an escape up to its last character. */
    private char escaped() {
        at++;
        int simple = "\"\\/bfnrt".indexOf(next());
        if (simple >= 0) return "\"\\/\b\f\n\r\t".charAt(simple);
        String code = text.substring(at, Math.min(at + 5, text.length()));
        if (!code.matches("u[0-9a-fA-F]{4}")) throw invalid();
        at += 4;
        return (char) Integer.parseInt(code.substring(1), 16);
    }

    private Object word() {
        Matcher word = WORD.matcher(text).region(at, Math.min(text.length(), at + MAX_NUMBER + 1));
        if (!word.lookingAt() || word.end() - at > MAX_NUMBER) throw invalid();
        at = word.end();
        if (word.group().equals("null")) return null;
        if (word.group(1) == null) return Boolean.valueOf(word.group());
        double value = Double.parseDouble(word.group());
        if (Double.isInfinite(value)) throw invalid();
        boolean whole = word.group(1).isEmpty() && Math.abs(value) < 0x1p63;
        return whole ? (Object) Long.valueOf(word.group()) : (Object) value;
    }

    /** The next character, or 0 at the end. */
    private char next() { return at < text.length() ? text.charAt(at) : 0; }

    /** Skips space, then a character if it is there. */
    private boolean skip(char c) {
        while (next() == ' ' || next() == '\t' || next() == '\r' || next() == '\n') at++;
        if (next() != c || c == 0) return false;
        at++;
        return true;
    }

    private IllegalArgumentException invalid() { return new IllegalArgumentException("invalid JSON at character " + at); }

    /** Writes a Map without its null values, List, String, number or Boolean. A string that is not valid Unicode is an IllegalArgumentException. */
    static String write(Object value) {
        if (value instanceof List<?> list) return list.stream().map(Json::write).collect(Collectors.joining(",", "[", "]"));
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().filter(e -> e.getValue() != null).map(e -> write(e.getKey()) + ":" + write(e.getValue())).collect(Collectors.joining(",", "{", "}"));
        }
        if (!(value instanceof String string)) return String.valueOf(value);
        StringBuilder quoted = new StringBuilder("\"");
        string.codePoints().forEach(c -> {
            if (c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE) throw new IllegalArgumentException("a string is not valid Unicode");
            if (c < ' ') quoted.append(String.format("\\u%04x", c));
            else quoted.append(c == '"' || c == '\\' ? "\\" : "").appendCodePoint(c);
        });
        return quoted.append('"').toString();
    }
}
