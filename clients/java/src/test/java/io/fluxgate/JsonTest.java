package io.fluxgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class JsonTest {
    @Test
    void reads() {
        assertEquals(Map.of("a", List.of(1L, -2.5, true, "x"), "b", Map.of()), Json.read(" { \"a\" : [ 1 , -2.5 ,true, \"x\" ] ,\"b\":{ }\r\n}\t"));
        assertEquals(Arrays.asList((Object) null), Json.read("[null]"));
        assertEquals("\"\\/\b\f\n\r\té😀", Json.read("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83d\\ude00\""));
        assertEquals(Long.MAX_VALUE - 1023, Json.read("9223372036854774784"));
        assertEquals(1e20, Json.read("100000000000000000000"));
        assertEquals(0.0, Json.read("1e-999"));
        assertEquals(1767323045000.123, Json.read("1767323045000.123"));
    }

    @Test
    void refusesWhatIsNotJson() {
        for (String text : List.of("", " ", "{", "[", "[1", "[1,", "[1,]", "[,]", "{}x", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:1}", "{\"a\":1 \"b\":2}", "nul", "truee", "True", "'a'",
                "\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\u+123\"", "\"a\nb\"", "\"a\n\"", "\"\u0000\"", "\u0000", "1\u0000", "01", "+1", ".5", "1.", "1e", "-", "--1", "0x1",
                "NaN", "Infinity", "1e999", "-1e400", "[1 2]", "{\"a\":1,\"a\":2}", "\u00a01", "\ufeff1", "1,2", "]", "}")) {
            assertThrows(IllegalArgumentException.class, () -> Json.read(text), text);
        }
    }

    /** Depth and numbers are bounded: a megabyte of either neither exhausts the stack nor takes long. */
    @Test
    void hostileValues() {
        int megabyte = 1 << 20;
        for (String part : List.of("[", "{\"a\":", "[[1],", "1", "-", "1e", "0.", "\\", "\"", "[]", " ")) {
            assertThrows(IllegalArgumentException.class, () -> Json.read(part.repeat(megabyte / part.length())), part);
        }
        assertThrows(IllegalArgumentException.class, () -> Json.read("[".repeat(17) + "]".repeat(17)));
        assertEquals(Json.read("[[1]]"), List.of(List.of(1L)));
        assertEquals(megabyte / 6, ((String) Json.read("\"" + "\\u0041".repeat(megabyte / 6) + "\"")).length());
        assertEquals(megabyte / 2, ((List<?>) Json.read("[" + "1,".repeat(megabyte / 2 - 1) + "1]")).size());
    }

    @Test
    void writesWhatItReads() {
        Random random = new Random(1);
        for (int i = 0; i < 2_000; i++) {
            StringBuilder text = new StringBuilder();
            random.ints(20, 0, 0x3000).forEach(text::appendCodePoint);
            Object value = Map.of(text.toString(), List.of(text + "😀", random.nextLong() / 1024, random.nextBoolean(), Map.of(), List.of()));
            assertEquals(value, Json.read(Json.write(value)));
        }
        assertThrows(IllegalArgumentException.class, () -> Json.write("\ud83d"));
        assertThrows(IllegalArgumentException.class, () -> Json.write(Map.of("\ude00\ud83d", 1)));
    }
}
