// The chat view and the inspector's tab: pages made, messages checked at the door.

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { fromPanel, type FromPanel, type ToPanel } from "../messages";
import { page } from "./html";

type Heard = (message: FromPanel) => void;

function prepare(webview: vscode.Webview, extension: vscode.Uri, name: "chat" | "inspector", title: string, heard: Heard): void {
  const dist = vscode.Uri.joinPath(extension, "dist");
  webview.options = { enableScripts: true, localResourceRoots: [dist] };
  webview.onDidReceiveMessage((raw: unknown) => {
    const message = fromPanel(raw);
    if (message) heard(message);
  });
  const uri = (file: string) => webview.asWebviewUri(vscode.Uri.joinPath(dist, file)).toString();
  webview.html = page({
    nonce: randomBytes(18).toString("base64"), cspSource: webview.cspSource, script: uri(`${name}.js`),
    styles: [uri("codicon.css"), uri("panel.css")], title, body: name,
  });
}

export class ChatView implements vscode.WebviewViewProvider {
  private view: vscode.WebviewView | null = null;

  constructor(private readonly extension: vscode.Uri, private readonly heard: Heard) {}

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    view.onDidDispose(() => {
      if (this.view === view) this.view = null;
    });
    prepare(view.webview, this.extension, "chat", "Ullage chat", this.heard);
  }

  get visible(): boolean {
    return this.view?.visible ?? false;
  }

  post(message: ToPanel): void {
    void this.view?.webview.postMessage(message);
  }

  describe(title: string): void {
    if (this.view) this.view.title = title || "Chat";
  }

  async reveal(): Promise<void> {
    await vscode.commands.executeCommand("ullage.view.focus");
  }
}

export class InspectorTab {
  private tab: vscode.WebviewPanel | null = null;

  constructor(private readonly extension: vscode.Uri, private readonly heard: Heard) {}

  get open(): boolean {
    return this.tab !== null;
  }

  reveal(): void {
    if (this.tab) {
      this.tab.reveal();
      return;
    }
    const tab = vscode.window.createWebviewPanel("ullage.inspector", "Ullage: Context", vscode.ViewColumn.Active, {});
    this.tab = tab;
    tab.onDidDispose(() => (this.tab = null));
    prepare(tab.webview, this.extension, "inspector", "Ullage context", this.heard);
  }

  post(message: ToPanel): void {
    void this.tab?.webview.postMessage(message);
  }
}
