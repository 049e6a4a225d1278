import { useSyncExternalStore } from "react";
import { ago } from "./format";

const listeners = new Set<() => void>();
let now = Date.now();
let ticking: number | undefined;

// One timer for all times on the screen.
function subscribe(changed: () => void): () => void {
  listeners.add(changed);
  if (ticking === undefined) {
    now = Date.now();
    ticking = window.setInterval(() => {
      now = Date.now();
      for (const listener of listeners) listener();
    }, 1000);
  }
  return () => {
    listeners.delete(changed);
    if (listeners.size === 0) {
      window.clearInterval(ticking);
      ticking = undefined;
    }
  };
}

export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

// Ago shows a time relative to now, and the absolute one on hover.
export function Ago({ time }: { time: string | undefined }) {
  const then = time ? new Date(time) : undefined;
  const reference = useNow();
  if (!then || Number.isNaN(then.getTime())) return <span>unknown</span>;
  return (
    <time dateTime={then.toISOString()} title={then.toLocaleString()}>
      {ago(then.getTime(), reference)}
    </time>
  );
}
