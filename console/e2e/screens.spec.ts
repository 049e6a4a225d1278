import { expect } from "@playwright/test";
import { testRedis as test } from "./fleet";
import { look, signIn, watch } from "./page";

const screens = ["Overview", "Rules", "Explain", "Callers", "Overrides", "Warnings", "Fleet"];

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1280, 360]) {
    test(`every screen, ${colorScheme}, ${width} px`, async ({ browser, fleet }, info) => {
      const origin = fleet.servers[0]!.admin;
      const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } });
      const page = await context.newPage();
      const wrong = watch(page, origin);
      await page.goto(origin + "/");
      await expect(page.getByRole("heading", { name: "Sign in to FluxGate" })).toBeVisible();
      await look(page, info, "sign-in");
      await signIn(page, origin, "operator");
      for (const name of screens) {
        await page.getByRole("navigation").getByRole("link", { name }).click();
        await expect(page.getByRole("heading", { level: 1, name })).toBeVisible();
        await expect(page.getByText("Loading")).toHaveCount(0);
        await look(page, info, name.toLowerCase());
      }
      expect(wrong).toEqual([]);
      await context.close();
    });
  }
}
