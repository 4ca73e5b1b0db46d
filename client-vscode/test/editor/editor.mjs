// A real VS Code in the browser, on loopback, with this extension and nothing else. As a program: `editor.mjs DIR`.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const CLIENT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const REPOSITORY = path.dirname(CLIENT);

const QUIET = {
  "telemetry.telemetryLevel": "off",
  "workbench.startupEditor": "none",
  "workbench.enableExperiments": false,
  "workbench.tips.enabled": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "update.mode": "none",
  "extensions.autoCheckUpdates": false,
  "chat.disableAIFeatures": true,
  "git.enabled": false,
};

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Starts the editor for a folder; `stop` ends it and takes its temporary files away. `password` guards the page where it is given. */
export async function startEditor({ folder, settings = {}, password = null, environment = {} }) {
  const place = mkdtempSync(path.join(tmpdir(), "ullage-editor-"));
  mkdirSync(path.join(place, "home"));
  installExtension(path.join(place, "extensions"));
  const python = path.join(REPOSITORY, ".venv/bin/python");
  let said = {};
  // The extension runs on a remote machine, as VS Code sees it: settings of machine scope are taken from its own file.
  const set = (more) => {
    said = { ...said, ...more };
    for (const whose of ["User", "Machine"]) {
      mkdirSync(path.join(place, "data", whose), { recursive: true });
      writeFileSync(path.join(place, "data", whose, "settings.json"), JSON.stringify(said));
    }
  };
  set({ ...QUIET, "ullage.server.python": python, ...settings });
  const port = await freePort();
  const log = openSync(path.join(place, "editor.log"), "w");
  const args = [
    path.join(CLIENT, ".editor/code-server/node_modules/code-server/out/node/entry.js"),
    "--bind-addr", `127.0.0.1:${port}`, "--auth", password ? "password" : "none", "--disable-telemetry", "--disable-update-check",
    "--disable-getting-started-override", "--user-data-dir", path.join(place, "data"), "--extensions-dir", path.join(place, "extensions"), folder,
  ];
  if (settings["security.workspace.trust.enabled"] === false) args.splice(1, 0, "--disable-workspace-trust");
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(XDG_|VSCODE_|ULLAGE_|ANTHROPIC_)/.test(name)));
  const env = { ...clean, HOME: path.join(place, "home"), EXTENSIONS_GALLERY: '{"serviceUrl":""}', ULLAGE_HOME: path.join(place, "sessions"), ...environment, ...(password && { PASSWORD: password }) };
  const child = spawn(path.join(CLIENT, ".editor/node/node_modules/.bin/node"), args, { env, stdio: ["ignore", log, log], detached: true });
  const url = `http://localhost:${port}/?folder=${encodeURIComponent(folder)}`;
  await answers(`http://127.0.0.1:${port}/healthz`, child, path.join(place, "editor.log"));
  const stop = () => ended(child, place);
  return { url, place, pid: child.pid, set, stop };
}

function installExtension(extensions) {
  const { publisher, name, version } = JSON.parse(readFileSync(path.join(CLIENT, "package.json"), "utf8"));
  const target = path.join(extensions, `${publisher}.${name}-${version}`);
  mkdirSync(target, { recursive: true });
  for (const part of ["package.json", "dist", "media"]) cpSync(path.join(CLIENT, part), path.join(target, part), { recursive: true });
}

async function answers(url, child, log) {
  for (let tries = 0; tries < 300; tries += 1) {
    if (child.exitCode !== null) throw new Error(`The editor did not start:\n${readFileSync(log, "utf8").slice(-2000)}`);
    const up = await fetch(url).then((response) => response.ok, () => false);
    if (up) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("The editor did not answer within 30 seconds.");
}

/** The editor's own process group, its servers included. */
async function ended(child, place) {
  const gone = new Promise((resolve) => child.once("exit", resolve));
  if (child.exitCode === null) {
    process.kill(-child.pid, "SIGTERM");
    await Promise.race([gone, new Promise((resolve) => setTimeout(resolve, 5000))]);
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // It is gone, as wanted.
    }
  }
  rmSync(place, { recursive: true, force: true, maxRetries: 5 });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = path.resolve(process.argv[2] ?? ".");
  const password = randomBytes(9).toString("base64url");
  const editor = await startEditor({ folder, password });
  console.log(`VS Code with Ullage: ${editor.url}\nPassword: ${password}\nCtrl-C ends it. Its sessions and settings are temporary.`);
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void editor.stop().then(() => process.exit(0)));
}
