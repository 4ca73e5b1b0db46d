// The palette's commands.

import * as vscode from "vscode";
import type { CompactResult, SummaryPayload } from "../protocol";
import { ago, bytes, exact, plural } from "../view/figures";
import type { Controller } from "./controller";

export const KEY = "ullage.key.anthropic";

export function registerCommands(context: vscode.ExtensionContext, controller: Controller, log: vscode.LogOutputChannel): void {
  const commands: Record<string, (argument?: string) => Promise<unknown> | unknown> = {
    "ullage.chat.new": async () => {
      await controller.chat.reveal();
      controller.leave();
    },
    "ullage.chat.open": () => openSession(controller),
    "ullage.chat.search": () => search(controller),
    "ullage.chat.fork": () => controller.fork(null),
    "ullage.chat.compact": (instructions) => compact(controller, instructions ?? ""),
    "ullage.chat.compactWith": () => compactWith(controller),
    "ullage.chat.rename": (title) => rename(controller, title),
    "ullage.chat.export": () => exported(controller),
    "ullage.chat.inspect": () => controller.inspector.reveal(),
    "ullage.chat.pin": () => pin(controller),
    "ullage.chat.redo": () => shown(controller, (sessionId) => controller.request("ullage/session/redo", { sessionId })),
    "ullage.chat.stop": () => shown(controller, (sessionId) => controller.request("ullage/session/cancel", { sessionId })),
    "ullage.chat.focusInput": async () => {
      await controller.chat.reveal();
      controller.post({ kind: "focus", insert: "" });
    },
    "ullage.chat.addSelection": () => addSelection(controller),
    "ullage.server.restart": () => controller.server.restart(),
    "ullage.server.log": () => log.show(),
    "ullage.auth.set": () => setKey(context, controller),
    "ullage.auth.clear": async () => {
      await context.secrets.delete(KEY);
      await controller.request("ullage/auth/set", { provider: "anthropic", key: null });
    },
  };
  for (const [name, run] of Object.entries(commands)) {
    const tried = (argument?: unknown) => controller.trying(async () => run(typeof argument === "string" ? argument : undefined));
    context.subscriptions.push(vscode.commands.registerCommand(name, tried));
  }
}

async function shown(controller: Controller, act: (sessionId: string) => Promise<unknown>): Promise<void> {
  const session = controller.sessions.shown;
  if (session) await act(session.sessionId);
}

type Pick = vscode.QuickPickItem & { sessionId: string };

async function openSession(controller: Controller): Promise<void> {
  const items: Pick[] = [];
  for (const folder of vscode.workspace.workspaceFolders ?? []) {
    const { sessions } = await controller.request("ullage/session/list", { root: folder.uri.fsPath });
    items.push(...sessions.map((each) => item(each, controller.sessions.shown?.sessionId)));
  }
  if (items.length === 0) {
    void vscode.window.showInformationMessage("There is no session of this folder yet.");
    return;
  }
  const picked = await vscode.window.showQuickPick(items, { placeHolder: "Open a session", matchOnDescription: true, matchOnDetail: true });
  if (picked) await openPicked(controller, picked.sessionId);
}

async function openPicked(controller: Controller, sessionId: string): Promise<void> {
  await controller.chat.reveal();
  await controller.open(sessionId);
}

function item(session: SummaryPayload, current: string | undefined): Pick {
  const icon = session.sessionId === current ? "$(check)" : session.parent ? "$(repo-forked)" : "$(comment-discussion)";
  const state = [session.openTurn && "a turn is open", session.damaged && "damaged"].filter(Boolean).join(", ");
  return {
    sessionId: session.sessionId,
    label: `${icon} ${session.title || "Untitled"}`,
    description: `${ago(session.updatedAt, Date.now())}, ${bytes(session.size)}`,
    ...(state && { detail: state }),
  };
}

