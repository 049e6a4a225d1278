import { test } from "./fleet";

// The figure console-first-paint-ms: a browser that has nothing in its cache opens the
// console. See make figures-insight.
test("first paint", async ({ browser, fleet }) => {
  const times: number[] = [];
  for (let round = 0; round < 7; round++) {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(fleet.servers[0]!.admin + "/console/");
    await page.getByRole("textbox", { name: "Token" }).waitFor();
    times.push(
      await page.evaluate(
        () =>
          new Promise<number>((resolve) =>
            new PerformanceObserver((list) => resolve(list.getEntriesByName("first-contentful-paint")[0]!.startTime)).observe({ type: "paint", buffered: true }),
          ),
      ),
    );
    await context.close();
  }
  console.log(`first paint: ${times.sort((a, b) => a - b)[3]!.toFixed(0)} ms`);
});
