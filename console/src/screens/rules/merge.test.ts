import { describe, expect, it } from "vitest";
import { parseJSON } from "../../api/exact";
import { merge } from "./merge";

const rule = (id: string, capacity: number, more: object = {}) => ({ id, bands: [{ label: "burst", capacity }], ...more });
const set = (...rules: object[]) => ({ id: "api", rules });

describe("merge", () => {
  const base = set(rule("a", 1), rule("b", 2));
  it.each([
    ["nothing", base, base, base, []],
    ["mine alone", set(rule("a", 9), rule("b", 2)), base, set(rule("a", 9), rule("b", 2)), []],
    ["theirs alone", base, set(rule("a", 9), rule("b", 2)), set(rule("a", 9), rule("b", 2)), []],
    ["two rules", set(rule("a", 9), rule("b", 2)), set(rule("a", 1), rule("b", 8)), set(rule("a", 9), rule("b", 8)), []],
    ["two fields of a rule", set(rule("a", 9), rule("b", 2)), set(rule("a", 1, { mode: "shadow" }), rule("b", 2)), set(rule("a", 9, { mode: "shadow" }), rule("b", 2)), []],
    ["the same change", set(rule("a", 9), rule("b", 2)), set(rule("a", 9), rule("b", 2)), set(rule("a", 9), rule("b", 2)), []],
    ["the same field", set(rule("a", 9), rule("b", 2)), set(rule("a", 7), rule("b", 2)), set(rule("a", 9), rule("b", 2)), ["rules.a.bands.burst.capacity"]],
    ["a rule that each added", set(...base.rules, rule("c", 3)), set(...base.rules, rule("d", 4)), set(...base.rules, rule("d", 4), rule("c", 3)), []],
    ["a rule that I removed", set(rule("b", 2)), set(rule("a", 1), rule("b", 8)), set(rule("b", 8)), []],
    ["a rule that I removed and they changed", set(rule("b", 2)), set(rule("a", 9), rule("b", 2)), set(rule("b", 2)), ["rules.a"]],
    ["a rule that they removed and I changed", set(rule("a", 9), rule("b", 2)), set(rule("b", 2)), set(rule("b", 2), rule("a", 9)), ["rules.a"]],
    ["a field that I removed", set({ id: "a" }, rule("b", 2)), set(rule("a", 1), rule("b", 8)), set({ id: "a" }, rule("b", 8)), []],
  ])("%s", (_, mine, theirs, value, both) => {
    expect(merge(base, mine as typeof base, theirs as typeof base)).toEqual({ value, both });
  });

  it("takes lists without names as a whole", () => {
    expect(merge({ p: ["a"] }, { p: ["a", "b"] }, { p: ["a", "c"] })).toEqual({ value: { p: ["a", "b"] }, both: ["p"] });
  });
  it("keeps the order of rules with numbers as ids", () => {
    const [x, y] = [rule("z", 1), rule("1", 1)];
    expect(merge(set(x, y), set(x, y, rule("k", 1)), set(rule("z", 2), y)).value.rules.map((r) => (r as { id: string }).id)).toEqual(["z", "1", "k"]);
  });
  it("merges rules with the names of built-in properties", () => {
    const [x, y] = [rule("constructor", 1), rule("__proto__", 1)];
    expect(merge(set(), set(x), set(y))).toEqual({ value: set(y, x), both: [] });
  });
  it("merges a rule set that did not exist", () => {
    expect(merge(set(), set(rule("a", 1)), set(rule("b", 1)))).toEqual({ value: set(rule("b", 1), rule("a", 1)), both: [] });
  });
});

it("takes a number that JavaScript does not have as one value", () => {
  const of = (text: string) => parseJSON(`{"a":${text}}`);
  expect(merge(of("1e400"), of("1e400"), of("1e401"))).toEqual({ value: of("1e401"), both: [] });
  expect(merge(of("1e400"), of("1e402"), of("1e401"))).toEqual({ value: of("1e402"), both: ["a"] });
});
