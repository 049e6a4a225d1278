import { describe, expect, it } from "vitest";
import { diffLines, shorten, type Line } from "./diff";

const shown = (lines: Line[]) => lines.map((l) => (l.kind === "gap" ? `@${l.count}` : { same: " ", added: "+", removed: "-" }[l.kind] + l.text));
const diff = (before: string, after: string) => shown(diffLines(before, after));
const sides = (lines: Line[]) => ({
  before: lines.flatMap((l) => (l.kind === "same" || l.kind === "removed" ? [l.text] : [])),
  after: lines.flatMap((l) => (l.kind === "same" || l.kind === "added" ? [l.text] : [])),
});

describe("diffLines", () => {
  it.each([
    ["equal texts", "a\nb\n", "a\nb\n", [" a", " b"]],
    ["two empty texts", "", "", []],
    ["a first text", "", "a\n", ["+a"]],
    ["a text removed", "a\n", "", ["-a"]],
    ["a line changed", "a\nb\nc\n", "a\nx\nc\n", [" a", "-b", "+x", " c"]],
    ["a line added at the start", "b\n", "a\nb\n", ["+a", " b"]],
    ["a line removed at the end", "a\nb\n", "a\n", [" a", "-b"]],
    ["two changes apart", "a\nb\nc\nd\n", "x\nb\nc\ny\n", ["-a", "+x", " b", " c", "-d", "+y"]],
    ["lines that repeat", "a\na\nb\na\n", "a\nb\na\na\n", [" a", "-a", " b", "+a", " a"]],
    ["a text without a last line break", "a\nb", "a\nb\n", [" a", " b"]],
    ["text that looks like markup", "a: 1\n", "a: <script>alert(1)</script>\n", ["-a: 1", "+a: <script>alert(1)</script>"]],
  ])("%s", (_, before, after, want) => {
    expect(diff(before, after)).toEqual(want);
  });

  // Of random texts, both are in the difference, and no shorter one is possible.
  it("is a shortest difference of random texts", () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
    for (let round = 0; round < 500; round++) {
      const text = () => Array.from({ length: random(9) }, () => "abc"[random(3)]!);
      const [a, b] = [text(), text()];
      const lines = diffLines(a.join("\n"), b.join("\n"));
      if (a.length > 0 && b.length > 0) expect(sides(lines)).toEqual({ before: a, after: b });
      expect(lines.filter((l) => l.kind === "same").length).toBe(common(a, b));
    }
  });

  it("shows texts without anything in common as replaced", () => {
    const a = Array.from({ length: 3000 }, (_, i) => "a" + i);
    const b = Array.from({ length: 3000 }, (_, i) => "b" + i);
    expect(sides(diffLines(a.join("\n"), b.join("\n")))).toEqual({ before: a, after: b });
  });
});

// common is the length of the longest common subsequence, by definition.
function common(a: string[], b: string[]): number {
  if (a.length === 0 || b.length === 0) return 0;
  if (a[0] === b[0]) return 1 + common(a.slice(1), b.slice(1));
  return Math.max(common(a.slice(1), b), common(a, b.slice(1)));
}

describe("shorten", () => {
  it("keeps the lines around a change", () => {
    const before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    expect(shown(shorten(diffLines(before, before.replace("5", "x")), 1))).toEqual(["@3", " 4", "-5", "+x", " 6", "@3"]);
  });
  it("names the rule that follows a gap", () => {
    const before = "rules:\n  - id: a\n    x: 1\n  - id: b\n    x: 1\n    y: 1\n    z: 1\n";
    expect(shorten(diffLines(before, before.replace("z: 1", "z: 2")), 1)[0]).toEqual({ kind: "gap", count: 5, within: "b" });
  });
  it("says that nothing changed by one gap", () => {
    expect(shown(shorten(diffLines("1\n2\n", "1\n2\n")))).toEqual(["@2"]);
  });
});
