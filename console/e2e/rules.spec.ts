import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, type Page } from "@playwright/test";
import { test, tokens, type Fleet } from "./fleet";
import { goTo, lookAround, openAs } from "./page";

const rules = [
  { id: "per-user", path: "/shop/**", limitScope: "USER_ID", bands: [{ label: "burst", capacity: 5, refill: "1s" }] },
  { id: "per-address", path: "/shop/**", limitScope: "IP", bands: [{ label: "minute", capacity: 600, refill: "1m" }, { label: "day", kind: "quota", capacity: 10000, period: "day" }] },
  { id: "health", path: "/health", action: "allow", priority: 100 },
];

async function create(fleet: Fleet, id: string): Promise<void> {
  const answer = await fleet.servers[0]!.call("PUT", `/v1/rule-sets/${id}?comment=the+first`, { id, rules }, { "If-None-Match": "*" });
  expect(answer.status).toBe(201);
}

// saveElsewhere is another operator that saves a rule set, on another server.
async function saveElsewhere(fleet: Fleet, id: string, rules: unknown, revision: number): Promise<void> {
  const answer = await fleet.servers[1]!.call("PUT", `/v1/rule-sets/${id}?comment=mine+first`, { id, rules }, { "If-Match": `"${revision}"` });
  expect(answer.status, await answer.text()).toBe(200);
}

interface RuleSet {
  rules: { id: string; mode?: string; enabled?: boolean; priority?: number; bands?: { capacity: number }[] }[];
}

// saved is a rule of a rule set as it is saved.
async function saved(fleet: Fleet, id: string, rule = "per-user") {
  const set = (await (await fleet.servers[0]!.call("GET", `/v1/rule-sets/${id}`)).json()) as RuleSet;
  return set.rules.find((r) => r.id === rule);
}

// editor is the editor of the text.
const editor = (page: Page, id: string) => page.getByRole("textbox", { name: `Rules of ${id} as YAML` });

// replaceText replaces the first occurrence of a text in the editor, by keyboard.
async function replaceText(page: Page, from: string, to: string): Promise<void> {
  const line = page.locator(".cm-line", { hasText: from }).first();
  const text = (await line.textContent()) ?? "";
  await line.click();
  await page.keyboard.press("End");
  for (let i = text.indexOf(from); i < text.length; i++) await page.keyboard.press("Shift+ArrowLeft");
  await page.keyboard.type(to + text.slice(text.indexOf(from) + from.length));
}

async function review(page: Page): Promise<void> {
  await page.getByRole("button", { name: /Review( changes)?$/ }).first().click();
  await expect(page.getByRole("region", { name: "Changes" })).toBeVisible();
}

async function setMode(page: Page, rule: string, mode: string): Promise<void> {
  await page.getByRole("button", { name: `Change ${rule}`, exact: true }).click();
  await page.getByRole("dialog").getByText(mode, { exact: true }).click();
  await page.getByRole("button", { name: "Review the change" }).click();
  await expect(page.getByRole("region", { name: "Changes" })).toBeVisible();
}

