// The server's life: found, started, told who trusts what, watched, and started again when it ends by itself.
//
// Invariant: there is at most one server of this window; every start begins with the key (if a person gave one) and
// ends with `onReady`, so whoever follows sessions asks again for what they missed.

import * as vscode from "vscode";
import { CloseAction, ErrorAction, LanguageClient, type LanguageClientOptions, State, TransportKind } from "vscode-languageclient/node";
import type { ServerState } from "../messages";
import type { Notifications, PermissionParams, PermissionResult, Requests } from "../protocol";
import { backoff } from "../view/backoff";
import { candidates, findPython } from "./interpreter";
import { editorSettings } from "./settings";

export interface Hearer {
  onState(state: ServerState, message: string): void;
  onReady(): Promise<void>;
  onNotification<M extends keyof Notifications>(method: M, params: Notifications[M]["params"]): void;
  onPermission(params: PermissionParams, token: vscode.CancellationToken): Promise<PermissionResult>;
}

const NOTIFICATIONS: Array<keyof Notifications> = ["ullage/session/update", "ullage/context/occupancy", "ullage/session/warning", "ullage/context/compaction"];

export class Server implements vscode.Disposable {
  private client: LanguageClient | null = null;
  private crashes: number[] = [];
  private timer: NodeJS.Timeout | undefined;
  /** Counts starts; what belongs to an older one is ignored. */
  private generation = 0;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
    private readonly hearer: Hearer,
    private readonly key: () => Promise<string | undefined>,
  ) {}

  get ready(): boolean {
    return this.client?.state === State.Running;
  }

  async request<M extends keyof Requests>(method: M, params: Requests[M]["params"]): Promise<Requests[M]["result"]> {
    if (!this.client || !this.ready) throw new Error("The Ullage server is not running.");
    return this.client.sendRequest<Requests[M]["result"]>(method, params);
  }

  /** Start, or start anew. */
  async start(): Promise<void> {
    const generation = ++this.generation;
    clearTimeout(this.timer);
    await this.stopClient();
    this.hearer.onState("starting", "Starting the server…");
    const cwd = this.context.globalStorageUri.fsPath;
    await vscode.workspace.fs.createDirectory(this.context.globalStorageUri);
    const setting = vscode.workspace.getConfiguration("ullage").get<string>("server.python", "");
    const found = await findPython(candidates(setting, trustedFolders()), cwd);
    if (generation !== this.generation) return;
    if ("tried" in found) return this.missing(found.tried);
    this.log.info(`Server ${found.version} on ${found.python}`);
    await this.launch(found.python, cwd, generation);
  }

  private async launch(python: string, cwd: string, generation: number): Promise<void> {
    const options: LanguageClientOptions = {
      documentSelector: [],
      outputChannel: this.log,
      initializationOptions: { ullage: { trustedRoots: trustedFolders(), settings: editorSettings() } },
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          this.crashed(generation);
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
    };
    const command = { command: python, args: ["-P", "-m", "ullage", "serve"], options: { cwd }, transport: TransportKind.stdio };
    const client = new LanguageClient("ullage", "Ullage", command, options);
    this.client = client;
    for (const method of NOTIFICATIONS) {
      client.onNotification(method, (params) => {
        if (generation === this.generation) this.hearer.onNotification(method, params);
      });
    }
    client.onRequest("ullage/permission/request", (params: PermissionParams, token) => this.hearer.onPermission(params, token));
    try {
      await client.start();
      await this.sendKey();
    } catch (error) {
      this.log.error(`The server did not start: ${String(error)}`);
      this.crashed(generation);
      return;
    }
    if (generation !== this.generation) return;
    this.hearer.onState("ready", "");
    await this.hearer.onReady();
  }

  private crashed(generation: number): void {
    if (generation !== this.generation) return;
    this.generation += 1;
    this.crashes.push(Date.now());
    const wait = backoff(this.crashes);
    this.log.error("The server has ended by itself.");
    if (wait === null) {
      this.failed("The Ullage server ended again and again. Sessions are safe on disk.");
      return;
    }
    this.hearer.onState("restarting", "The server ended; it is started again. Nothing that was said is lost.");
    this.timer = setTimeout(() => void this.start(), wait);
  }

  private missing(tried: Array<{ python: string; why: string }>): void {
    for (const each of tried) this.log.error(`${each.python}: ${each.why}`);
    const setting = "Install it (pip install ullage) or name an interpreter that has it.";
    this.failed(`No Python with the ullage package was found (tried ${tried.map((each) => each.python).join(", ")}). ${setting}`);
  }

  private failed(message: string): void {
    this.hearer.onState("failed", message);
    void vscode.window.showErrorMessage(message, "Show Log", "Settings", "Restart").then((choice) => {
      if (choice === "Show Log") this.log.show();
      if (choice === "Settings") void vscode.commands.executeCommand("workbench.action.openSettings", "ullage.server.python");
      if (choice === "Restart") void this.restart();
    });
  }

  /** A person's restart: earlier crashes count no more. */
  async restart(): Promise<void> {
    this.crashes = [];
    await this.start();
  }

  async sendKey(): Promise<void> {
    const key = await this.key();
    if (key !== undefined) await this.request("ullage/auth/set", { provider: "anthropic", key });
  }

  async trust(): Promise<void> {
    if (!this.ready) return;
    for (const root of trustedFolders()) await this.request("ullage/workspace/trust", { root, trusted: true });
  }

  private async stopClient(): Promise<void> {
    const client = this.client;
    this.client = null;
    if (client?.needsStop()) await client.stop(3000).catch(() => undefined);
    await client?.dispose().catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.generation += 1;
    clearTimeout(this.timer);
    await this.stopClient();
  }

  dispose(): void {
    void this.stop();
  }
}

/** VS Code trusts a window as a whole. */
function trustedFolders(): string[] {
  if (!vscode.workspace.isTrusted) return [];
  return (vscode.workspace.workspaceFolders ?? []).filter((each) => each.uri.scheme === "file").map((each) => each.uri.fsPath);
}
