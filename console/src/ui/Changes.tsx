import type { Schemas } from "../api/client";
import { written } from "./amount";

type RuleDiff = Schemas["RuleDiff"];

// Changes lists the differences of a change, rule by rule. What it gets is JSON of
// the API without a type.
export function Changes({ changes }: { changes: unknown }) {
  if (!Array.isArray(changes) || changes.length === 0) return null;
  const diffs = changes as RuleDiff[];
  return (
    <details>
      <summary>{diffs.length === 1 ? "1 rule" : `${diffs.length} rules`}</summary>
      <ul className="plain">
        {diffs.map((d) => (
          <li key={d.rule} className="breakable">
            {d.rule} {d.change}
            <FieldList diff={d} />
          </li>
        ))}
      </ul>
    </details>
  );
}

function FieldList({ diff }: { diff: RuleDiff }) {
  if (!diff.fields?.length) return null;
  return (
    <ul className="plain">
      {diff.fields.map((f) => (
        <li key={f.path} className="breakable">
          <code>{f.path}</code>: {shown(f.before, f.path, diff.measure)} → {shown(f.after, f.path, diff.measure)}
        </li>
      ))}
    </ul>
  );
}

function shown(value: unknown, path: string, measure: string | undefined): string {
  if (typeof value === "number" && /^bands\[.*\.(capacity|refillTokens)$/.test(path)) return String(written(value, measure));
  return value === undefined ? "none" : JSON.stringify(value);
}
