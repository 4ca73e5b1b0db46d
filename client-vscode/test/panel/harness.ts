// The panel's own page in headless Chromium, with a stub for the editor around it.

import { existsSync, readFileSync } from "node:fs";
import { type Browser, chromium, type Page } from "playwright-core";
import { page as html } from "../../src/host/html";
import type { FromPanel, ToPanel } from "../../src/messages";
import type { SessionUpdate } from "../../src/protocol";
import { SESSION } from "../told";
import themes from "./themes.json";

const HOME = "https://panel.test";
const CHROMIUM = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((each) => existsSync(each));
const TYPES: Record<string, string> = { js: "text/javascript", css: "text/css", ttf: "font/ttf" };

export type Theme = keyof typeof themes;

export async function launch(): Promise<Browser> {
  if (!CHROMIUM) throw new Error("No Chromium found; name one in CHROMIUM.");
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
}

export interface Panel {
  page: Page;
  tell(message: ToPanel): Promise<void>;
  told(kind?: FromPanel["kind"]): Promise<FromPanel[]>;
  /** Addresses asked for beyond the panel's own files, refused ones included. */
  asked: string[];
  /** What the content policy refused and what scripts threw. */
  complaints: string[];
}

export async function open(browser: Browser, theme: Theme = "dark", name: "chat" | "inspector" = "chat", size = { width: 380, height: 720 }): Promise<Panel> {
  const page = await browser.newPage({ viewport: size });
  const asked: string[] = [];
  const complaints: string[] = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.route("**/*", async (route) => {
    const { origin, pathname } = new URL(route.request().url());
    if (origin === HOME && pathname === "/") return route.fulfill({ contentType: "text/html", body: document(name) });
    const file = `dist${pathname}`;
    if (origin === HOME && existsSync(file)) return route.fulfill({ contentType: TYPES[file.split(".").at(-1) ?? ""] ?? "text/plain", body: readFileSync(file) });
    asked.push(route.request().url());
    return route.abort();
  });
  await page.addInitScript(stub, { variables: themes[theme] as Record<string, string>, theme });
  await page.goto(`${HOME}/`);
  await page.waitForFunction(() => (window as unknown as { told: FromPanel[] }).told.some((each) => each.kind === "ready"));
  return {
    page, asked, complaints,
    tell: async (message) => {
      // As text: a long transcript is slow to pass as an object.
      await page.evaluate((data) => window.postMessage(JSON.parse(data), "*"), JSON.stringify(message));
      // Two frames: the message is handled, then drawn.
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    },
    told: async (kind) => (await page.evaluate(() => (window as unknown as { told: FromPanel[] }).told)).filter((each) => kind === undefined || each.kind === kind),
  };
}

function document(name: string): string {
  const styles = ["codicon.css", "panel.css"].map((each) => `${HOME}/${each}`);
  return html({ nonce: "test", cspSource: HOME, script: `${HOME}/${name}.js`, styles, title: "Ullage", body: name });
}

function stub({ variables, theme }: { variables: Record<string, string>; theme: string }): void {
  const told: unknown[] = [];
  let state: unknown;
  Object.assign(window, {
    told,
    ran: [],
    acquireVsCodeApi: () => ({ postMessage: (message: unknown) => told.push(message), getState: () => state, setState: (next: unknown) => (state = next) }),
  });
  window.addEventListener("DOMContentLoaded", () => {
    for (const [name, value] of Object.entries(variables)) window.document.documentElement.style.setProperty(name, value);
    window.document.body.classList.add(theme === "contrast" ? "vscode-high-contrast" : `vscode-${theme}`);
    const ground = window.document.body.classList.contains("inspector") ? "--vscode-editor-background" : "--vscode-sideBar-background";
    window.document.documentElement.style.background = `var(${ground})`;
  });
}

export function snapshot(updates: SessionUpdate[], more: Partial<Extract<ToPanel, { kind: "snapshot" }>> = {}): ToPanel {
  return {
    kind: "snapshot", server: { state: "ready", message: "" }, trusted: true, session: { sessionId: SESSION, title: "A session", readOnly: null, resume: null, updates },
    occupancy: null, compaction: null, permissions: [], ...more,
  };
}

/** What axe finds against the page. */
export async function axe(view: Panel): Promise<string[]> {
  // The page's policy lets no foreign script in; the debugger's evaluation is not bound by it.
  const source = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
  const session = await view.page.context().newCDPSession(view.page);
  await session.send("Runtime.evaluate", { expression: source });
  return view.page.evaluate(async () => {
    const { violations } = await (window as unknown as { axe: { run(): Promise<{ violations: Array<{ id: string; nodes: Array<{ html: string; failureSummary: string }> }> }> } }).axe.run();
    return violations.flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 200)}`));
  });
}