async function search(controller: Controller): Promise<void> {
  const query = await vscode.window.showInputBox({ prompt: "Words, or a phrase in \"double quotes\"", placeHolder: "Search in what was said" });
  if (!query) return;
  const items: Pick[] = [];
  for (const folder of vscode.workspace.workspaceFolders ?? []) {
    const { sessions } = await controller.request("ullage/session/search", { root: folder.uri.fsPath, query });
    items.push(...sessions.map((found) => ({
      ...item(found.session, controller.sessions.shown?.sessionId), detail: found.hits.map((hit) => hit.snippet.replace(/\s+/g, " ")).join(" … "), alwaysShow: true,
    })));
  }
  const picked = await vscode.window.showQuickPick(items, { placeHolder: items.length > 0 ? `${plural(items.length, "session")} with “${query}”` : `Nothing with “${query}”` });
  if (picked) await openPicked(controller, picked.sessionId);
}

async function compact(controller: Controller, instructions: string): Promise<void> {
  await shown(controller, async (sessionId) => told(controller, await controller.request("ullage/session/compact", { sessionId, instructions })));
}

function told(controller: Controller, result: CompactResult): void {
  if (result.error) controller.problem(result.error);
  if (!controller.chat.visible && result.report) {
    void vscode.window.showInformationMessage(`Compacted: ${exact(result.report.before)} to ${exact(result.report.after)} tokens.`);
  }
}

async function compactWith(controller: Controller): Promise<void> {
  await shown(controller, async (sessionId) => {
    const { preview } = await controller.request("ullage/session/compact", { sessionId, dryRun: true });
    if (preview?.error) {
      void vscode.window.showWarningMessage([preview.error.message, preview.error.hint].filter(Boolean).join(" "));
      return;
    }
    const would = preview
      ? `${plural(preview.messages, "message")} would be replaced: ${exact(preview.before)} to at most ${exact(preview.after)} tokens (${preview.strategy}).`
      : "";
    const instructions = await vscode.window.showInputBox({ title: "Compact Context", prompt: `${would} Enter compacts, Esc does not.`, placeHolder: "What to take care of (may be empty)" });
    if (instructions !== undefined) await compact(controller, instructions);
  });
}

async function rename(controller: Controller, title: string | undefined): Promise<void> {
  const session = controller.sessions.shown;
  if (!session) return;
  const wanted = title ?? (await vscode.window.showInputBox({ prompt: "Title of the session", value: session.title }));
  if (wanted !== undefined) await controller.request("ullage/session/rename", { sessionId: session.sessionId, title: wanted });
}

async function exported(controller: Controller): Promise<void> {
  await shown(controller, async (sessionId) => {
    const { text } = await controller.request("ullage/session/export", { sessionId, format: "markdown" });
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: "markdown", content: text }));
  });
}

async function pin(controller: Controller): Promise<void> {
  await shown(controller, async (sessionId) => {
    const editor = vscode.window.activeTextEditor;
    const value = editor ? editor.document.getText(editor.selection) : "";
    const text = await vscode.window.showInputBox({ prompt: "Kept in view, to the letter, through every compaction", value });
    if (text) await controller.request("ullage/session/pin", { sessionId, text });
  });
}

/** Names the place; the agent reads it itself, as it is by then. */
async function addSelection(controller: Controller): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor || editor.document.uri.scheme !== "file") return;
  const { start, end } = editor.selection;
  const lines = editor.selection.isEmpty ? "" : ` lines ${start.line + 1}-${end.line + 1}`;
  await controller.chat.reveal();
  controller.post({ kind: "focus", insert: `${vscode.workspace.asRelativePath(editor.document.uri, false)}${lines} ` });
}

async function setKey(context: vscode.ExtensionContext, controller: Controller): Promise<void> {
  const key = await vscode.window.showInputBox({ prompt: "Anthropic API key. Kept in VS Code's secret storage, given to the server only.", password: true, ignoreFocusOut: true });
  if (!key) return;
  await context.secrets.store(KEY, key);
  await controller.server.sendKey();
  void vscode.window.showInformationMessage("The key is set. A model is chosen in the settings (ullage.model).");
}
