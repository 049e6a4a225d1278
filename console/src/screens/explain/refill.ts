import { isShare, type Band } from "./words";

// Point is how many tokens there are after so many milliseconds.
export interface Point {
  ms: number;
  tokens: number;
}

// Curve is how a band is filled if no request comes. Of an exact one every point is
// known; of another, the first and the last.
export interface Curve {
  points: Point[];
  exact: boolean;
}

// curveOf returns the curve of a band until a while after it is full, or undefined if
// time does not fill it.
export function curveOf(band: Band): Curve | undefined {
  const full = band.fullAfterMs ?? 0;
  const now = band.remaining - (band.owed ?? 0);
  if (band.kind === "concurrency") return undefined;
  if (full <= 0) return { points: [{ ms: 0, tokens: now }, { ms: band.refillMs || 1000, tokens: now }], exact: true };
  const end = { ms: full * 1.15, tokens: band.limit };
  switch (band.kind) {
    case "quota": // all at once
      return { points: [{ ms: 0, tokens: now }, { ms: full, tokens: now }, { ms: full, tokens: band.limit }, end], exact: true };
    case "sliding-window":
      return { points: [{ ms: 0, tokens: now }, { ms: full, tokens: band.limit }, end], exact: false };
  }
  // The share of a server in the fallback is refilled at a share of the rate.
  if (isShare(band)) return { points: [{ ms: 0, tokens: now }, { ms: full, tokens: band.limit }, end], exact: true };
  // The parts of a token that are there already are not in remaining.
  const rate = (band.refillTokens ?? 0) / (band.refillMs || 1);
  return { points: [{ ms: 0, tokens: band.limit - full * rate }, { ms: full, tokens: band.limit }, end], exact: true };
}
