import type { Schemas } from "../api/client";
import { amountOf } from "./amount";

type Band = Schemas["BandDocument"];

// overridable returns the bands of a rule as an override may have them: the percentages of warnAt stay those of the rule.
export function overridable(bands: Band[]): Band[] {
  return bands.map((band) => {
    const allowed = { ...band };
    delete allowed.warnAt;
    return allowed;
  });
}

type Numbers = Pick<Schemas["OverrideDocument"], "times" | "bands">;

// numbersOf returns the numbers of an override of a rule that counts a measure in words: "10 times" or "hourly 500".
export function numbersOf({ times, bands }: Numbers, measure: string | undefined): string {
  if (!bands?.length) return `${times ?? 1} times`;
  const amount = (n: number) => amountOf(n, measure);
  return bands.map((b) => `${b.label ? b.label + " " : ""}${amount(b.capacity)}${b.refillTokens ? `, refill ${amount(b.refillTokens)}` : ""}`).join("; ");
}

// identityOf returns a caller in words. Of an API key it shows the first digits of its digest.
export function identityOf(identity: { [field: string]: string }): string {
  const parts = Object.entries(identity).map(([field, value]) => `${field} ${field === "apiKey" ? value.slice(0, 15) + "…" : value}`);
  return parts.sort().join(", ") || "all callers";
}
