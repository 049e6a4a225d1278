import { VisuallyHidden } from "@mantine/core";
import { useMemo } from "react";
import { diffLines, shorten, type Line } from "./diff";

const signs = { same: " ", added: "+", removed: "−" } as const;

// Diff shows how a text differs from another, line by line.
export function Diff({ label, before, after }: { label: string; before: string; after: string }) {
  const lines = useMemo(() => shorten(diffLines(before, after)), [before, after]);
  const changed = (kind: Line["kind"]) => lines.filter((l) => l.kind === kind).length;
  if (changed("added") + changed("removed") === 0) return <p className="diff-sum">No difference.</p>;
  return (
    <>
      <p className="diff-sum">
        {count(changed("added"))} added, {count(changed("removed"))} removed
      </p>
      <div className="diff" role="region" aria-label={label} tabIndex={0}>
        {lines.map((line, i) => (
          <DiffLine key={i} line={line} />
        ))}
      </div>
    </>
  );
}

function count(n: number): string {
  return n === 1 ? "1 line" : `${n} lines`;
}

function DiffLine({ line }: { line: Line }) {
  if (line.kind === "gap") return <div className="gap">{`… ${count(line.count)} unchanged${line.within ? `, then in ${line.within}` : ""}`}</div>;
  const Tag = line.kind === "added" ? "ins" : line.kind === "removed" ? "del" : "div";
  return (
    <Tag className={line.kind}>
      {line.kind !== "same" && <VisuallyHidden>{line.kind}: </VisuallyHidden>}
      <span aria-hidden>{signs[line.kind]} </span>
      {line.text}
    </Tag>
  );
}
