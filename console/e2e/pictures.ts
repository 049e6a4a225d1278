import { expect } from "@playwright/test";
import { join } from "node:path";
import { test } from "./fleet";
import { goTo, openAs } from "./page";

// The pictures of docs/console.md, from a fleet under load. See make console-pictures.
test("pictures", async ({ browser, fleet }) => {
  test.setTimeout(300_000);
  fleet.load("mallory");
  const { page } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  const take = (name: string) => page.screenshot({ path: join("..", "docs", "images", `console-${name}.png`) });
  await page.waitForTimeout(125_000); // the charts show two minutes
  await take("overview");

  await page.emulateMedia({ colorScheme: "dark" });
  await goTo(page, "#/callers");
  await expect(page.getByRole("row", { name: /mallory/ })).toBeVisible();
  await take("callers");
  await page.emulateMedia({ colorScheme: "light" });

  await goTo(page, "#/rules/api-limits");
  await page.getByRole("button", { name: "Change per-user", exact: true }).click();
  await page.getByLabel("Capacity").fill("10");
  await page.getByRole("button", { name: "Review the change" }).click();
  await expect(page.getByRole("region", { name: "Changes" })).toBeVisible();
  await take("rules");

  await goTo(page, "#/explain?" + new URLSearchParams({ ruleSet: "api-limits", rule: "per-user", userId: "mallory" }).toString());
  await page.getByRole("region", { name: "Bucket of per-user" }).scrollIntoViewIfNeeded();
  await take("explain");

  await goTo(page, "#/fleet");
  await expect(page.getByRole("heading", { level: 1, name: "Fleet" })).toBeVisible();
  await expect(page.getByText("Loading")).toHaveCount(0);
  await take("fleet");
});
