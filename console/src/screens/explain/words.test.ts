import { expect, test } from "vitest";
import { leftOf, noVerdict, verdictOf, type Band } from "./words";

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
