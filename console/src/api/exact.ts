// Numbers of JSON that JavaScript would write otherwise: 9007199254740993, 1e400, 1.10. They are kept as
// they are written, since rules may have any in their attributes.

// Exact is such a number.
export class Exact {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

export const jsonNumber = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

// numberOf returns a number as it is written in JSON.
export function numberOf(text: string): number | Exact {
  const n = Number(text);
  return JSON.stringify(n) === text ? n : new Exact(text);
}

const stringOrNumber = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

// marker begins the strings that stand for exact numbers meanwhile. Nobody can guess it.
function marker(): string {
  return `exact ${Math.random()} ${Math.random()} `;
}

export function parseJSON(text: string): unknown {
  const mark = marker();
  const marked = text.replace(stringOrNumber, (token) => (token.startsWith('"') || numberOf(token) instanceof Exact === false ? token : JSON.stringify(mark + token)));
  if (marked === text) return JSON.parse(text);
  JSON.parse(text); // what is no JSON stays an error
  return JSON.parse(marked, (_, value: unknown) => (typeof value === "string" && value.startsWith(mark) ? new Exact(value.slice(mark.length)) : value));
}

export function writeJSON(value: unknown): string {
  const mark = marker();
  const text = JSON.stringify(value, (_, v: unknown) => (v instanceof Exact ? mark + v.text : v));
  return text.replaceAll(new RegExp(`"${mark.replaceAll(".", "\\.")}([^"]*)"`, "g"), "$1");
}
