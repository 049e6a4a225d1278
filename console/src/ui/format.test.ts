import { expect, it } from "vitest";
import { rejected } from "./format";

it("counts the requests that a rule denies as rejected", () => {
  expect([rejected({ limited: 1, denied: 2 }), rejected({ limited: 0, denied: 0 }), rejected(undefined)]).toEqual([3, 0, undefined]);
});
