// One story in a real VS Code: the offline explorer answers, the meter rises, compaction shows, a fork, a reload of the
// window, a killed server. Prints what it saw; exit code 1 at the first thing that is not so. SHOTS names a folder for
// screenshots.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { chromium } from "playwright-core";
import { CLIENT, startEditor } from "./editor.mjs";

const CHROMIUM = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const PATIENCE = 60_000;
const HANDOFF = "token-budget-handoff";
const METER = /(\d[\d.]*k?) \/ 31k \((\d+) %\)/;

const begun = Date.now();
const saw = (...what) => console.log(`${((Date.now() - begun) / 1000).toFixed(1).padStart(5)} s `, ...what);

const folder = mkdtempSync(path.join(tmpdir(), "ullage-project-"));
cpSync(path.join(CLIENT, "../server/ullage"), path.join(folder, "ullage"), { recursive: true, filter: (from) => !/__pycache__|handoff\.py$/.test(from) });
const theme = process.env.THEME ?? "Default Dark Modern";
const editor = await startEditor({ folder, settings: { "security.workspace.trust.enabled": false, "workbench.colorTheme": theme } });
const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
const page = await (await browser.newContext({ viewport: { width: 1280, height: 860 } })).newPage();
const foreign = new Set();
page.on("request", (request) => {
  const { hostname, protocol } = new URL(request.url());
  // VS Code's own service worker answers for the vscode-cdn name, on this machine.
  if (/^(http|ws)/.test(protocol) && !/^(localhost|127\.0\.0\.1|.*\.vscode-resource\.vscode-cdn\.net)$/.test(hostname)) foreign.add(hostname);
});

/** The frame of one of our webviews; which of the page's it is, its body's class tells. */
async function webview(name) {
  const deadline = Date.now() + PATIENCE;
  while (Date.now() < deadline) {
    const count = await page.locator("iframe.webview.ready").count();
    for (let index = 0; index < count; index += 1) {
      const frame = page.frameLocator("iframe.webview.ready").nth(index).frameLocator("iframe#active-frame");
      if (await frame.locator(`body.${name} #root > *`).count().catch(() => 0)) return frame;
    }
    await page.waitForTimeout(100);
  }
  throw new Error(`There is no webview ${name}.`);
}

const chat = () => webview("chat");
const status = page.locator(".part.statusbar");
const shot = async (name) => {
  if (!process.env.SHOTS) return;
  mkdirSync(process.env.SHOTS, { recursive: true });
  await page.screenshot({ path: path.join(process.env.SHOTS, `${name}.png`) });
};

async function command(title) {
  await page.keyboard.press("F1");
  const input = page.locator(".quick-input-widget input").first();
  await input.waitFor({ timeout: PATIENCE });
  await input.fill(`>${title}`);
  await page.locator(`.quick-input-list .monaco-list-row:has-text("${title}")`).first().waitFor({ timeout: PATIENCE });
  await page.keyboard.press("Enter");
}

async function meter() {
  await page.waitForFunction((pattern) => new RegExp(pattern).test(document.querySelector(".part.statusbar")?.textContent ?? ""), METER.source, { timeout: PATIENCE });
  return Number(METER.exec(await status.textContent())[2]);
}

async function prompt(text) {
  const input = (await chat()).locator("#input");
  await input.fill(text);
  await input.press("Enter");
}

/** Until so many prompts were answered and nothing runs. */
async function turns(count) {
  const frame = await chat();
  await frame.locator(".row.prompt").nth(count - 1).waitFor({ timeout: PATIENCE });
  await frame.locator("#keys", { hasText: "Enter sends" }).waitFor({ timeout: PATIENCE });
}

async function rows() {
  return (await chat()).locator(".row").evaluateAll((all) => all.map((row) => row.className + row.textContent.slice(0, 60)));
}

function serverPid() {
  const rows = execFileSync("ps", ["-eo", "pid,ppid,args", "--no-headers"]).toString().split("\n").map((row) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(row)).filter(Boolean);
  const ours = new Set([editor.pid]);
  for (let grew = true; grew; ) {
    const more = rows.filter((row) => ours.has(Number(row[2])) && !ours.has(Number(row[1])));
    for (const row of more) ours.add(Number(row[1]));
    grew = more.length > 0;
  }
  return Number(rows.find((row) => ours.has(Number(row[1])) && row[3].includes("-m ullage serve"))?.[1]);
}

