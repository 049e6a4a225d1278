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

/** The bands that headers and problem documents show, by their names. */
export function named(d: Decision): [name: string, band: Band][] {
  return (d.bands ?? []).filter((b) => !b.shadow).map((b) => [`${b.rule}.${bandName(b)}`, b]);
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
  let entries = named(d).filter(([, b]) => b.status !== "unavailable" && b.status !== "not asked");
  const binding = entries.find(([name]) => name === `${d.rule ?? ""}.${d.band!}`);
  if (entries.length > maxEntries) {
    entries = entries.slice(0, maxEntries);
    if (binding && !entries.includes(binding)) entries[maxEntries - 1] = binding;
  }
  if (entries.length === 0) return headers;
  headers["RateLimit"] = entries.map(([name, b]) => `"${name}";r=${b.remaining};t=${ceilSeconds(windowLeft(b, d))}`).join(", ");
  headers["RateLimit-Policy"] = entries.map(([name, b]) => policy(name, b)).join(", ");
  return headers;
}

/** How long until a band is full, or a rejected request can be sent again if that is sooner. */
function windowLeft(b: Band, d: Decision): number {
  const left = Math.max(0, (b.fullAfterMs ?? 0) - (d.waitMs ?? 0));
  return d.retryAfterMs ? Math.min(left, d.retryAfterMs) : left;
}

function policy(name: string, b: Band): string {
  const unit = b.measure === undefined ? "" : `;qu="${b.measure}"`;
  const window = b.kind === "quota" || b.kind === "concurrency" ? "" : `;w=${ceilSeconds(((b.refillMs ?? 0) * b.capacity) / (b.refillTokens ?? b.capacity))}`;
  return `"${name}";q=${b.limit}${unit}${window}`;
}
