import { expect, test } from "vitest";
import { verdictOf } from "./words";

test("a request that only shadow rules match is no request without a rule", () => {
  const decision = { allowed: true, reason: "no-rule", remaining: 0 } as const;
  const band = { rule: "all", band: "daily", shadow: true, status: "ok", source: "store", limit: 3, remaining: 2 };
  expect(verdictOf(decision)).toBe("It would pass: no rule applies.");
  expect(verdictOf({ ...decision, bands: [band] as never })).toBe("It would pass: only shadow rules apply.");
});
