import { useSyncExternalStore } from "react";

// Routes are in the fragment of the address (#/callers?rule=a), so that the server
// serves one page and the address of a screen can be shared. No secret is ever in it.

export type Query = Record<string, string | number | undefined>;

export interface Route {
  path: string;
  query: URLSearchParams;
}

// Path is a path as it is, or its parts, which are encoded: ["rules", ruleSet].
export type Path = string | string[];

// href returns the address of a screen. Values of the query are encoded; empty ones
// are left out.
export function href(path: Path, query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") given.set(name, String(value));
  }
  const text = given.toString();
  const start = typeof path === "string" ? path : "/" + path.map(encodeURIComponent).join("/");
  return "#" + start + (text ? "?" + text : "");
}

export function navigate(path: Path, query: Query = {}): void {
  window.location.hash = href(path, query);
}

// replaceQuery changes the query of the current screen without a new entry in the
// history.
export function replaceQuery(query: Query): void {
  window.history.replaceState(null, "", href(parse(window.location.hash).path, query));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

export function parse(hash: string): Route {
  const text = hash.replace(/^#/, "") || "/";
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  return { path: path.startsWith("/") ? path : "/", query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)) };
}

let seen = "";
let current = parse("");

function snapshot(): Route {
  if (window.location.hash !== seen) {
    seen = window.location.hash;
    current = parse(seen);
  }
  return current;
}

function subscribe(changed: () => void): () => void {
  window.addEventListener("hashchange", changed);
  return () => window.removeEventListener("hashchange", changed);
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, snapshot);
}
