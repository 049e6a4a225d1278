import { describe, expect, it } from "vitest";
import { exempt } from "../../proposals";
import { editRule, marksOf, read, textOf, withRules, type Rule, type RuleSet } from "./text";
import { parseJSON, writeJSON } from "../../api/exact";

const set: RuleSet = {
  id: "api-limits",
  rules: [
    { id: "per-user", ruleSetId: "api-limits", path: "/api/**", limitScope: "USER_ID", enabled: true, bands: [{ label: "burst", capacity: 5, refillSeconds: 1 }], createdAt: "2026-01-01T00:00:00Z" },
    { id: "health", action: "allow", attributes: { note: "<b>: # 'no'" } },
  ],
};

const text = `id: api-limits
rules:
  - id: per-user # the comment stays
    path: /api/**
    bands:
      - capacity: -5
        refill: 1s
  - 7
`;

describe("textOf", () => {
  it("writes what is read again, without the fields of the control plane", () => {
    const written = textOf(set);
    expect(written).not.toMatch(/ruleSetId|createdAt/);
    expect(read(written).value).toEqual({ ...set, rules: [{ ...set.rules[0], ruleSetId: undefined, createdAt: undefined }, set.rules[1]] });
  });
});

it("begins a rule with its id", () => {
  expect(textOf({ id: "a", rules: [{ path: "/", id: "b" }] })).toBe("id: a\nrules:\n  - id: b\n    path: /\n");
});

it("writes no anchors for what two rules share: each has its own numbers, and `rules validate` accepts no anchors", () => {
  const paths = ["/api/**", "/v2/**"];
  const limiting: Rule = { id: "per-user", paths, limitScope: "USER_ID", bands: [{ label: "burst", capacity: 5, refill: "1s" }] };
  const subject = { ruleSet: "a", rule: "per-user", identity: { userId: "ada" } };
  const rules = exempt(subject).apply([limiting]);
  const written = withRules(read(textOf({ id: "a", rules: [limiting] })), rules);
  expect(written).not.toMatch(/[&*]a\d/);
  expect(read(written).value!.rules).toEqual(rules);
});

describe("marksOf", () => {
  const at = (path: (string | number)[]) => {
    const [mark] = marksOf(read(text), [{ path, location: "body.x", message: "wrong" }]);
    return [mark!.line, text.slice(mark!.from, mark!.to)];
  };
  it.each([
    ["a value", ["rules", 0, "bands", 0, "capacity"], [6, "capacity: -5"]],
    ["an object", ["rules", 0, "bands"], [5, "bands"]],
    ["an element", ["rules", 1], [8, "7"]],
    ["the first line of an element", ["rules", 0], [3, "id: per-user # the comment stays"]],
    ["a missing field", ["rules", 0, "bands", 0, "label"], [6, "capacity: -5"]],
    ["a missing element", ["rules", 9], [2, "rules"]],
    ["no path", [], [1, ""]],
  ])("%s", (_, path, want) => {
    expect(at(path)).toEqual(want);
  });
  it("says the place before the message", () => {
    expect(marksOf(read(text), [{ path: ["rules", 1], location: "body.rules[1]", message: "must be an object" }])[0]!.message).toBe("rules[1]: must be an object");
  });
});

describe("read", () => {
  it.each([
    ["a wrong indentation", "rules:\n  - id: a\n path: b\n", 3],
    ["a field twice", "id: a\nid: b\n", 2],
    ["a value that contains itself", "&a\nid: a\nrules: [*a]\n", 1],
    ["a quote that is not closed", 'id: a\nx: "b\n', 3],
  ])("marks %s at its line", (_, wrong, line) => {
    const source = read(wrong);
    expect(source.value).toBeUndefined();
    expect(source.marks[0]!.line).toBe(line);
  });
});

