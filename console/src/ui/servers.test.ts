import { expect, it } from "vitest";
import type { Fleet } from "../api/live";
import { notStored } from "./servers";

it("names the rule sets in effect that are not stored, of running servers", () => {
  const servers = [{ revisions: { api: 2, lost: 3 } }, { revisions: { lost: 4 } }];
  expect(notStored({ servers } as unknown as Fleet, ["api"])).toEqual([{ id: "lost", revisions: [3, 4] }]);
  expect(notStored(undefined, [])).toEqual([]);
});
