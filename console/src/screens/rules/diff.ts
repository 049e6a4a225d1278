// Line is a line of the difference of two texts. A gap stands for lines that are the
// same and not shown; within is the last id among them: the rule of what follows.
export type Line = { kind: "same" | "added" | "removed"; text: string } | { kind: "gap"; count: number; within?: string };

// mostSteps bounds the work for texts that have little in common: what is left then
// is shown as removed and added.
const mostSteps = 1000;

// diffLines returns the lines of both texts in order: a shortest difference.
export function diffLines(before: string, after: string): Line[] {
  const a = linesOf(before);
  const b = linesOf(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  return [
    ...a.slice(0, start).map(same),
    ...between(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...a.slice(a.length - end).map(same),
  ];
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

const same = (text: string): Line => ({ kind: "same", text });
const added = (text: string): Line => ({ kind: "added", text });
const removed = (text: string): Line => ({ kind: "removed", text });

// between is the algorithm of Myers. furthest has, for each diagonal, how far in a a
// path of so many steps gets; each step is one line added or removed.
function between(a: string[], b: string[]): Line[] {
  const most = Math.min(a.length + b.length, mostSteps);
  const trace: Map<number, number>[] = [];
  let furthest = new Map([[1, 0]]);
  for (let steps = 0; steps <= most; steps++) {
    trace.push(furthest);
    const next = new Map(furthest);
    for (let k = -steps; k <= steps; k += 2) {
      let x = down(furthest, k, steps) ? furthest.get(k + 1)! : furthest.get(k - 1)! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      next.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, trace);
    }
    furthest = next;
  }
  return [...a.map(removed), ...b.map(added)];
}

// down says whether a path reaches diagonal k best by adding a line of b.
function down(furthest: Map<number, number>, k: number, steps: number): boolean {
  return k === -steps || (k !== steps && furthest.get(k - 1)! < furthest.get(k + 1)!);
}

function walkBack(a: string[], b: string[], trace: Map<number, number>[]): Line[] {
  const lines: Line[] = [];
  let x = a.length;
  let y = b.length;
  for (let steps = trace.length - 1; steps >= 0; steps--) {
    const furthest = trace[steps]!;
    const k = x - y;
    const adds = down(furthest, k, steps);
    const fromX = steps === 0 ? 0 : furthest.get(adds ? k + 1 : k - 1)!;
    const fromY = steps === 0 ? 0 : fromX - (adds ? k + 1 : k - 1);
    while (x > fromX && y > fromY) {
      lines.push(same(a[--x]!));
      y--;
    }
    if (steps === 0) break;
    if (adds) lines.push(added(b[--y]!));
    else lines.push(removed(a[--x]!));
  }
  return lines.reverse();
}

// shorten leaves out lines that are the same and further than so many from a change.
export function shorten(lines: Line[], context = 3): Line[] {
  const near = new Set<number>();
  lines.forEach((line, i) => {
    if (line.kind !== "same") for (let j = i - context; j <= i + context; j++) near.add(j);
  });
  const shown: Line[] = [];
  lines.forEach((line, i) => {
    const last = shown[shown.length - 1];
    if (near.has(i) || line.kind === "gap") return void shown.push(line);
    const within = /^\s*- id: (.+)/.exec(line.text)?.[1];
    if (last?.kind !== "gap") return void shown.push({ kind: "gap", count: 1, within });
    last.count++;
    last.within = within ?? last.within;
  });
  return shown;
}