test("a rule is found, put into shadow, enforced and restored", async ({ browser, fleet }, info) => {
  await create(fleet, "shop");
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  await goTo(page, "#/rules");
  await page.getByRole("searchbox", { name: "Search" }).fill("per-address");
  await expect(page.getByRole("region", { name: "Rules of shop" })).toBeVisible();
  await expect(page.getByRole("link", { name: "health" })).toHaveCount(0);
  await page.getByRole("searchbox", { name: "Search" }).fill("");
  // The rules under load have rates.
  await expect(page.getByRole("region", { name: "Rules of api-limits" }).getByRole("row", { name: /per-user/ })).toContainText(/\d\.\d/);
  await lookAround(page, info, "list");

  await page.getByRole("region", { name: "Rules of api-limits" }).getByRole("link", { name: "per-user" }).click();
  await expect(page.getByRole("region", { name: "Requests per second" })).toContainText(/Allowed\d/);
  await lookAround(page, info, "rule");

  await goTo(page, "#/rules");
  await page.getByRole("link", { name: "shop", exact: true }).click();
  await expect(page.getByRole("heading", { level: 1, name: "shop" })).toBeVisible();
  await lookAround(page, info, "rules");

  await page.getByRole("button", { name: "Change per-user", exact: true }).click();
  await expect(page.getByRole("dialog")).toBeVisible();
  await lookAround(page, info, "form");
  await page.keyboard.press("Escape");

  await setMode(page, "per-user", "Shadow");
  await expect(page.getByRole("region", { name: "Changes" })).toContainText("mode: shadow");
  await lookAround(page, info, "review");
  expect((await saved(fleet, "shop"))?.mode ?? "enforce").toBe("enforce"); // nothing is saved before
  await page.getByLabel("Comment").fill("try it");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved as revision 2.")).toBeVisible();
  expect((await saved(fleet, "shop"))?.mode).toBe("shadow");
  await expect(page.getByRole("row", { name: /per-user/ })).toContainText("shadow");

  await setMode(page, "per-user", "Enforce");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved as revision 3.")).toBeVisible();
  expect((await saved(fleet, "shop"))?.mode ?? "enforce").toBe("enforce");

  await page.getByRole("link", { name: "History" }).click();
  await expect(page.getByRole("row", { name: /try it/ })).toContainText("token:operator");
  await expect(page.getByRole("row", { name: /^Revision 3 / })).toContainText("–"); // no comment
  await page.getByRole("link", { name: "Compare revision 2 with the current" }).click();
  await expect(page.getByRole("region", { name: /to revision 2/ })).toContainText("added: + mode: shadow");
  await lookAround(page, info, "history");
  await page.getByRole("button", { name: "Restore revision 2" }).click();
  await expect(page.getByText("Restored revision 2 as revision 4.")).toBeVisible();
  expect((await saved(fleet, "shop"))?.mode).toBe("shadow");
  await page.close();
  expect(wrong).toEqual([]);
});

test("a rule that counts refused requests can be an alternative", async ({ browser, fleet }) => {
  const limit = { countRefused: true, bands: [{ capacity: 5, kind: "quota", period: "hour" }] };
  const rules = [{ ...limit, id: "per-user" }, { ...limit, id: "other", mode: "alternative" }, { id: "plain", bands: [{ capacity: 5, refill: "1s" }] }];
  const created = await fleet.servers[0]!.call("PUT", "/v1/rule-sets/quotas", { id: "quotas", rules }, { "If-None-Match": "*" });
  expect(created.status).toBe(201);
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  await goTo(page, "#/rules/quotas");
  await expect(page.getByRole("row", { name: /other/ })).toContainText("alternative");
  await page.getByRole("button", { name: "Change plain" }).click();
  await expect(page.getByRole("dialog").getByText("Alternative", { exact: true })).toHaveCount(0);
  await page.keyboard.press("Escape");
  await setMode(page, "per-user", "Alternative");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved as revision 2.")).toBeVisible();
  expect((await saved(fleet, "quotas"))?.mode).toBe("alternative");
  await page.close();
  expect(wrong).toEqual([]);
});

test("limits are changed by the form, with the server's refusal at the field", async ({ browser, fleet }, info) => {
  await create(fleet, "form");
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  await goTo(page, "#/rules/form");
  await page.getByRole("button", { name: "Change per-user", exact: true }).click();
  await page.getByLabel("Capacity").fill("-7");
  await page.getByRole("button", { name: "Review the change" }).click();
  await expect(page.getByRole("dialog")).toContainText("must be at least 1");
  await lookAround(page, info, "form-refused");
  await page.getByLabel("Capacity").fill("50");
  await page.getByLabel("Every").fill("10s");
  await page.getByRole("switch", { name: "Enabled" }).uncheck({ force: true });
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved as revision 2.")).toBeVisible();
  expect(await saved(fleet, "form")).toMatchObject({ enabled: false, bands: [{ capacity: 50, refillTokens: 50, refillSeconds: 10 }] });
  await page.close();
  expect(wrong).toEqual([]);
});

