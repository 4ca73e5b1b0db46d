// Composes the extension.

import * as vscode from "vscode";
import { KEY, registerCommands } from "./commands";
import { Controller } from "./controller";
import { Server } from "./server";
import { StatusBar } from "./statusbar";

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Ullage", { log: true });
  const bar = new StatusBar();
  const controller = new Controller(context, log, bar);
  server = new Server(context, log, controller, async () => context.secrets.get(KEY));
  controller.server = server;
  context.subscriptions.push(log, bar, server);
  context.subscriptions.push(
    vscode.window.registerWebviewViewProvider("ullage.view", controller.chat),
    vscode.workspace.onDidGrantWorkspaceTrust(() => {
      void controller.trying(async () => server?.trust());
      controller.post({ kind: "trusted", trusted: true });
    }),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("ullage")) void askRestart(controller);
    }),
  );
  registerCommands(context, controller, log);
  void server.start();
}

/** The server takes settings when it starts. Sessions go on where they were, but a running turn would be cut. */
async function askRestart(controller: Controller): Promise<void> {
  const choice = await vscode.window.showInformationMessage("Ullage's settings hold from the server's next start.", "Restart Server");
  if (choice) await controller.server.restart();
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
