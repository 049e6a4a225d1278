import { isMap, isScalar, isSeq, LineCounter, parseDocument, stringify, visit, type Document, type ParsedNode, type ScalarTag, type Tags } from "yaml";
import type { Schemas } from "../../api/client";
import { Exact, jsonNumber, numberOf, parseJSON, writeJSON } from "../../api/exact";
import { parsed, written } from "../../ui/amount";

export type RuleSet = Schemas["RuleSetDocument"];
export type Rule = Schemas["RuleDocument"];

type Detail = Schemas["ProblemDetail"];

// Mark is a problem at a place of the text.
export interface Mark {
  line: number;
  from: number;
  to: number;
  message: string;
}

// kept are the fields of a rule that the control plane keeps itself.
const kept = ["ruleSetId", "createdAt", "updatedAt"];

// plain writes what two rules share twice: no anchors, which `rules validate` refuses, and
// which would change both rules at once.
const plain = { aliasDuplicateObjects: false };

// exact is a number that is kept as it is written.
const exact: ScalarTag = {
  tag: "tag:yaml.org,2002:float",
  default: true,
  test: jsonNumber,
  identify: (value) => value instanceof Exact,
  resolve: (text) => numberOf(text),
  stringify: ({ value }) => (value instanceof Exact ? value.text : JSON.stringify(value)),
};

const numbers = { customTags: (tags: Tags) => [exact, ...tags] };

// withAmounts replaces the numbers of the limits of a rule. Other programs may have written them: they can be anything.
function withAmounts<R>(rule: R, replace: (value: unknown, measure: string | undefined) => unknown): R {
  const { bands, cost } = (rule ?? {}) as { bands?: unknown; cost?: string };
  if (!Array.isArray(bands)) return rule;
  const amounts = (band: object) => Object.entries(band).map(([name, value]) => [name, name === "capacity" || name === "refillTokens" ? replace(value, cost) : value]);
  return { ...rule, bands: bands.map((band: unknown) => (isObject(band) ? Object.fromEntries(amounts(band)) : band)) };
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// textOf writes a rule set as YAML, each rule with its id first, and money with its currency.
export function textOf(set: RuleSet): string {
  const rules = set.rules
    .map((rule) => withAmounts(rule, (n, measure) => (typeof n === "number" ? written(n, measure) : n)))
    .map(({ id, ...rule }) => ({ id, ...Object.fromEntries(Object.entries(rule).filter(([name]) => !kept.includes(name))) }));
  return stringify({ ...set, rules }, { ...plain, ...numbers, lineWidth: 0 });
}

type Parsed = Document.Parsed<ParsedNode>;

// Source is a text with what was read of it.
export interface Source {
  text: string;
  document: Parsed;
  // value is the rule set, or undefined if the text is no YAML. Its fields may be
  // wrong: the server checks them.
  value: RuleSet | undefined;
  // marks are the places where the text is no YAML.
  marks: Mark[];
}

export function read(text: string): Source {
  const lines = new LineCounter();
  const document = parseDocument(text, { ...numbers, lineCounter: lines, prettyErrors: false });
  const marks = document.errors.map((error) => markAt(text, error.pos[0], error.pos[1], error.message));
  visit(document, {
    Scalar: (_, { value, source, range }) => {
      if (typeof value !== "number" || source === undefined || !range || jsonNumber.test(source) || Number.isSafeInteger(value)) return;
      marks.push(markAt(text, range[0], range[1], `${source} is not a number of JSON: write its digits, or quote it.`));
    },
  });
  if (marks.length > 0) return { text, document, value: undefined, marks };
  try {
    // As it is sent: a value that contains itself is an error.
    const value = parseJSON(writeJSON(document.toJS())) as RuleSet;
    if (isObject(value) && Array.isArray(value.rules)) {
      value.rules = value.rules.map((rule) => withAmounts(rule, (n, measure) => (typeof n === "string" ? parsed(n, measure) : n)));
    }
    return { text, document, value, marks };
  } catch (error) {
    return { text, document, value: undefined, marks: [markAt(text, 0, 1, (error as Error).message.split("\n")[0]!)] }; // or too many aliases
  }
}

// marksOf finds the places of problems that the server names by their paths.
export function marksOf(source: Source, problems: Detail[]): Mark[] {
  return problems.map((problem) => {
    const [from, to] = rangeOf(source.document, problem.path ?? []);
    const place = problem.location?.replace(/^body\.?/, "");
    return markAt(source.text, from, to, (place ? place + ": " : "") + problem.message);
  });
}

// rangeOf returns where a path is. Of a field that is missing, it is where its parent
// begins.
function rangeOf(document: Parsed, path: readonly unknown[]): [number, number] {
  let node: unknown = document.contents;
  let range: [number, number] = [0, 0];
  for (const part of path) {
    if (isMap<ParsedNode, ParsedNode | null>(node)) {
      const pair = node.items.find((p) => isScalar(p.key) && String(p.key.value) === String(part));
      if (!pair?.key.range) break;
      range = [pair.key.range[0], isScalar(pair.value) && pair.value.range ? pair.value.range[1] : pair.key.range[1]];
      node = pair.value;
    } else if (isSeq<ParsedNode>(node)) {
      const item = node.items[Number(part)];
      if (!item?.range) break;
      range = [item.range[0], item.range[1]];
      node = item;
    } else break;
  }
  return range;
}

// markAt keeps to the line where the range begins.
function markAt(text: string, from: number, to: number, message: string): Mark {
  const start = Math.min(from, text.length);
  const lineEnd = text.indexOf("\n", start);
  const end = Math.min(Math.max(to, start), lineEnd < 0 ? text.length : lineEnd);
  return { line: text.slice(0, start).split("\n").length, from: start, to: end, message };
}

// Edit sets a field of a rule, or removes it if the value is undefined.
export interface Edit {
  path: (string | number)[];
  value: unknown;
}

// editRule changes fields of a rule in the text and leaves the rest as it is typed, but
// for aliases: each becomes the value that it stands for.
export function editRule(source: Source, rule: string, edits: Edit[]): string {
  const index = source.value?.rules.findIndex((r) => r.id === rule) ?? -1;
  if (index < 0) throw new Error(`The text has no rule ${rule}.`);
  let aliases = false;
  visit(source.document, { Alias: () => { aliases = true; } });
  const document = aliases ? read(textOf(source.value!)).document : (source.document.clone() as Parsed);
  for (const { path, value } of edits) {
    if (value === undefined) document.deleteIn(["rules", index, ...path]);
    else document.setIn(["rules", index, ...path], document.createNode(value, plain));
  }
  return document.toString({ lineWidth: 0 });
}

// withRules replaces the rules of a text.
export function withRules(source: Source, rules: Rule[]): string {
  if (!source.value) throw new Error("The text is no YAML: correct it first.");
  return textOf({ ...source.value, rules });
}