test("the text is edited, with the server's problems at their lines", async ({ browser, fleet }, info) => {
  await create(fleet, "text");
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  // Nothing is said of a text before the server has answered.
  let answer = () => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  await page.route("**/v1/validate", async (route) => {
    await held;
    await route.continue();
  });
  await goTo(page, "#/rules/text?view=yaml");
  await expect(editor(page, "text")).toContainText("per-user");
  await expect(page.getByText("Checking.")).toBeVisible();
  await expect(page.getByText("The server found no problem.")).toHaveCount(0);
  answer();
  await expect(page.getByText("The server found no problem.")).toBeVisible();
  await page.unrouteAll({ behavior: "wait" });
  await replaceText(page, "capacity: 5", "capacity: -5");
  await expect(page.getByRole("alert").getByText("rules[2].bands[0].capacity: must be at least 1")).toBeVisible();
  await expect(page.locator(".cm-lint-marker-error")).toHaveCount(1);
  await expect(page.locator(".cm-lintRange-error")).toHaveText("capacity: -5");
  await lookAround(page, info, "yaml-problem");
  // The line leads to its place in the text.
  await page.getByRole("button", { name: /^Line \d+$/ }).click();
  await expect(page.locator(".cm-activeLine")).toContainText("capacity: -5");
  // An invalid text cannot be saved.
  await page.getByRole("button", { name: "Review changes" }).click();
  await expect(page.getByRole("alert")).toContainText("must be at least 1");
  await expect(page.getByRole("button", { name: "Save" })).toHaveCount(0);
  await page.getByRole("button", { name: "Edit as YAML" }).click();
  // What is no YAML is marked too.
  await replaceText(page, "capacity: -5", "capacity: [5");
  await expect(page.getByRole("alert")).toContainText(/Line \d+/);
  await replaceText(page, "capacity: [5", "capacity: 55");
  await expect(page.getByText("The server found no problem.")).toBeVisible();
  await lookAround(page, info, "yaml");
  await review(page);
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved as revision 2.")).toBeVisible();
  expect((await saved(fleet, "text"))?.bands?.[0]?.capacity).toBe(55);
  await page.close();
  expect(wrong).toEqual([]);
});

