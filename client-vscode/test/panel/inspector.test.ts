import { mkdirSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { InspectResult, TotalsPayload } from "../../src/protocol";
import { compacted, occupancy } from "../told";
import { axe, launch, open } from "./harness";

let browser: Browser;
beforeAll(async () => (browser = await launch()));
afterAll(async () => browser.close());

const PAID: TotalsPayload = { calls: 3, prompt: 40_000, completion: 900, cacheRead: 0, cacheWrite: 0, unreported: 0, priced: 3, cost: 42_000 };
const { report } = compacted() as Extract<ReturnType<typeof compacted>, { kind: "compacted" }>;
const FOUND: InspectResult = {
  occupancy: occupancy(22_300, { hidden: 283 }),
  categories: [{ name: "results: read", tokens: 15_000 }, { name: "assistant", tokens: 4000 }, { name: "<b>bash</b>", tokens: 3000 }, { name: "hidden", tokens: 283 }],
  biggest: [{ seq: 7, messageId: "m7", category: "results: read", tokens: 1606 }], checkpoints: [{ seq: 9, at: 1_790_000_000_000, report }],
  pins: [{ pinId: "p1", messageId: null, role: "user", text: "Never touch <i>main</i>.", tokens: 9 }], leftOut: { messageIds: ["m1", "m2"], tokens: 500 },
  turnTotals: PAID, summaryTotals: { ...PAID, calls: 0, cost: null }, handoff: "valid",
};

test.each(["dark", "light"] as const)("what fills the window is told in words, figures and bars, in %s", async (theme) => {
  const view = await open(browser, theme, "inspector", { width: 900, height: 760 });
  await view.tell({ kind: "inspection", inspection: FOUND, title: "A <u>session</u>", handoffOn: true });
  const { page } = view;
  const text = await page.locator("main").innerText();
  for (const words of ["A <u>session</u>", "22k / 31k (72 %)", "handoff band", "<b>bash</b>", "283 tokens that only the model sees", "24,846 → 16,766", "Never touch <i>main</i>.", "2 messages, 500 tokens", "$0.0420"]) expect(text).toContain(words);
  expect(await page.locator(".stack .share").count()).toBe(4);
  await page.getByRole("switch", { name: "Handoff reminder" }).uncheck();
  await page.getByRole("button", { name: "Leave out" }).click();
  await page.getByRole("button", { name: "Take back" }).click();
  await page.getByRole("button", { name: "Unpin" }).click();
  expect((await view.told()).slice(1)).toEqual([
    { kind: "handoff", on: false }, { kind: "leaveOut", messageIds: ["m7"], back: false }, { kind: "leaveOut", messageIds: ["m1", "m2"], back: true }, { kind: "unpin", pinId: "p1" },
  ]);
  expect(await axe(view)).toEqual([]);
  expect(view.complaints).toEqual([]);
  if (process.env.SHOTS) {
    mkdirSync(process.env.SHOTS, { recursive: true });
    await page.screenshot({ path: `${process.env.SHOTS}/inspector-${theme}.png` });
  }
  await page.close();
});
