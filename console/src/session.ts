import { useSyncExternalStore } from "react";
import { api, ApiError, onUnauthorized, setToken, unwrap, type Schemas } from "./api/client";

export type Who = Schemas["Who"];

// Session is who uses the console.
//   - starting: the server was not asked yet whether it needs a token
//   - signedOut: it needs one
//   - signedIn: who is known
//   - ended: the token was accepted before and is not any more. The screen stays, so
//     that nothing typed is lost.
//   - failed: the server does not say
export type Session =
  | { state: "starting" | "signedOut" }
  | { state: "signedIn" | "ended"; who: Who }
  | { state: "failed"; error: Error };

let session: Session = { state: "starting" };
const listeners = new Set<() => void>();

function set(next: Session): void {
  session = next;
  for (const changed of listeners) changed();
}

onUnauthorized(() => {
  if (session.state !== "signedIn") return;
  setToken("");
  set({ state: "ended", who: session.who });
});

// start asks whether a token is needed. A listener without authentication, or with
// a client certificate, needs none.
export async function start(): Promise<void> {
  try {
    set({ state: "signedIn", who: await whoami() });
  } catch (error) {
    set(error instanceof ApiError && error.status === 401 ? { state: "signedOut" } : { state: "failed", error: error as Error });
  }
}

// signIn uses a token, or throws why it is not accepted.
export async function signIn(token: string): Promise<void> {
  setToken(token);
  try {
    set({ state: "signedIn", who: await whoami() });
  } catch (error) {
    setToken("");
    throw error;
  }
}

export function signOut(): void {
  setToken("");
  set({ state: "signedOut" });
}

function whoami(): Promise<Who> {
  return unwrap(api.GET("/v1/whoami"));
}

function subscribe(changed: () => void): () => void {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

export function useSession(): Session {
  return useSyncExternalStore(subscribe, () => session);
}

// useWho returns who is signed in. It is for screens, which exist only then.
export function useWho(): Who {
  const now = useSession();
  if (!("who" in now)) throw new Error("no one is signed in");
  return now.who;
}

export function isSignedIn(): boolean {
  return session.state === "signedIn";
}
