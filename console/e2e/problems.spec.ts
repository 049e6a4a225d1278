import { expect } from "@playwright/test";
import { test } from "./fleet";
import { look, signIn, watch } from "./page";

const script = "<script>document.title='run'</script>";

// The answers of the server are changed on their way: a real fleet is rarely in all
// these states at once.
for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1280, 360]) {
    test(`a fleet with problems, ${colorScheme}, ${width} px`, async ({ browser, fleet }, info) => {
      const { admin } = fleet.servers[0]!;
      const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } });
      const page = await context.newPage();
      const wrong = watch(page, admin);
      await page.route("**/v1/fleet", async (route) => {
        const answer = await route.fetch();
        const body = await answer.json();
        const [one, other] = body.servers;
        Object.assign(one, { name: script, version: "v1.2.3", revisions: { "api-limits": 12 }, draining: true });
        Object.assign(other, { name: "gateway-with-a-very-long-name-in-the-second-region.example.com", revisions: { "api-limits": 13, [script]: 1 } });
        one.redis = [{ node: "redis-1:6379", open: true, since: new Date(Date.now() - 12_000).toISOString(), error: "no answer within 100ms" }];
        body.differing = [{ ruleSet: "api-limits", revisions: [12, 13] }];
        await route.fulfill({ response: answer, json: body });
      });
      await page.route("**/v1/callers?*", async (route) => route.fulfill({ status: 503, json: { status: 503, title: "Service Unavailable", detail: script } }));
      await signIn(page, admin, "operator");
      // The seconds go on while the page asks again.
      await expect(page.getByText(`Redis node redis-1:6379 does not answer to ${script} for `)).toHaveText(/ for (1[2-9]|[2-5]\d) s: rules decide by onFailure\.$/);
      await expect(page.getByText("2 servers have different revisions of api-limits: 12, 13.")).toBeVisible();
      await expect(page.getByRole("alert")).toContainText("The server cannot answer");
      await look(page, info, "overview");
      await page.getByRole("link", { name: "Fleet" }).click();
      await expect(page.getByText("revisions differ")).toBeVisible();
      await expect(page.getByText("breaker open")).toBeVisible();
      await expect(page.getByText(/first failure \d+ s ago: no answer within 100ms/)).toBeVisible();
      await look(page, info, "fleet");
      expect(await page.title()).toBe("Fleet · FluxGate");
      expect(wrong.filter((text) => !text.includes("503"))).toEqual([]);
      await page.unrouteAll({ behavior: "ignoreErrors" }); // the page asks every few seconds
      await context.close();
    });
  }
}
