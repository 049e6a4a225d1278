import { expect } from "@playwright/test";
import { testRedis as test } from "./fleet";
import { goTo, lookAround, openAs } from "./page";

test("a caller gets other numbers until a moment, and they are listed and deleted", async ({ browser, fleet }, info) => {
  fleet.load("acme");
  const server = fleet.servers[0]!;
  const { page, wrong } = await openAs(browser, server.admin, "operator");
  await goTo(page, "#/overrides");
  await expect(page.getByText("api-limits has no overrides")).toBeVisible();

  await goTo(page, "#/callers");
  await page.getByRole("button", { name: "Override for user acme" }).click();
  const form = page.getByRole("dialog", { name: "Override per-user for userId acme" });
  await form.getByRole("spinbutton", { name: "Times" }).fill("10");
  await form.getByLabel("Reason").fill("launch day");
  await lookAround(page, info, "form");
  await form.getByRole("button", { name: "Save" }).click();
  const row = page.getByRole("row").filter({ hasText: "userId acme" });
  await expect(row).toContainText("10 times");
  await expect(row).toContainText("launch day");
  await expect(row).toContainText(/in (5\d|60) min/);
  expect(page.url()).toContain("#/overrides/api-limits");
  await lookAround(page, info, "list");
  // On a narrow screen the caller is beside its title.
  await page.setViewportSize({ width: 390, height: 800 });
  const cell = row.locator('td[data-title="Caller"]');
  expect((await cell.boundingBox())!.height).toBeLessThan(30);
  await page.setViewportSize({ width: 1280, height: 800 });

  // Explain shows it, on the other server too.
  const { page: other } = await openAs(browser, fleet.servers[1]!.admin, "operator");
  await goTo(other, "#/explain?" + new URLSearchParams({ ruleSet: "api-limits", rule: "per-user", userId: "acme" }).toString());
  await expect(other.getByRole("region", { name: "Bucket of per-user" })).toContainText("Override: 10 times, until");

  await row.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("api-limits has no overrides")).toBeVisible();
  expect(wrong).toEqual([]);
});

test("the override of another operator is replaced only if that is asked for", async ({ browser, fleet }) => {
  fleet.load("bob");
  const server = fleet.servers[0]!;
  const { page, wrong } = await openAs(browser, server.admin, "operator");
  await goTo(page, "#/callers");
  await page.getByRole("button", { name: "Override for user bob" }).click();
  const overrides = [{ ruleId: "per-user", identity: { userId: "bob" }, times: 3 }];
  expect((await server.call("PUT", "/v1/rule-sets/api-limits/overrides", { overrides })).ok).toBe(true);
  const form = page.getByRole("dialog");
  await form.getByText("Numbers", { exact: true }).click();
  await form.getByLabel("Capacity of burst").fill("7");
  await form.getByLabel("Ends").fill("");
  await form.getByRole("button", { name: "Save" }).click();
  await expect(form.getByRole("alert")).toContainText("another operator changed it");
  await form.getByRole("button", { name: "Replace the existing override" }).click();
  const row = page.getByRole("row").filter({ hasText: "userId bob" });
  await expect(row).toContainText("burst 7");
  await expect(row).toContainText("never");
  expect(wrong).toEqual([]);
});

test("a reader sees overrides and changes none", async ({ browser, fleet }) => {
  const server = fleet.servers[0]!;
  const overrides = [{ ruleId: "per-user", identity: { userId: "carol" }, times: 3 }];
  expect((await server.call("PUT", "/v1/rule-sets/api-limits/overrides", { overrides })).ok).toBe(true);
  const { page } = await openAs(browser, server.admin, "reader");
  await goTo(page, "#/overrides/api-limits");
  await expect(page.getByRole("row").filter({ hasText: "userId carol" })).toBeVisible();
  await expect(page.getByRole("button", { name: /Delete/ })).toHaveCount(0);
});
