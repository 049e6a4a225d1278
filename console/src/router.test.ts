import { expect, it } from "vitest";
import { href, parse } from "./router";
import { ago, rate, span } from "./ui/format";

it("encodes what an address is built of", () => {
  expect(href(["rules", "a/b?c#d"], { rule: "x&y=z", empty: "" })).toBe("#/rules/a%2Fb%3Fc%23d?rule=x%26y%3Dz");
  const route = parse(href("/explain", { userId: "<script>&" }));
  expect(route.path).toBe("/explain");
  expect(route.query.get("userId")).toBe("<script>&");
});

it("leads unknown addresses to the first screen", () => {
  expect(parse("").path).toBe("/");
  expect(parse("#javascript:alert(1)").path).toBe("/");
});

it("writes times and rates for people", () => {
  expect(ago(0, 12_000)).toBe("12 s ago");
  expect(ago(0, 400)).toBe("now");
  expect(ago(90_000, 0)).toBe("in 90 s");
  expect(span(3 * 3600)).toBe("3 h");
  expect([0, 0.001, 1.234, 12.34, 1234.5, null].map(rate)).toEqual(["0", "< 0.01", "1.23", "12.3", "1,235", "–"]);
});
