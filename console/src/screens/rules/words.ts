import { amountOf } from "../../ui/amount";
import type { Rule } from "./text";

type Band = NonNullable<Rule["bands"]>[number];

// The words for a rule in tables.

// limitOf says what a band of a rule that counts a measure admits, such as "100 per 1m".
export function limitOf(band: Band, measure?: string): string {
  const most = amountOf(band.capacity, measure);
  switch (band.kind) {
    case "concurrency":
      return `${most} concurrent requests`;
    case "quota":
      return `${most} per ${band.period ?? "?"}${band.timezone ? ` (${band.timezone})` : ""}`;
    case "sliding-window":
      return `${most} in any ${band.period ?? "?"}`;
  }
  const period = band.refill ?? (band.refillSeconds ? duration(band.refillSeconds) : "?");
  if (band.refillTokens === undefined || band.refillTokens === band.capacity) return `${most} per ${period}`;
  return `${amountOf(band.refillTokens, measure)} per ${period}, at most ${most} at once`;
}

const units = [
  ["d", 86400],
  ["h", 3600],
  ["m", 60],
] as const;

// duration returns seconds as rules write them, in the largest unit that divides them.
export function duration(seconds: number): string {
  const unit = units.find(([, size]) => seconds % size === 0);
  return unit ? `${seconds / unit[1]}${unit[0]}` : `${seconds}s`;
}

export function limitsOf(rule: Rule): string {
  if (rule.action === "allow") return "no limit";
  if (rule.action === "deny") return "rejected";
  return (rule.bands ?? []).map((band) => limitOf(band, rule.cost)).join("; ");
}

// matchOf says which requests a rule is for.
export function matchOf(rule: Rule): string {
  const methods = rule.methods ?? (rule.method ? [rule.method] : []);
  const paths = rule.paths ?? (rule.path ? [rule.path] : []);
  const conditions = Object.keys(rule.when ?? {});
  return [methods.join(", "), paths.join(", ") || "every path", conditions.length > 0 ? `when ${conditions.join(", ")}` : ""].filter(Boolean).join(" ");
}

// State is what a rule does to requests now.
export type State = "disabled" | "ended" | "shadow" | "alternative" | "exempt" | "deny" | "enforced";

export function stateOf(rule: Rule): State {
  if (rule.enabled === false) return "disabled";
  if (rule.until && Date.parse(rule.until) <= Date.now()) return "ended";
  if (rule.mode === "shadow") return "shadow";
  if (rule.action === "allow") return "exempt";
  if (rule.mode === "alternative") return "alternative";
  return rule.action === "deny" ? "deny" : "enforced";
}

// contains says whether a rule has the text that is searched for.
export function contains(rule: Rule, search: string): boolean {
  const text = [rule.id, rule.group, rule.limitScope, stateOf(rule), matchOf(rule), limitsOf(rule), JSON.stringify(rule.when ?? {})].join(" ");
  return text.toLowerCase().includes(search.trim().toLowerCase());
}
