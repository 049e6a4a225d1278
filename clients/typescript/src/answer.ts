import { notAnswer, type FluxGateError, type Problem } from "./errors.js";
import type { Band, Decision, Settlement, Settlements } from "./types.js";

// Answers are copied field by field: what is returned has known fields of known types
// only, whatever the other side has sent.

type Kind = "string" | "id" | "number" | "boolean";

const decisionFields = {
  allowed: "boolean",
  reason: "string",
  rule: "id",
  band: "id",
  limit: "number",
  remaining: "number",
  owed: "number",
  resetAfterMs: "number",
  retryAfterMs: "number",
  waitMs: "number",
  timeMs: "number",
  source: "string",
  degraded: "boolean",
  receipt: "string",
} satisfies Record<Exclude<keyof Decision, "bands">, Kind>;

const bandFields = {
  rule: "id",
  label: "id",
  shadow: "boolean",
  measure: "id",
  cost: "number",
  status: "string",
  source: "string",
  limit: "number",
  remaining: "number",
  owed: "number",
  waitMs: "number",
  moreAfterMs: "number",
  fullAfterMs: "number",
  capacity: "number",
  refillTokens: "number",
  refillMs: "number",
  kind: "string",
  period: "string",
  timezone: "string",
  holdMs: "number",
} satisfies Record<keyof Band, Kind>;

const settlementFields = { returned: "number", charged: "number", queued: "boolean" } satisfies Record<keyof Settlement, Kind>;

/** A property of what JSON.parse has returned, never one of its prototype. */
function own(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}

function isA(value: unknown, kind: Kind): boolean {
  // Numbers are counts and times: none is negative. Ids become a part of headers.
  if (kind === "number") return Number.isFinite(value) && (value as number) >= 0;
  if (kind === "id") return typeof value === "string" && /^[\w.-]{1,128}$/.test(value);
  return typeof value === kind;
}

function pick<T>(value: unknown, fields: Record<string, Kind>, required: string[]): T {
  const picked: Record<string, unknown> = {};
  for (const [name, kind] of Object.entries(fields)) {
    const field = own(value, name);
    if (field === undefined && !required.includes(name)) continue;
    if (!isA(field, kind)) throw notAnswer();
    picked[name] = field;
  }
  return picked as T;
}

export function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notAnswer();
  }
}

export function readDecision(value: unknown): Decision {
  const decision = pick<Decision>(value, decisionFields, ["allowed", "reason", "remaining"]);
  const bands = own(value, "bands");
  if (bands === undefined) return decision;
  if (!Array.isArray(bands)) throw notAnswer();
  decision.bands = bands.map((band) => pick<Band>(band, bandFields, ["rule", "status", "source", "limit", "remaining", "capacity"]));
  return decision;
}

/** One line of the answer to a batch of so many requests: which one it answers, and how. refuse makes an error. */
export function readLine(text: string, size: number, refuse: (status: number, problem: Problem) => FluxGateError): [index: number, entry: Decision | FluxGateError] {
  const line = parse(text);
  const [index, entry] = [own(line, "index"), own(line, "decision")];
  if (!Number.isInteger(index) || (index as number) < 0 || (index as number) >= size) throw notAnswer();
  const status = own(entry, "status");
  if (!Number.isInteger(status)) return [index as number, readDecision(entry)];
  // An entry has no reason: 404 is that of an unknown rule set.
  return [index as number, refuse(status as number, { detail: own(entry, "error"), reason: "no-rule-set" })];
}

export function readSettlement(value: unknown): Settlement {
  return pick(value, settlementFields, ["returned", "charged"]);
}

export function readSettlements(value: unknown): Settlements {
  const measures = own(value, "measures");
  if (typeof measures !== "object" || measures === null) throw notAnswer();
  // fromEntries defines properties: a measure named __proto__ is one like any other.
  return { ...pick<{ queued?: boolean }>(value, { queued: "boolean" }, []), measures: Object.fromEntries(Object.entries(measures).map(([name, of]) => [name, readSettlement(of)])) };
}

export function readReceipt(value: unknown): string {
  return pick<{ receipt: string }>(value, { receipt: "string" }, ["receipt"]).receipt;
}

export function readProblem(text: string): Problem {
  try {
    const problem: unknown = JSON.parse(text);
    const receipt = own(problem, "receipt");
    return { detail: own(problem, "detail"), reason: own(problem, "reason"), ...(typeof receipt === "string" ? { receipt } : {}) };
  } catch {
    return {};
  }
}
