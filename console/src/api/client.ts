import createClient from "openapi-fetch";
import { parseJSON, writeJSON } from "./exact";
import type { HealthPath } from "./live";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

// The token is in this variable only: not in storage, a cookie or an address. It is
// gone when the page is closed or reloaded.
let token = "";

export function setToken(value: string): void {
  token = value;
}

let unauthorized = () => {};

// onUnauthorized sets what is called when the server answers 401.
export function onUnauthorized(call: () => void): void {
  unauthorized = call;
}

// ApiError is an answer that is no success. status is 0 if there was no answer.
export class ApiError extends Error {
  readonly status: number;
  readonly problem: Problem | undefined;

  constructor(status: number, message: string, problem?: Problem) {
    super(message);
    this.status = status;
    this.problem = problem;
  }
}

// api is the client of the admin API, typed by its OpenAPI document:
// await unwrap(api.GET("/v1/rule-sets/{ruleSet}", { params: { path: { ruleSet } } }))
export const api = createClient<paths & HealthPath>({ baseUrl: window.location.origin, cache: "no-store", credentials: "same-origin", bodySerializer: writeJSON });

// asText makes a call return its text, for exactly.
export const asText = { parseAs: "text" } as const;

// exactly parses the text of an answer and keeps its numbers as they are written.
export async function exactly<T>(answer: Promise<Answer<string>>): Promise<{ data: T; headers: Headers }> {
  const { data, headers } = await withHeaders(answer);
  return { data: parseJSON(data) as T, headers };
}

api.use({
  onRequest({ request }) {
    if (token) request.headers.set("Authorization", "Bearer " + token);
    return request;
  },
  onResponse({ response }) {
    if (response.status === 401) unauthorized();
  },
  onError: noAnswer,
});

// noAnswer is the error of a request that failed without an answer.
export function noAnswer() {
  return new ApiError(0, "The server does not answer.");
}

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

// unwrap returns the body of an answer, or throws an ApiError.
export async function unwrap<T>(answer: Promise<Answer<T>>): Promise<T> {
  return (await withHeaders(answer)).data;
}

// withHeaders is unwrap with the headers of the answer, which have the ETag.
export async function withHeaders<T>(answer: Promise<Answer<T>>): Promise<{ data: T; headers: Headers }> {
  const { data, error, response } = await answer;
  if (response.ok) return { data: data as T, headers: response.headers };
  const problem = isProblem(error) ? error : undefined;
  throw new ApiError(response.status, problem?.detail || problem?.title || `The server answered ${response.status}.`, problem);
}

function isProblem(error: unknown): error is Problem {
  return typeof error === "object" && error !== null && "status" in error;
}
