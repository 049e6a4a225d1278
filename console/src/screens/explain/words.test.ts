import { expect, test } from "vitest";
import { leftOf, noVerdict, refillOf, verdictOf, type Band } from "./words";

test("what the store does not say is not called empty", () => {
  const band: Band = { rule: "all", status: "unavailable", source: "none", limit: 1_000_000, capacity: 1_000_000, remaining: 0 };
  expect(leftOf(band)).toBe("Not known how many tokens are left of 1,000,000");
  expect(leftOf({ ...band, status: "ok", source: "store", remaining: 2500 })).toBe("2,500 of 1,000,000 tokens left");
  expect(leftOf({ ...band, measure: "tokens", status: "ok", source: "store", remaining: 12_400 })).toBe("12.4k of 1M tokens left");
  expect(leftOf({ ...band, measure: "usd", status: "ok", source: "store", limit: 500_000_000, remaining: 12_400_000 })).toBe("$12.40 of $500.00 left");
  expect(leftOf({ ...band, measure: "usd", remaining: 0 })).toBe("Not known how much is left of $1.00");
});

test("a request that only shadow rules match is no request without a rule", () => {
  const decision = { allowed: true, reason: "no-rule", remaining: 0 } as const;
  const band = { rule: "all", band: "daily", shadow: true, status: "ok", source: "store", limit: 3, remaining: 2 };
  expect(verdictOf(decision)).toBe("It would pass: no rule applies.");
  expect(verdictOf({ ...decision, bands: [band] as never })).toBe("It would pass: only shadow rules apply.");
});

test("there is no verdict about a rule that does not apply", () => {
  const rules = [{ rule: "a", applies: true, priority: 0 }, { rule: "b", applies: false, why: "attribute", detail: "plan", priority: 0 }];
  const explanation = { ruleSet: "api", rules };
  expect(noVerdict(explanation, "")).toBe("");
  expect(noVerdict(explanation, "a")).toBe("");
  expect(noVerdict(explanation, "b")).toBe("Rule b does not apply to this request: The attribute plan is missing or has another value. Change the request to one that the caller makes.");
  expect(noVerdict(explanation, "c")).toBe("Rule set api has no rule c any more.");
});

test("the share of a server without Redis does not get back what the whole limit does", () => {
  const band: Band = { rule: "all", status: "ok", source: "store", limit: 5, capacity: 5, remaining: 1, refillTokens: 5, refillMs: 1000 };
  const share: Band = { ...band, source: "fallback", limit: 2 };
  expect(refillOf(band)).toBe("5 come back every 1 s.");
  expect(refillOf(share)).toBe("A share of 5 comes back every 1 s. Without Redis this server has its share of 5.");
  expect(refillOf({ ...share, kind: "quota", period: "month" })).toBe("All come back at the end of the month. Without Redis this server has its share of 5.");
  expect(refillOf({ ...band, source: "fallback" })).toBe("5 come back every 1 s."); // the whole limit
});

test("a decision without Redis says once why", () => {
  const decision = { remaining: 0, degraded: true, rule: "pay" };
  expect(verdictOf({ ...decision, allowed: false, reason: "store-failure" })).toBe("It would be rejected: Redis does not answer, and onFailure is closed. Rule pay decides.");
  expect(verdictOf({ ...decision, allowed: true, reason: "store-failure" })).toBe("It would pass: Redis does not answer, and onFailure is open. Rule pay decides.");
  expect(verdictOf({ ...decision, allowed: false, reason: "limited", retryAfterMs: 300 })).toBe(
    "It would be rejected: a limit is used up. Rule pay decides. It fits in 300 ms. Redis is unavailable for at least one rule.",
  );
});
