import type { components } from "./schema.js";

type Schemas = components["schemas"];

/** What is known about a request. Every field is optional. */
export type CheckRequest = Omit<Schemas["Request"], "timeoutMs" | "bytes">;
/** The answer to a request. */
export type Decision = Schemas["Decision"];
/** The state of one band of a decision. */
export type Band = Schemas["Band"];
/** What a request has used. */
export type Usage = Schemas["Usage"];
/** How many tokens were given back or charged. */
export type Settlement = Schemas["Settlement"];
/** Settlements by measure. */
export type Settlements = Schemas["Settlements"];

/** The actual cost of a request: under rules that count requests, or what it has used. */
export type Actual = { actual: number; usage?: never } | { usage: Usage; actual?: never };