async function story() {
  await page.goto(editor.url);
  await page.locator('.statusbar-item:has-text("Ullage")').first().waitFor({ timeout: PATIENCE });
  saw("the status bar has its item");
  await command("Ullage: Focus Chat");
  await (await chat()).locator("#input:not([disabled])").waitFor({ timeout: PATIENCE });
  await (await chat()).locator(".banner").waitFor({ state: "detached", timeout: PATIENCE });
  saw("the panel is usable");
  await shot("1-welcome");

  await prompt("Explore this repository and report its languages, entry points, biggest files, TODOs and tests.");
  const first = await meter();
  saw("the meter shows", first, "%");
  await page.waitForFunction(([pattern, least]) => Number(new RegExp(pattern).exec(document.querySelector(".part.statusbar").textContent)?.[2]) > least, [METER.source, first], { timeout: PATIENCE });
  saw("it rose to", await meter(), "%");
  await shot("2-running");
  const frame = await chat();
  await frame.locator(".row.compacted").first().waitFor({ timeout: PATIENCE });
  saw("a compaction shows:", (await frame.locator(".row.compacted .rule").first().textContent()).trim());
  await turns(1);
  const answers = await frame.locator(".row.answer").count();
  assert.ok(answers > 3, `${answers} answers`);
  assert.ok((await frame.locator(".call.done").count()) > 3);
  assert.ok(!(await frame.locator("body").textContent()).includes(HANDOFF), "the handoff's text is shown nowhere");
  saw("the turn is done after", answers, "answers");
  await shot("3-done");
  await frame.locator(".row.compacted").last().scrollIntoViewIfNeeded();
  await shot("4-compaction");

  await page.locator(".statusbar-item", { hasText: METER }).first().click();
  const inspector = await webview("inspector");
  await inspector.locator("table.bars tr").first().waitFor({ timeout: PATIENCE });
  saw("the inspector has", await inspector.locator("table.bars tr").count(), "categories");
  await shot("5-inspector");
  await command("View: Close Editor");

  await command("Ullage: Fork Session");
  await (await chat()).locator(".row.notice", { hasText: "Forked here" }).waitFor({ timeout: PATIENCE });
  saw("a fork is open");
  await prompt("Which tests are there?");
  await turns(2);
  const before = await rows();
  saw("it has", before.length, "rows after another turn");

  await page.reload();
  await (await chat()).locator(".row.notice", { hasText: "Forked here" }).waitFor({ timeout: PATIENCE });
  await turns(2);
  assert.deepEqual(await rows(), before);
  assert.equal(await (await chat()).locator(".banner").count(), 0, "it can be written to");
  saw("after a reload of the window the same", before.length, "rows are there");
  await meter();

  const old = serverPid();
  process.kill(old, "SIGKILL");
  await (await chat()).locator(".banner").waitFor({ timeout: PATIENCE });
  await (await chat()).locator(".banner").waitFor({ state: "detached", timeout: PATIENCE });
  assert.notEqual(serverPid(), old);
  assert.deepEqual(await rows(), before);
  await prompt("/nonsense");
  await (await chat()).locator(".banner.error", { hasText: "There is no command /nonsense" }).waitFor({ timeout: PATIENCE });
  await (await chat()).locator("#input").fill("");
  await prompt("And what is left to look at?");
  await turns(3);
  saw("a killed server was started again, and the session goes on");
  await shot("6-after-kill");

  useScript([
    { think: "Echo will do.", say: "I run it. ![seen](https://evil.test/x.png) <img src=https://evil.test/y.png>", calls: [{ name: "bash", arguments: { command: "echo from-the-$((40 + 2))" } }] },
    { say: "It printed **what it should**." },
  ]);
  await page.locator(".notification-toast .monaco-button", { hasText: "Restart Server" }).click({ timeout: PATIENCE });
  await page.waitForFunction(() => !document.querySelector(".notification-toast"), null, { timeout: PATIENCE });
  await command("Ullage: New Session");
  await (await chat()).locator(".welcome").waitFor({ timeout: PATIENCE });
  await (await chat()).locator(".banner").waitFor({ state: "detached", timeout: PATIENCE });
  await prompt("Run something.");
  const asked = (await chat()).locator(".approval");
  await asked.waitFor({ timeout: PATIENCE });
  assert.match(await asked.textContent(), /bash[^]*echo from-the-\$\(\(40 \+ 2\)\)/);
  await shot("7-approval");
  await asked.getByRole("button", { name: "Allow once" }).click();
  await turns(1);
  await (await chat()).locator(".call.done summary").click();
  assert.match(await (await chat()).locator(".call .detail").textContent(), /from-the-42/);
  assert.equal(await (await chat()).locator("img").count(), 0);
  saw("a command ran once it was allowed, and a model's image is not fetched");
  await shot("8-allowed");

  await command("Ullage: Open Session");
  const listed = page.locator(".quick-input-list .monaco-list-row");
  await listed.filter({ hasText: "Explore this repository" }).first().waitFor({ timeout: PATIENCE });
  saw("the list has", await listed.count(), "sessions");
  await page.locator(".quick-input-widget input").first().fill("Explore");
  await page.keyboard.press("Enter");
  await (await chat()).locator(".row.compacted").first().waitFor({ timeout: PATIENCE });
  saw("another session is open");
}

/** From its next start on, a model that says these lines answers. */
function useScript(script) {
  const [file, python] = [path.join(editor.place, "script.json"), path.join(editor.place, "scripted-python")];
  writeFileSync(file, JSON.stringify({ window: 32_000, script }));
  writeFileSync(python, `#!/bin/sh\nULLAGE_SCRIPT='${file}' exec '${path.join(CLIENT, "../.venv/bin/python")}' "$@"\n`, { mode: 0o755 });
  editor.set({ "ullage.server.python": python });
}

try {
  await story();
  assert.deepEqual([...foreign], [], "no foreign host is asked");
  saw("all as it should be");
} catch (error) {
  await shot("failed");
  console.error(error);
  process.exitCode = 1;
} finally {
  await browser.close();
  if (process.exitCode) console.error(readFileSync(path.join(editor.place, "editor.log"), "utf8").slice(-1500));
  await editor.stop();
  rmSync(folder, { recursive: true, force: true });
}
