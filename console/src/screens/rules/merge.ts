import { Exact } from "../../api/exact";

// Merged is the result of a merge, and the fields that both sides changed: there the
// value is mine.
export interface Merged<T> {
  value: T;
  both: string[];
}

// merge puts my changes of a base on top of theirs. Lists of objects with an id or a
// label are merged by it, other lists as a whole.
export function merge<T>(base: T, mine: T, theirs: T): Merged<T> {
  const both: string[] = [];
  return { value: mergeAt(base, mine, theirs, "", both) as T, both };
}

function mergeAt(base: unknown, mine: unknown, theirs: unknown, path: string, both: string[]): unknown {
  if (equal(mine, base) || equal(mine, theirs)) return theirs;
  if (equal(theirs, base)) return mine;
  if (isObject(mine) && isObject(theirs)) return mergeFields(isObject(base) ? base : {}, mine, theirs, path, both);
  const [b, m, t] = [byName(base ?? []), byName(mine), byName(theirs)];
  if (b && m && t) return Object.values(mergeFields(b, m, t, path, both));
  both.push(path);
  return mine;
}

type Fields = Record<string, unknown>;

// mergeFields keeps their order; what I added comes after it.
function mergeFields(base: Fields, mine: Fields, theirs: Fields, path: string, both: string[]): Fields {
  const merged: [string, unknown][] = [];
  for (const name of new Set([...Object.keys(theirs), ...Object.keys(mine), ...Object.keys(base)])) {
    const value = mergeAt(field(base, name), field(mine, name), field(theirs, name), path ? `${path}.${name}` : name, both);
    if (value !== undefined) merged.push([name, value]);
  }
  return Object.fromEntries(merged);
}

// field returns a field of the object itself: a rule may be called constructor.
function field(of: Fields, name: string): unknown {
  return Object.hasOwn(of, name) ? of[name] : undefined;
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Exact);
}

// byName returns the objects of a list by their ids or labels, or undefined if one
// has none or two have the same. The space keeps names such as 1 in their order.
function byName(value: unknown): Fields | undefined {
  if (!Array.isArray(value)) return undefined;
  const found = new Map<string, unknown>();
  for (const item of value as unknown[]) {
    const name = isObject(item) ? (item.id ?? item.label) : undefined;
    if (typeof name !== "string" || found.has(name)) return undefined;
    found.set(name, item);
  }
  return Object.fromEntries([...found].map(([name, item]) => [/^\d+$/.test(name) ? " " + name : name, item]));
}

export function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (a instanceof Exact && b instanceof Exact) return a.text === b.text;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => equal(item, b[i]));
  if (!isObject(a) || !isObject(b)) return false;
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => equal(field(a, name), field(b, name)));
}