test("another operator saves first: both sides are shown, and mine goes on top", async ({ browser, fleet }, info) => {
  await create(fleet, "both");
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  await goTo(page, "#/rules/both");
  await setMode(page, "per-user", "Shadow");
  // The other one changes another rule and this one, between the look and the save.
  const theirs = rules.map((r) => (r.id === "health" ? { ...r, priority: 7 } : r.id === "per-user" ? { ...r, bands: [{ label: "burst", capacity: 9, refill: "1s" }] } : r));
  let first = true;
  await page.route("**/v1/rule-sets/both", async (route) => {
    if (first && route.request().method() === "PUT") {
      first = false;
      expect(route.request().headers()["if-match"]).toBe('"1"');
      await saveElsewhere(fleet, "both", theirs, 1);
    }
    await route.continue();
  });
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("alert")).toContainText("based on revision 1, the current one is 2");
  await expect(page.getByRole("alert")).toContainText("mine first");
  await expect(page.getByRole("region", { name: "My changes" })).toContainText("mode: shadow");
  await expect(page.getByRole("region", { name: "Their changes" })).toContainText("capacity: 9");
  await lookAround(page, info, "conflict");
  await page.getByRole("button", { name: "Put mine on top of theirs" }).click();
  await expect(page.getByText("Nothing was changed by both.")).toBeVisible();
  await expect(page.getByRole("region", { name: "Changes" })).toContainText("mode: shadow");
  await expect(page.getByRole("region", { name: "Changes" })).not.toContainText("capacity: 5");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved as revision 3.")).toBeVisible();
  expect(await saved(fleet, "both")).toMatchObject({ mode: "shadow", bands: [{ capacity: 9 }] });
  expect((await saved(fleet, "both", "health"))?.priority).toBe(7);

  // The same field on both sides: mine is taken and named, or theirs.
  await page.getByRole("button", { name: "Change per-user", exact: true }).click();
  await page.getByLabel("Capacity").fill("20");
  await page.getByRole("button", { name: "Review the change" }).click();
  await expect(page.getByRole("region", { name: "Changes" })).toBeVisible();
  await saveElsewhere(fleet, "both", rules, 3);
  await expect(page.getByText("based on revision 3, the current one is 4")).toBeVisible(); // seen without saving
  await page.getByRole("button", { name: "Put mine on top of theirs" }).click();
  await expect(page.getByText(/Both changed rules\.per-user\.bands\.burst\.capacity.*yours is taken/)).toBeVisible();
  await saveElsewhere(fleet, "both", theirs, 4);
  await page.getByRole("button", { name: "Take theirs, discard mine" }).click();
  await expect(page.getByText("Your changes were discarded.")).toBeVisible();
  await expect(page.getByRole("row", { name: /per-user/ })).toContainText("9 per 1s");
  expect((await saved(fleet, "both"))?.bands?.[0]?.capacity).toBe(9);
  await page.close();
  expect(wrong).toEqual([]);
});

test("a reader sees the rules and why they cannot be changed", async ({ browser, fleet }, info) => {
  await create(fleet, "read");
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "reader");
  await goTo(page, "#/rules/read");
  await expect(page.getByText("You are token:reader with the role read. Changing rules and buckets needs the role write.")).toBeVisible();
  await expect(page.getByRole("button", { name: /Change/ })).toHaveCount(0);
  await lookAround(page, info, "reader");
  await page.getByRole("link", { name: "YAML" }).click();
  await expect(editor(page, "read")).toContainText("per-user");
  await editor(page, "read").pressSequentially("ZZZ");
  await expect(editor(page, "read")).not.toContainText("Z");
  await expect(page.getByRole("button", { name: "Review changes" })).toHaveCount(0);
  await page.getByRole("link", { name: "History" }).click();
  await expect(page.getByRole("row", { name: /the first/ })).toBeVisible();
  await expect(page.getByText("Unsaved changes")).toHaveCount(0);
  await page.close();
  expect(wrong).toEqual([]);
});

test("rules in files are shown and cannot be changed", async ({ browser, fleet }) => {
  const file = join(fleet.folder, "files.yaml");
  writeFileSync(file, "ruleSets:\n  - id: api-limits\n    rules:\n      - {id: everyone, bands: [{capacity: 5, refill: 1s}]}\n");
  const server = await fleet.startServer(`{file: "${file}"}`);
  await server.ready();
  const { page, wrong } = await openAs(browser, server.admin, "operator");
  await goTo(page, "#/rules/api-limits");
  await expect(page.getByText("The rules are in files and cannot be changed here.")).toBeVisible();
  await expect(page.getByRole("row", { name: /everyone/ })).toBeVisible();
  await expect(page.getByRole("button", { name: /Change/ })).toHaveCount(0);
  await page.close();
  expect(wrong).toEqual([]);
});

