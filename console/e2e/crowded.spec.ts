import { expect, type Page, type TestInfo } from "@playwright/test";
import { test, type Fleet } from "./fleet";
import { glance, goTo, openAs } from "./page";

// A fleet with as much as one page may have to show: 200 rules, 5,000 callers, and names of the
// greatest length.
const id = "limits-of-the-public-catalogue-in-all-regions-of-the-second-unit"; // 64 characters
const kinds = [
  { bands: [{ label: "burst", capacity: 3, refill: "1m" }] },
  { mode: "shadow", bands: [{ label: "a-label-with-the-length-that-people-give-to-labels", capacity: 1, refill: "1h" }, { kind: "quota", capacity: 1_000_000_000, period: "month", timezone: "America/Argentina/Buenos_Aires" }] },
  { bands: [{ kind: "concurrency", capacity: 1000, hold: "30s" }, { kind: "sliding-window", capacity: 2_500_000, period: "1d" }] },
  { action: "deny" },
  { enabled: false, bands: [{ capacity: 100, refillTokens: 10, refill: "1s" }] },
];

const rules = Array.from({ length: 200 }, (_, i) => {
  const rule = `rule-${i}-`.padEnd(64, "of-the-partners-");
  const kind = kinds[i % kinds.length]!;
  return { id: rule, path: `/v1/partners/*/regions/${i}/**`, ...("bands" in kind && { limitScope: "USER_ID" }), ...kind };
});

// fill makes requests of 5,000 users under several rules.
async function fill(fleet: Fleet): Promise<void> {
  const created = await fleet.servers[0]!.call("PUT", `/v1/rule-sets/${id}?comment=${"the reason for it ".repeat(20)}`, { id, rules }, { "If-None-Match": "*" });
  expect(created.status).toBe(201);
  let next = 0;
  const send = async () => {
    while (next < 10_000) {
      const n = next++;
      const user = n % 5000 < 40 ? `subject-${n % 40}-`.padEnd(120, "0123456789abcdef") : `user-${n % 5000}`;
      for (let times = n % 5000 < 40 ? 6 : 1; times > 0; times--) {
        await fleet.servers[n % 2]!.check({ ruleSet: id, userId: user, ip: "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", method: "GET", path: `/v1/partners/a/regions/${(n % 40) % 10}/x` });
      }
    }
  };
  await Promise.all(Array.from({ length: 20 }, send));
}

// around looks at a screen light and dark, wide and on a phone. The other tests check that it is
// accessible.
async function around(page: Page, info: TestInfo, name: string): Promise<void> {
  for (const [colorScheme, width] of [["dark", 1280], ["dark", 390], ["light", 390], ["light", 1280]] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 1300 });
    await glance(page, info, `${name}-${colorScheme}-${width}`, false);
  }
}

test("200 rules, 5,000 callers and long names, then without Redis", async ({ browser, fleet }, info) => {
  test.setTimeout(600_000);
  await fill(fleet);
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  const screens = { overview: "", rules: "rules", "rule-set": `rules/${id}`, rule: `rules/${id}?rule=${rules[1]!.id}`, history: `rules/${id}?view=history`, yaml: `rules/${id}?view=yaml`, callers: "callers", allowed: "callers?outcome=allowed", explain: `explain?ruleSet=${id}&userId=user-1&path=/v1/partners/a/regions/1/x`, fleet: "fleet" };
  for (const [name, hash] of Object.entries(screens)) {
    await goTo(page, "#/" + hash);
    await expect(page.getByText("Loading")).toHaveCount(0);
    await page.waitForTimeout(500);
    await around(page, info, name);
  }
  // Redis is frozen: every screen still answers, and those that show what it means say so.
  fleet.redis.kill("SIGSTOP");
  await goTo(page, "#/");
  await expect(page.getByText(/Redis node 127.0.0.1:\d+ does not answer/)).toBeVisible({ timeout: 30_000 });
  for (const name of ["overview", "callers", "explain", "fleet", "rules"] as const) {
    await goTo(page, "#/" + screens[name]);
    await expect(page.getByText("Loading")).toHaveCount(0);
    await page.waitForTimeout(1500);
    await around(page, info, "frozen-" + name);
  }
  fleet.redis.kill("SIGCONT");
  await goTo(page, "#/");
  await expect(page.getByText("Healthy: 2 servers answer")).toBeVisible({ timeout: 60_000 }); // other tests use the fleet
  await page.close();
  expect(wrong).toEqual([]);
});
