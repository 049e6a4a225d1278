import type { Caller } from "../api/live";

// CallerName shows who a caller is, or the hash that names its bucket.
export function CallerName({ caller }: { caller: Pick<Caller, "identity" | "key"> }) {
  if (caller.identity)
    return (
      <span className="clamped" title={caller.identity}>
        {caller.identity}
      </span>
    );
  return (
    <code className="breakable" title={"Key " + caller.key}>
      {caller.key.length > 16 ? caller.key.slice(0, 16) + "…" : caller.key}
    </code>
  );
}
