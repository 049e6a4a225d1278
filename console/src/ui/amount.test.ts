import { describe, expect, it } from "vitest";
import { amountOf, parsed, written } from "./amount";

describe("amounts", () => {
  it.each([
    [12_400_000, "usd", "$12.40", "$12.40"],
    [500_000_000, "USD", "$500.00", "$500.00"],
    [1_234_567_890_000, "usd", "$1,234,567.89", "$1,234,567.89"],
    [499_999_900, "usd", "$499.99", "$500.00"],
    [12_410_000, "usd", "$12.41", "$12.41"],
    [42_345, "usd", "$0.0423", "$0.0424"],
    [115, "eur", "€0.000115", "€0.000115"],
    [0, "usd", "$0.00", "$0.00"],
    [1_500_500_000, "jpy", "¥1,500", "¥1,501"],
    [1_234_500, "kwd", "KWD 1.234", "KWD 1.235"],
    [-1_250_000, "usd", "-$1.25", "-$1.25"],
    [9_999, "tokens", "9,999", "9,999"],
    [12_400, "tokens", "12.4k", "12.4k"],
    [15_990, "tokens", "15.9k", "16k"],
    [1_234_567, "tokens", "1.23M", "1.24M"],
    [12_400, undefined, "12,400", "12,400"],
    [12_400, "images", "12,400", "12,400"],
  ])("shows %d of %s", (n, measure, floor, ceil) => {
    expect([amountOf(n, measure), amountOf(n, measure, "ceil")]).toEqual([floor, ceil]);
  });

  it.each([
    [500_000_000, "usd", "500 USD"],
    [12_400_000, "usd", "12.40 USD"],
    [1_500_000_000, "jpy", "1500 JPY"],
    [1_234_000, "kwd", "1.234 KWD"],
    [0, "usd", "0 USD"],
  ])("writes %d of %s and reads it", (n, measure, text) => {
    expect(written(n, measure)).toBe(text);
    expect(parsed(text, measure)).toBe(n);
  });

  it("writes numbers that no amount has", () => {
    expect([written(1, "usd"), written(500_000, "jpy"), written(5, "tokens"), written(5, undefined)]).toEqual([1, 500_000, 5, 5]);
  });

  it.each([
    ["500 EUR", "usd"],
    ["500 USD", "tokens"],
    ["500 USD", undefined],
    ["12.345 USD", "usd"],
    ["12.5 JPY", "jpy"],
    ["-5 USD", "usd"],
    ["1,000 USD", "usd"],
    ["$500", "usd"],
    ["99999999999999 USD", "usd"],
    ["500", "usd"],
  ])("leaves %s of %s to the server", (text, measure) => {
    expect(parsed(text, measure)).toBe(text);
  });
});
