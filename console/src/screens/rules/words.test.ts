import { describe, expect, it } from "vitest";
import { contains, duration, limitOf, limitsOf, matchOf, stateOf } from "./words";

describe("the words for a rule", () => {
  it.each([
    [{ capacity: 5, refillSeconds: 1 }, "5 per 1s"],
    [{ capacity: 5, refillTokens: 5, refillSeconds: 3600 }, "5 per 1h"],
    [{ capacity: 50, refillTokens: 5, refill: "100ms" }, "5 per 100ms, at most 50 at once"],
    [{ capacity: 5, kind: "quota" as const, period: "day", timezone: "Asia/Seoul" }, "5 per day (Asia/Seoul)"],
    [{ capacity: 5, kind: "sliding-window" as const, period: "1m" }, "5 in any 1m"],
    [{ capacity: 5, kind: "concurrency" as const, hold: "30s" }, "5 concurrent requests"],
  ])("%o", (band, want) => {
    expect(limitOf(band)).toBe(want);
  });
  it.each([
    [1, "1s"],
    [90, "90s"],
    [120, "2m"],
    [7200, "2h"],
    [2592000, "30d"],
  ])("%d seconds", (seconds, want) => {
    expect(duration(seconds)).toBe(want);
  });
  it("says what a rule does", () => {
    expect(stateOf({ id: "a", enabled: false, mode: "shadow" })).toBe("disabled");
    expect(stateOf({ id: "a", mode: "shadow" })).toBe("shadow");
    expect(stateOf({ id: "a", mode: "alternative" })).toBe("alternative");
    expect(stateOf({ id: "a", action: "allow" })).toBe("exempt");
    expect(limitsOf({ id: "a", action: "deny" })).toBe("rejected");
    expect(limitsOf({ id: "a", cost: "usd", bands: [{ capacity: 500_000_000, kind: "quota", period: "month" }] })).toBe("$500.00 per month");
    expect(matchOf({ id: "a", methods: ["GET", "PUT"], path: "/a/*", when: { users: ["bob"] } })).toBe("GET, PUT /a/* when users");
    expect(matchOf({ id: "a" })).toBe("every path");
  });
  it("finds a rule by its id, path, user and state, without regard to case", () => {
    const rule = { id: "per-user", path: "/Api/**", when: { users: ["bob"] }, mode: "shadow" as const };
    for (const search of ["PER-", "/api", "bob", "shadow", "  per-user "]) expect(contains(rule, search)).toBe(true);
    expect(contains(rule, "alice")).toBe(false);
  });
});
