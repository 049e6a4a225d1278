import { FluxGateError } from "./errors.js";
import type { CheckRequest, Usage } from "./types.js";

// A server refuses a batch as a whole if one of its requests has a wrong type or an
// unknown field. Requests are checked here, so that no caller can spoil the batches of
// others, or send a string that JSON cannot carry.

type Check = (value: unknown) => boolean;

const text: Check = (v) => typeof v === "string" && !/\p{Surrogate}/u.test(v);
const flag: Check = (v) => typeof v === "boolean";
const count: Check = (v) => Number.isSafeInteger(v) && (v as number) >= 0;
const list = (of: Check): Check => (v) => Array.isArray(v) && v.every(of);
const isObject = (v: unknown): v is object => typeof v === "object" && v !== null && !Array.isArray(v);
const map = (of: Check): Check => (v) => isObject(v) && Object.entries(v).every(([name, value]) => text(name) && of(value));
const shape = (fields: Record<string, Check>): Check => (v) => isObject(v) && wrongField(v, fields) === undefined;

function wrongField(value: object, fields: Record<string, Check>): string | undefined {
  return Object.entries(value).find(([name, of]) => !Object.hasOwn(fields, name) || !fields[name]!(of))?.[0];
}

const requestFields = {
  ruleSet: text,
  ip: text,
  userId: text,
  apiKey: text,
  method: text,
  path: text,
  host: text,
  headers: map(list(text)),
  attributes: map(text),
  descriptor: list(shape({ key: text, value: text })),
  cost: count,
  costs: map(count),
  estimate: shape({ model: text, inputTokens: count, maxOutputTokens: (v) => count(v) || list(count)(v) }),
  peek: flag,
} satisfies Record<keyof CheckRequest, Check>;

const usageFields = {
  inputTokens: count,
  outputTokens: count,
  cachedInputTokens: count,
  reasoningTokens: count,
  costs: map(count),
} satisfies Record<keyof Usage, Check>;

const settleFields = { receipt: text, actual: count, usage: shape(usageFields) };

/** The longest body in bytes that is sent. */
const maxRequest = 256 << 10;

/** The length of a text in bytes. */
export const byteLength = (of: string): number => new TextEncoder().encode(of).length;

const encode = (fields: Record<string, Check>) => (value: unknown): string => {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch {
    // cyclic, or a bigint
  }
  const plain: unknown = json === undefined ? undefined : JSON.parse(json); // what is sent
  if (!isObject(plain)) throw new FluxGateError("invalid", "the request is invalid: it must be an object");
  const wrong = wrongField(plain, fields);
  if (wrong !== undefined) {
    const name = /^[A-Za-z_]{1,32}$/.test(wrong) ? wrong : "a field"; // its name may be a secret
    throw new FluxGateError("invalid", `the request is invalid: ${name} is unknown, or has a wrong type`);
  }
  if (byteLength(json!) > maxRequest) throw new FluxGateError("invalid", `the request is invalid: it has more than ${maxRequest} bytes`);
  return json!;
};

/** The JSON of a request. What is wrong with it is an error without its values. */
export const encodeRequest = encode(requestFields);
export const encodeSettle = encode(settleFields);
