import { describe, expect, it } from "vitest";
import { curveOf } from "./refill";
import type { Band } from "./words";

const band = (more: Partial<Band>): Band => ({ rule: "r", limit: 10, capacity: 10, remaining: 4, source: "store", status: "ok", ...more });
const points = (b: Band) => curveOf(b)?.points.map((p) => [Math.round(p.ms), p.tokens]);

describe("curveOf", () => {
  it("draws a token bucket as a line, with the parts of a token", () => {
    expect(points(band({ refillTokens: 10, refillMs: 1000, fullAfterMs: 550 }))).toEqual([[0, 4.5], [550, 10], [633, 10]]);
  });
  it("draws the share of a server without Redis from what is left", () => {
    expect(points(band({ source: "fallback", capacity: 5, limit: 2, remaining: 0, refillTokens: 5, refillMs: 1000, fullAfterMs: 800 }))![0]).toEqual([0, 0]);
  });
  it("begins below zero in debt", () => {
    expect(points(band({ remaining: 0, owed: 5, refillTokens: 10, refillMs: 1000, fullAfterMs: 1500 }))![0]).toEqual([0, -5]);
  });
  it("draws a quota as a step", () => {
    expect(points(band({ kind: "quota", fullAfterMs: 1000 }))).toEqual([[0, 4], [1000, 4], [1000, 10], [1150, 10]]);
  });
  it("knows the ends of a sliding window only", () => {
    expect(curveOf(band({ kind: "sliding-window", refillMs: 1000, fullAfterMs: 800 }))!.exact).toBe(false);
  });
  it("draws a full bucket as a level", () => {
    expect(points(band({ remaining: 10, refillTokens: 10, refillMs: 1000 }))).toEqual([[0, 10], [1000, 10]]);
  });
  it("draws nothing for concurrent requests", () => {
    expect(curveOf(band({ kind: "concurrency", holdMs: 1000 }))).toBeUndefined();
  });
});
