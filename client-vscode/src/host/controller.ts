// What a person does, done: commands and messages of the panel become requests of the server, and what the server
// tells goes to the meter, the panel and the inspector.

import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import type { FromPanel, ServerState, ToPanel } from "../messages";
import type { Notifications, PermissionParams, PermissionResult, PromptMode, Requests, SessionPayload } from "../protocol";
import { busy } from "../view/transcript";
import { typed } from "../view/slash";
import { payloadOf, isCancelled, words } from "./errors";
import { Files } from "./files";
import * as links from "./links";
import type { Hearer, Server } from "./server";
import { type Session, Sessions } from "./sessions";
import type { StatusBar } from "./statusbar";
import { ChatView, InspectorTab } from "./webviews";

const SHOWN = "ullage.session";

export class Controller implements Hearer {
  readonly sessions = new Sessions();
  readonly chat: ChatView;
  readonly inspector: InspectorTab;
  private state: { state: ServerState; message: string } = { state: "starting", message: "" };
  private readonly deciding = new Map<string, (result: PermissionResult) => void>();
  private readonly files = new Files();
  private inspecting: NodeJS.Timeout | undefined;
  server!: Server;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
    private readonly bar: StatusBar,
  ) {
    this.chat = new ChatView(context.extensionUri, (message) => void this.heard(message));
    this.inspector = new InspectorTab(context.extensionUri, (message) => void this.heard(message));
  }

  // What the server tells.

  onState(state: ServerState, message: string): void {
    this.state = { state, message };
    if (state !== "ready") {
      this.sessions.lost();
      this.deciding.clear();
    }
    this.bar.server(state, this.sessions.shown?.occupancy ?? null);
    this.post({ kind: "server", server: this.state });
    if (state !== "ready") this.post({ kind: "permissions", permissions: [] });
    this.refresh();
  }

  async onReady(): Promise<void> {
    const wanted = this.sessions.shown?.sessionId ?? this.context.workspaceState.get<string>(SHOWN);
    if (wanted !== undefined) await this.trying(() => this.open(wanted));
    this.snapshot();
  }

  onNotification<M extends keyof Notifications>(method: M, raw: Notifications[M]["params"]): void {
    const told = { method, params: raw } as { [K in keyof Notifications]: { method: K; params: Notifications[K]["params"] } }[keyof Notifications];
    const shown = this.sessions.shown?.sessionId === told.params.sessionId;
    switch (told.method) {
      case "ullage/session/update": {
        if (!this.sessions.hear(told.params)) return;
        if (told.params.update.kind === "turnEnded") this.dropPermissions(told.params.sessionId);
        if (!shown) return;
        this.post({ kind: "update", update: told.params });
        this.refresh();
        return;
      }
      case "ullage/context/occupancy":
        this.sessions.of(told.params.sessionId).occupancy = told.params;
        if (!shown) return;
        this.bar.show(told.params);
        this.post({ kind: "occupancy", occupancy: told.params });
        this.inspectSoon();
        return;
      case "ullage/context/compaction": {
        const ended = ["committed", "failed", "blocked", "cancelled", "skipped"].includes(told.params.status);
        const compaction = ended ? null : told.params;
        this.sessions.of(told.params.sessionId).compaction = compaction;
        if (shown) this.post({ kind: "compaction", compaction });
        return;
      }
      case "ullage/session/warning":
        if (shown) this.post({ kind: "problem", message: told.params.warning.message, hint: told.params.warning.hint, restore: "" });
    }
  }

  onPermission(params: PermissionParams, token: vscode.CancellationToken): Promise<PermissionResult> {
    token.onCancellationRequested(() => this.decide(params.callId, { decision: "deny" }));
    this.sessions.permissions.push(params);
    this.postPermissions();
    if (!this.chat.visible || this.sessions.shown?.sessionId !== params.sessionId) {
      void vscode.window.showWarningMessage(`Ullage asks before it runs ${params.name}.`, "Show").then((choice) => {
        if (choice === "Show") void this.show(params.sessionId).then(() => this.chat.reveal());
      });
    }
    return new Promise((resolve) => this.deciding.set(params.callId, resolve));
  }

  /** What a turn asked and nobody answered is answered with its end. */
  private dropPermissions(sessionId: string): void {
    for (const each of this.sessions.permissions.filter((one) => one.sessionId === sessionId)) this.decide(each.callId, { decision: "deny" });
  }

  private decide(callId: string, result: PermissionResult): void {
    const at = this.sessions.permissions.findIndex((each) => each.callId === callId);
    if (at >= 0) this.sessions.permissions.splice(at, 1);
    this.deciding.get(callId)?.(result);
    this.deciding.delete(callId);
    this.postPermissions();
  }

  // What the panel tells.

  private async heard(message: FromPanel): Promise<void> {
    await this.trying(async () => this.act(message));
  }

  private async act(message: FromPanel): Promise<unknown> {
    const session = this.sessions.shown;
    switch (message.kind) {
      case "ready":
        this.snapshot();
        return this.inspect();
      case "send":
        return this.send(message.text, message.mode, message.mentions);
      case "findFiles":
        return this.post({ kind: "files", query: message.query, found: await this.files.named(message.query) });
      case "command":
        return this.command(message.name, message.argument);
      case "decide":
        return this.decide(message.callId, { decision: message.decision, reason: message.reason, scope: message.scope });
      case "copy":
        return vscode.env.clipboard.writeText(message.text);
      case "openLink":
        return links.openLink(message.href);
      case "openFile":
        return links.openFile(message.path);
    }
    if (!session) return undefined;
    const { sessionId } = session;
    switch (message.kind) {
      case "queueEdit":
        return this.server.request("ullage/queue/edit", { sessionId, turnId: message.turnId, text: message.text });
      case "queueRemove":
        return this.server.request("ullage/queue/remove", { sessionId, turnId: message.turnId });
      case "queueSteer":
        return this.steerWaiting(session, message.turnId);
      case "queueResume":
        return this.server.request("ullage/queue/resume", { sessionId });
      case "forkAt":
        return this.fork(message.seq);
      case "rewind":
        return this.rewind(session, message.turnId);
      case "pin":
        return this.server.request("ullage/session/pin", { sessionId, messageId: message.messageId });
      case "unpin":
        return this.server.request("ullage/session/unpin", { sessionId, pinId: message.pinId }).then(() => this.inspect());
      case "leaveOut":
        return this.server.request("ullage/session/leaveOut", { sessionId, messageIds: message.messageIds, back: message.back }).then(() => this.inspect());
      case "handoff":
        return this.server.request("ullage/session/configure", { sessionId, handoff: message.on }).then(() => this.inspect());
    }
  }

  private async command(name: Extract<FromPanel, { kind: "command" }>["name"], argument: string): Promise<void> {
    const named: Record<typeof name, string> = {
      compact: "ullage.chat.compact", fork: "ullage.chat.fork", new: "ullage.chat.new", open: "ullage.chat.open",
      rename: "ullage.chat.rename", export: "ullage.chat.export", inspect: "ullage.chat.inspect", stop: "ullage.chat.stop",
      log: "ullage.server.log", restart: "ullage.server.restart", key: "ullage.auth.set", trust: "workbench.trust.manage", redo: "ullage.chat.redo",
    };
    await vscode.commands.executeCommand(named[name], ...(argument ? [argument] : []));
  }

  /** A text a person typed in the panel. The panel parsed it too; nothing with a slash gets past here. */
  async send(text: string, mode: PromptMode, mentions: string[] = []): Promise<void> {
    const what = typed(text);
    if (what.kind !== "prompt") {
      if (what.kind !== "nothing") this.problem({ message: what.kind === "unknown" ? what.message : "That is a command, no prompt.", hint: "" }, text);
      return;
    }
    try {
      const session = this.sessions.shown ?? (await this.begin(titleOf(what.text)));
      await this.server.request("ullage/session/prompt", { sessionId: session.sessionId, text: what.text, mode, mentions, turnId: randomUUID() });
    } catch (error) {
      if (isCancelled(error) || !this.server.ready) return;
      this.problem(words(error), text);
    }
  }

  /** A waiting prompt enters the running turn instead: it is taken out and sent again, as steering. */
  private async steerWaiting(session: Session, turnId: string): Promise<void> {
    const waiting = session.transcript.waiting.find((each) => each.turnId === turnId);
    if (!waiting) return;
    await this.server.request("ullage/queue/remove", { sessionId: session.sessionId, turnId });
    await this.send(waiting.text, "steer");
  }

  // Sessions.

  async begin(title: string): Promise<Session> {
    const root = await this.root();
    return this.took(await this.server.request("ullage/session/new", root ? { root, title } : { title }));
  }

  private async root(): Promise<string | undefined> {
    const folders = vscode.workspace.workspaceFolders ?? [];
    if (folders.length === 0) throw new Error("Open a folder first: a session belongs to one.");
    if (folders.length === 1) return folders[0]?.uri.fsPath;
    const picked = await vscode.window.showWorkspaceFolderPick({ placeHolder: "Which folder is the session about?" });
    return picked?.uri.fsPath ?? folders[0]?.uri.fsPath;
  }

  /** Open a session and show it. One that another process writes is opened to read, if the person wants that. */
  async open(sessionId: string): Promise<void> {
    const from = this.sessions.of(sessionId).transcript.lastSeq + 1;
    try {
      this.took(await this.openAs(sessionId, from, false));
    } catch (error) {
      const payload = payloadOf(error);
      if (payload?.code !== "session_busy") throw error;
      this.took(await this.openAs(sessionId, from, true));
    }
  }

  private async openAs(sessionId: string, fromSeq: number, readOnly: boolean): Promise<SessionPayload> {
    for (const root of vscode.workspace.workspaceFolders ?? []) {
      try {
        return await this.server.request("ullage/session/open", { sessionId, root: root.uri.fsPath, fromSeq, readOnly });
      } catch (error) {
        if (!["unknown_session", "wrong_root"].includes(payloadOf(error)?.code ?? "")) throw error;
      }
    }
    throw new Error("This session is in none of the open folders.");
  }

  /** Show a session that the server has opened. */
  private took(payload: SessionPayload): Session {
    const session = this.sessions.opened(payload);
    this.sessions.show(session.sessionId);
    void this.context.workspaceState.update(SHOWN, session.sessionId);
    this.snapshot();
    return session;
  }

  async show(sessionId: string): Promise<void> {
    if (this.sessions.shown?.sessionId !== sessionId) await this.open(sessionId);
  }

  /** An empty panel; the session begins with the first prompt. */
  leave(): void {
    this.sessions.show(null);
    void this.context.workspaceState.update(SHOWN, undefined);
    this.snapshot();
    this.post({ kind: "focus", insert: "" });
  }

  async fork(atSeq: number | null): Promise<void> {
    const session = this.sessions.shown;
    if (!session) return;
    this.took(await this.server.request("ullage/session/fork", { sessionId: session.sessionId, atSeq }));
    await this.chat.reveal();
  }

  private async rewind(session: Session, turnId: string): Promise<void> {
    const { sessionId } = session;
    const would = await this.server.request("ullage/session/rewind", { sessionId, turnId, dryRun: true });
    const files = would.writtenFiles.length > 0 ? ` Files stay as they are now: ${would.writtenFiles.join(", ")}.` : "";
    const detail = `${would.turns.length} prompts go, ${would.before.toLocaleString()} to ${would.after.toLocaleString()} tokens.${files} It can be redone until the next prompt.`;
    if ((await vscode.window.showWarningMessage("Go back to before this prompt?", { modal: true, detail }, "Rewind")) !== "Rewind") return;
    const row = session.transcript.rows.find((each) => each.kind === "prompt" && each.turnId === turnId);
    await this.server.request("ullage/session/rewind", { sessionId, turnId });
    if (row?.kind === "prompt") this.post({ kind: "focus", insert: row.text });
  }

  // What is shown.

  snapshot(): void {
    const session = this.sessions.shown;
    this.bar.server(this.state.state, session?.occupancy ?? null);
    this.chat.describe(session?.title ?? "");
    const shown = session && { sessionId: session.sessionId, title: session.title, readOnly: session.readOnly, resume: session.resume, updates: [...session.updates, ...session.live] };
    this.post({
      kind: "snapshot", server: this.state, trusted: vscode.workspace.isTrusted, session: shown, occupancy: session?.occupancy ?? null,
      compaction: session?.compaction ?? null, permissions: this.permissionsShown(),
    });
    this.refresh();
  }

  private permissionsShown(): PermissionParams[] {
    return this.sessions.permissions.filter((each) => each.sessionId === this.sessions.shown?.sessionId);
  }

  private postPermissions(): void {
    this.post({ kind: "permissions", permissions: this.permissionsShown() });
  }

  /** Context keys, by which commands are enabled, and the view's title. */
  private refresh(): void {
    const session = this.sessions.shown;
    void vscode.commands.executeCommand("setContext", "ullage.sessionOpen", session !== null && this.state.state === "ready");
    void vscode.commands.executeCommand("setContext", "ullage.busy", session !== null && (busy(session.transcript) || session.compaction !== null));
    this.chat.describe(session?.title ?? "");
  }

  /** The inspector follows the meter, at most twice a second. */
  private inspectSoon(): void {
    if (!this.inspector.open || this.inspecting) return;
    this.inspecting = setTimeout(() => {
      this.inspecting = undefined;
      void this.inspect().catch((error: unknown) => this.log.warn(String(error)));
    }, 500);
  }

  async inspect(): Promise<void> {
    const session = this.sessions.shown;
    if (!session || !this.inspector.open || !this.server.ready) return;
    const inspection = await this.server.request("ullage/context/inspect", { sessionId: session.sessionId });
    this.inspector.post({ kind: "inspection", inspection, title: session.title, handoffOn: session.handoffOn });
  }

  post(message: ToPanel): void {
    this.chat.post(message);
  }

  problem(what: { message: string; hint: string }, restore = ""): void {
    this.log.warn([what.message, what.hint].filter(Boolean).join(" "));
    this.post({ kind: "problem", ...what, restore });
  }

  request<M extends keyof Requests>(method: M, params: Requests[M]["params"]): Promise<Requests[M]["result"]> {
    return this.server.request(method, params);
  }

  /** Do it; what goes wrong is told in the panel where it is seen, else by a message. */
  async trying(act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (isCancelled(error)) return;
      const told = words(error);
      this.problem(told);
      if (!this.chat.visible) void vscode.window.showErrorMessage([told.message, told.hint].filter(Boolean).join(" "));
    }
  }
}

/** The first line of the first prompt, as a title until the person gives another. */
function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > 60 ? `${line.slice(0, 59).trimEnd()}…` : line;
}
