import type { Band, Decision } from "./types.js";

/** The lists have at most so many entries. */
const maxEntries = 8;

export const ceilSeconds = (ms: number): number => Math.ceil(ms / 1000);

const units: [string, number][] = [["d", 86_400_000_000], ["h", 3_600_000_000], ["m", 60_000_000], ["s", 1_000_000], ["ms", 1_000], ["us", 1]];

/** The label of a band, or its numbers, such as 100-per-1m. */
function bandName(b: Band): string {
  if (b.label !== undefined) return b.label;
  if (b.kind === "concurrency") return `${b.capacity}-at-once`;
  if (b.kind === "quota") return `${b.capacity}-per-${b.period ?? ""}`;
  const us = Math.round((b.refillMs ?? 0) * 1000);
  const [suffix, length] = units.find(([, length]) => us % length === 0)!;
  return `${b.refillTokens ?? b.capacity}-per-${us / length}${suffix}`;
}

/** The name of a limit: with a slash where it would else be that of another, because the rule or the band has a dot. */
export function policyName(rule: string, band: string): string {
  return rule + (rule.includes(".") || band.includes(".") ? "/" : ".") + band;
}

/** The bands that headers and problem documents show, by their names. */
export function named(d: Decision): [name: string, band: Band][] {
  return (d.bands ?? []).filter((b) => !b.shadow).map((b) => [policyName(b.rule, bandName(b)), b]);
}

/** The headers of a decision, as the middleware for Go sets them. */
export function rateLimitHeaders(d: Decision): Record<string, string> {
  const headers: Record<string, string> = {};
  const seconds = ceilSeconds(d.retryAfterMs ?? 0);
  if (!d.allowed && seconds > 0) headers["Retry-After"] = String(seconds);
  if (d.band === undefined) return headers;
  headers["X-RateLimit-Limit"] = String(d.limit ?? 0);
  headers["X-RateLimit-Remaining"] = String(d.remaining);
  if (d.timeMs !== undefined) headers["X-RateLimit-Reset"] = String(ceilSeconds(d.timeMs + (d.resetAfterMs ?? 0)));
  let entries = named(d).filter(([, b]) => b.status !== "unavailable" && b.status !== "not asked" && hasUnit(b));
  const binding = entries.find(([name]) => name === policyName(d.rule ?? "", d.band!));
  if (entries.length > maxEntries) {
    entries = entries.slice(0, maxEntries);
    if (binding && !entries.includes(binding)) entries[maxEntries - 1] = binding;
  }
  if (entries.length === 0) return headers;
  headers["RateLimit"] = entries.map(([name, b]) => `"${name}";r=${b.remaining}${reset(b, d)}`).join(", ");
  headers["RateLimit-Policy"] = entries.map(([name, b]) => policy(name, b)).join(", ");
  return headers;
}

/** The registered units are requests, bytes and concurrent requests: clients take tokens and money for requests. */
function hasUnit(b: Band): boolean {
  return b.measure === undefined || b.kind === "concurrency";
}

/** When more is left, unless nobody knows, there cannot be more, or a rejected request can be sent again before. */
function reset(b: Band, d: Decision): string {
  if (!b.moreAfterMs || (d.retryAfterMs && b.moreAfterMs > d.retryAfterMs)) return "";
  const left = Math.max(0, b.moreAfterMs - (d.waitMs ?? 0));
  const overflows = left < 1000 && b.kind !== "quota" && windowOf(b) < 1000; // in a second
  return `;t=${overflows ? 0 : ceilSeconds(left)}`;
}

/** How long an empty token bucket or sliding window takes to become full, in milliseconds. */
function windowOf(b: Band): number {
  return ((b.refillMs ?? 0) * b.capacity) / (b.refillTokens ?? b.capacity);
}

function policy(name: string, b: Band): string {
  const unit = b.kind === "concurrency" ? `;qu="concurrent-requests"` : "";
  const window = b.kind === "quota" || b.kind === "concurrency" || windowOf(b) < 1000 ? "" : `;w=${ceilSeconds(windowOf(b))}`;
  return `"${name}";q=${b.limit}${unit}${window}`;
}