describe("editRule", () => {
  it("sets and removes fields and keeps comments", () => {
    const got = editRule(read(text), "per-user", [
      { path: ["mode"], value: "shadow" },
      { path: ["bands", 0, "capacity"], value: 9 },
      { path: ["bands", 0, "refill"], value: undefined },
    ]);
    expect(got).toBe("id: api-limits\nrules:\n  - id: per-user # the comment stays\n    path: /api/**\n    bands:\n      - capacity: 9\n    mode: shadow\n  - 7\n");
  });
  it("writes no anchors", () => {
    const when = { users: ["ada"] };
    expect(editRule(read("id: a\nrules:\n  - id: b\n"), "b", [{ path: ["x"], value: [when, when] }])).not.toMatch(/[&*]a\d/);
  });
  it("gives a rule with an alias its own value", () => {
    const typed = "id: a\nrules:\n  - id: b\n    bands: &shared\n      - capacity: 5\n  - id: c\n    bands: *shared\n";
    const got = editRule(read(typed), "c", [{ path: ["bands", 0, "capacity"], value: 9 }]);
    expect(got).toBe("id: a\nrules:\n  - id: b\n    bands:\n      - capacity: 5\n  - id: c\n    bands:\n      - capacity: 9\n");
  });
  it("refuses a rule that is not in the text", () => {
    expect(() => editRule(read(text), "other", [])).toThrow("no rule other");
  });
});

describe("withRules", () => {
  it("replaces the rules and keeps the rest", () => {
    expect(read(withRules(read("id: a\ncostTables: {}\nrules: []\n"), [{ id: "b" }])).value).toEqual({ id: "a", costTables: {}, rules: [{ id: "b" }] });
  });
});

describe("money", () => {
  const budget = (capacity: unknown, cost = "usd"): RuleSet => ({ id: "llm", rules: [{ id: "budget", cost, bands: [{ capacity, refillTokens: 12_345, refill: "1d" }] }] }) as RuleSet;

  it("is written with its currency and sent as a number", () => {
    const text = textOf(budget(500_000_000));
    expect(text).toContain("capacity: 500 USD\n        refillTokens: 12345\n");
    expect(read(text).value).toEqual(budget(500_000_000));
    expect(read(text.replace("500 USD", "12.40 usd")).value).toEqual(budget(12_400_000));
  });

  it.each(["500 EUR", "12.345 USD", "a lot"])("leaves %s to the server", (typed) => {
    expect(read(textOf(budget(1)).replace("capacity: 1", `capacity: ${typed}`)).value).toEqual(budget(typed));
  });

  it("reads what is no rule set", () => {
    for (const text of ["5", "rules: 5", "rules: [5, null, {bands: 5}, {bands: [5, null, []]}]"]) expect(read(text).marks).toEqual([]);
  });
});

describe("numbers that JavaScript does not have", () => {
  const answer = '{"id":"a","rules":[{"id":"r","bands":[{"capacity":5,"refillTokens":5,"refillSeconds":3600}],"attributes":{"account":9007199254740993,"big":1e400,"price":1.10}}]}';

  it("are kept by an edit of another field", () => {
    const text = editRule(read(textOf(parseJSON(answer) as RuleSet)), "r", [{ path: ["bands", 0, "capacity"], value: 6 }]);
    expect(writeJSON(read(text).value)).toBe(answer.replace('"capacity":5', '"capacity":6'));
    expect(writeJSON(read(withRules(read(text), read(text).value!.rules)).value)).toBe(answer.replace('"capacity":5', '"capacity":6'));
  });
  it("are kept as they are typed", () => {
    expect(writeJSON(read("id: a\nrules: []\nx: [-9007199254740993, 1e400]\n").value)).toBe('{"id":"a","rules":[],"x":[-9007199254740993,1e400]}');
  });
  it.each([".inf", "-.Inf", ".nan", "0xfffffffffffffffff", "+9007199254740993"])("refuses %s at its line", (number) => {
    const source = read(`id: a\nx: ${number}\n`);
    expect([source.value, source.marks[0]?.line]).toEqual([undefined, 2]);
  });
});