test("what was typed survives a token that ends", async ({ browser, fleet }) => {
  await create(fleet, "typed");
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  await goTo(page, "#/rules/typed?view=yaml");
  await replaceText(page, "capacity: 5", "capacity: 77");
  await review(page);
  await page.getByLabel("Comment").fill("before it ended");
  fleet.accept("reader", "gateway");
  const notice = page.getByRole("dialog", { name: "The token is not accepted any more" });
  await expect(notice).toBeVisible();
  fleet.accept("reader", "operator", "gateway");
  await expect(async () => {
    if (await notice.isVisible()) {
      await notice.getByRole("textbox", { name: "Token" }).fill(tokens.operator, { timeout: 5000 });
      await notice.getByRole("button", { name: "Sign in" }).click({ timeout: 5000 });
    }
    await expect(notice).toBeHidden({ timeout: 1000 });
  }).toPass();
  await expect(page.getByLabel("Comment")).toHaveValue("before it ended");
  await expect(page.getByRole("region", { name: "Changes" })).toContainText("capacity: 77");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved as revision 2.")).toBeVisible();
  expect((await saved(fleet, "typed"))?.bands?.[0]?.capacity).toBe(77);
  await page.close();
  expect(wrong).toEqual([]);
});

test("a limited caller is found, explained and exempted", async ({ browser, fleet }, info) => {
  await create(fleet, "vip");
  const server = fleet.servers[0]!;
  const check = async () => ((await (await server.check({ ruleSet: "vip", userId: "carol", ip: "192.0.2.8", method: "GET", path: "/shop/cart" })).json()) as { allowed: boolean }).allowed;
  const answers: boolean[] = [];
  for (let i = 0; i < 100 && !answers.includes(false); i++) answers.push(await check());
  expect(answers).toContain(false);
  const { page, wrong } = await openAs(browser, server.admin, "operator");
  await goTo(page, "#/callers?ruleSet=vip");
  await page.getByRole("link", { name: /Explain.*carol/ }).click();
  await expect(page.getByRole("region", { name: "Bucket of per-user" })).toContainText(/of 5 tokens left/);
  await page.goBack();
  await page.getByRole("button", { name: /Exempt.*carol/ }).click();
  await expect(page.getByRole("heading", { name: "Exempt user carol from per-user" })).toBeVisible();
  await expect(page.getByRole("region", { name: "Changes" })).toContainText("- carol");
  await lookAround(page, info, "exempt");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved as revision 2.")).toBeVisible();
  await expect(page.getByRole("row", { name: /exempt-carol/ })).toContainText("exempt");
  for (let i = 0; i < 12; i++) expect(await check()).toBe(true);
  await page.close();
  expect(wrong).toEqual([]);
});

test("text of others is shown as text", async ({ browser, fleet }) => {
  const script = "<img src=x onerror=alert(1)><script>alert(2)</script>";
  const id = "hostile";
  const hostile = [{ id: "a", path: "/" + script, attributes: { note: script }, when: { users: [script, "'\"); alert(3)//"] }, bands: [{ label: "l", capacity: 5, refill: "1s" }] }];
  const created = await fleet.servers[0]!.call("PUT", `/v1/rule-sets/${id}?comment=${encodeURIComponent(script)}`, { id, rules: hostile }, { "If-None-Match": "*" });
  expect(created.status).toBe(201);
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  page.on("dialog", () => wrong.push("a script ran"));
  for (const view of ["", "?view=yaml", "?view=history", "?rule=a"]) {
    await goTo(page, `#/rules/${id}${view}`);
    await expect(page.getByText("Loading")).toHaveCount(0);
    await expect(page.locator("main").getByText(script).first()).toBeVisible();
  }
  expect(await page.locator("main img, main script").count()).toBe(0);
  await page.close();
  expect(wrong).toEqual([]);
});

test("a rule set is created", async ({ browser, fleet }) => {
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  await goTo(page, "#/rules");
  await page.getByRole("button", { name: "New rule set" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("fresh");
  await page.getByRole("button", { name: "Go on" }).click();
  await editor(page, "fresh").click();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText("id: fresh\nrules:\n  - id: one\n    bands: [{capacity: 5, refill: 1s}]\n");
  await review(page);
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved as revision 1.")).toBeVisible();
  expect((await saved(fleet, "fresh", "one"))?.bands?.[0]?.capacity).toBe(5);
  await page.close();
  expect(wrong).toEqual([]);
});
