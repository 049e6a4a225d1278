import { describe, expect, it } from "vitest";
import type { Rule } from "./draft";
import { parseIdentity } from "./identity";
import { canPropose, exempt } from "./proposals";

describe("parseIdentity", () => {
  it("reads the fields of a request", () => {
    expect(parseIdentity("user alice")).toEqual({ userId: "alice" });
    expect(parseIdentity("ip 2001:db8::/64")).toEqual({ ip: "2001:db8::/64" });
    expect(parseIdentity("ip 192.0.2.1, path /api/a b")).toEqual({ ip: "192.0.2.1", path: "/api/a b" });
  });
  it("refuses what names no caller, is cut or ambiguous", () => {
    for (const text of [undefined, "", "everyone", "anonymous", "user ali…", "tier premium", "user a, user b", "user a, b", " alice", "user a\ufffd", "user \"bob, ip 192.0.2.1\""]) {
      expect(parseIdentity(text), String(text)).toBeUndefined();
    }
  });
});

const limit: Rule = {
  id: "per-user",
  path: "/api/**",
  priority: 10,
  limitScope: "USER_ID",
  bands: [{ capacity: 5, refill: "1s" }],
  when: { hosts: ["a.example"] },
  createdAt: "2026-01-01T00:00:00Z",
};
const subject = { ruleSet: "api", rule: "per-user", identity: { userId: "a b" } };

describe("proposals", () => {
  it("exempts the caller where the rule matches, before it", () => {
    const [first, added] = exempt(subject).apply([limit]);
    expect(first).toBe(limit);
    expect(added).toEqual({ id: "exempt-a-b", action: "allow", path: "/api/**", priority: 11, when: { hosts: ["a.example"], users: ["a b"] } });
  });
  it("takes a free id", () => {
    const rules = exempt(subject).apply(exempt(subject).apply([limit]));
    expect(rules.map((r) => r.id)).toEqual(["per-user", "exempt-a-b", "exempt-a-b-2"]);
  });
  it("says that the rule is gone", () => {
    expect(() => exempt(subject).apply([])).toThrow("no rule per-user");
  });
  it("needs a user or an address", () => {
    expect(canPropose({ path: "/a" })).toBe(false);
    expect(canPropose({ ip: "192.0.2.1", path: "/a" })).toBe(true);
  });
});
