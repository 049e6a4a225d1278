import type { Schemas } from "../../api/client";
import { amountOf, currencyOf } from "../../ui/amount";

type Decision = Schemas["Decision"];
type Verdict = Schemas["Verdict"];
export type Band = Schemas["Band"];

// whyNot says why a rule does not apply.
export function whyNot({ why, detail }: Verdict): string {
  const about = detail ?? "";
  switch (why) {
    case "disabled":
      return "It is disabled.";
    case "expired":
      return "It has ended.";
    case "path":
      return "None of its paths matches.";
    case "excluded-path":
      return "It excludes this path.";
    case "method":
      return "It is for other methods.";
    case "host":
      return "It is for other hosts.";
    case "header":
      return `The header ${about} is missing or has another value.`;
    case "attribute":
      return `The attribute ${about} is missing or has another value.`;
    case "descriptor":
      return "It is for other descriptors.";
    case "ip":
      return "It is for other addresses.";
    case "user":
      return "It is for other users.";
    case "api-key":
      return "It is for other API keys.";
    case "group":
      return `Rule ${about} of its group comes first.`;
    case "ended":
      return `Rule ${about} has decided before it.`;
    case "reading":
      return "It exempts only some of the ways to read the path.";
  }
  return [why, detail].filter(Boolean).join(" ");
}

const reasons: Record<string, string> = {
  ok: "every limit has room for it",
  exempt: "a rule exempts it",
  "no-rule": "no rule applies",
  "no-rule-set": "there is no such rule set",
  limited: "a limit is used up",
  "cost-too-high": "it costs more than the limit can ever hold",
  denied: "a rule rejects it",
  "bad-path": "its path cannot be read",
  "too-many-rules": "too many rules match",
  "missing-identity": "the identity that a rule needs is missing",
};

// verdictOf says what would happen to the request, in one sentence.
export function verdictOf(d: Decision): string {
  const what = d.allowed ? ((d.waitMs ?? 0) > 0 ? `It would wait ${time(d.waitMs!)}, then pass` : "It would pass") : "It would be rejected";
  const rule = d.rule ? ` Rule ${d.rule}${d.band ? `, limit ${d.band}` : ""} decides.` : "";
  const retry = d.retryAfterMs ? ` It fits in ${time(d.retryAfterMs)}.` : "";
  const degraded = d.degraded && d.reason !== "store-failure" ? " Redis is unavailable for at least one rule." : "";
  return `${what}: ${reasonOf(d)}.${rule}${retry}${degraded}`;
}

function reasonOf(d: Decision): string {
  if (d.reason === "no-rule" && d.bands?.length) return "only shadow rules apply";
  if (d.reason === "store-failure") return `Redis does not answer, and onFailure is ${d.allowed ? "open" : "closed"}`;
  return reasons[d.reason] ?? d.reason;
}

// noVerdict says why a decision would not answer a question about a rule, or is empty if it would: the rule
// does not apply to the request.
export function noVerdict({ ruleSet, rules }: Schemas["Explanation"], about: string): string {
  const verdict = rules.find((r) => r.rule === about);
  if (!about || verdict?.applies) return "";
  const how = "Change the request to one that the caller makes.";
  return verdict ? `Rule ${about} does not apply to this request: ${whyNot(verdict)} ${how}` : `Rule set ${ruleSet} has no rule ${about} any more.`;
}

// time returns milliseconds in the unit that reads best.
export function time(ms: number): string {
  if (ms < 1000) return `${round(ms)} ms`;
  if (ms < 120_000) return `${round(ms / 1000)} s`;
  if (ms < 7_200_000) return `${round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${round(ms / 3_600_000)} h`;
  return `${round(ms / 86_400_000)} days`;
}

function round(n: number): string {
  return n.toLocaleString("en", { maximumFractionDigits: n < 10 ? 1 : 0 });
}

// refillOf says how a band is filled again.
export function refillOf(band: Band): string {
  const full = (band.fullAfterMs ?? 0) > 0 ? ` Full in ${time(band.fullAfterMs!)}.` : band.remaining >= band.limit ? " It is full." : "";
  const share = isShare(band) ? ` Without Redis this server has its share of ${amountOf(band.capacity, band.measure)}.` : "";
  switch (band.kind) {
    case "concurrency":
      return `A slot is free when its request is settled, at the latest after ${time(band.holdMs ?? 0)}.${share}`;
    case "quota":
      return `All come back at the end of the ${band.period ?? "period"}${band.timezone ? ` in ${band.timezone}` : ""}.${full}${share}`;
    case "sliding-window":
      return `Each comes back ${time(band.refillMs ?? 0)} after it was taken.${full}${share}`;
  }
  const refill = amountOf(band.refillTokens ?? 0, band.measure);
  return `${share ? `A share of ${refill} comes` : `${refill} come`} back every ${time(band.refillMs ?? 0)}.${full}${share}`;
}

// isShare says whether the limit is the share of one server, which counts without Redis.
export function isShare(band: Band): boolean {
  return band.source === "fallback" && band.limit < band.capacity;
}

export function leftOf(band: Band): string {
  const limit = amountOf(band.limit, band.measure);
  const owed = band.owed ? `, ${amountOf(band.owed, band.measure, "ceil")} owed` : "";
  if (currencyOf(band.measure)) return unknown(band) ? `Not known how much is left of ${limit}` : `${amountOf(band.remaining, band.measure)} of ${limit} left${owed}`;
  const what = band.kind === "concurrency" ? "slots" : (band.measure ?? "tokens");
  if (unknown(band)) return `Not known how many ${what} are left of ${limit}`;
  return `${amountOf(band.remaining, band.measure)} of ${limit} ${what} left${owed}`;
}

// unknown says whether the store could not say what is left.
export function unknown(band: Band): boolean {
  return band.status === "unavailable";
}
