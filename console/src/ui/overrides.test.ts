import { expect, it } from "vitest";
import { overridable } from "./overrides";

it("leaves out what an override may not have", () => {
  expect(overridable([{ label: "month", kind: "quota", capacity: 5, period: "month", warnAt: ["80%"] }])).toEqual([{ label: "month", kind: "quota", capacity: 5, period: "month" }]);
});
