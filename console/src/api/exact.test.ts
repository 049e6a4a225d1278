import { expect, it } from "vitest";
import { Exact, parseJSON, writeJSON } from "./exact";

it.each([
  '{"account":9007199254740993,"big":1e400,"price":1.10,"capacity":5}',
  "[-0,1E5,0.1,123456789012345678901234567890,-1.50e-7]",
  '{"text":"9007199254740993 \\" 1e400","escaped":"\\\\","9007199254740993":[1.0]}',
  "1e400",
  "null",
])("writes %s as it was read", (text) => {
  expect(writeJSON(parseJSON(text))).toBe(text);
});

it("keeps other values plain", () => {
  expect(parseJSON('{"a":[1,1.5,"x",true,null]}')).toEqual({ a: [1, 1.5, "x", true, null] });
  expect(parseJSON('{"a":1.10}')).toEqual({ a: new Exact("1.10") });
});

it("refuses what is no JSON", () => {
  for (const text of ["", "{", "[01]", "[1.]", "[9007199254740993.]", "[1e]"]) expect(() => parseJSON(text)).toThrow();
});
