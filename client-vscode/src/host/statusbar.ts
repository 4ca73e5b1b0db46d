// The meter in the status bar.

import * as vscode from "vscode";
import type { ServerState } from "../messages";
import type { OccupancyPayload } from "../protocol";
import { details, meter } from "../view/meter";

export class StatusBar implements vscode.Disposable {
  private readonly item: vscode.StatusBarItem;
  private state: ServerState = "starting";

  constructor() {
    this.item = vscode.window.createStatusBarItem("ullage.meter", vscode.StatusBarAlignment.Right, 100);
    this.item.name = "Ullage Context";
    this.show(null);
    this.item.show();
  }

  server(state: ServerState, occupancy: OccupancyPayload | null): void {
    this.state = state;
    this.show(occupancy);
  }

  show(occupancy: OccupancyPayload | null): void {
    if (this.state !== "ready") this.plain(this.state === "failed" ? "$(error)" : "$(loading~spin)", this.state);
    else if (occupancy === null) this.plain("$(pie-chart)", "no session is open");
    else this.figures(occupancy);
  }

  private plain(icon: string, words: string): void {
    this.item.text = `${icon} Ullage`;
    this.item.tooltip = `Ullage: ${words}`;
    this.item.backgroundColor = this.state === "failed" ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
    this.item.command = this.state === "failed" ? "ullage.server.log" : "ullage.chat.focusInput";
    this.item.accessibilityInformation = { label: `Ullage: ${words}`, role: "button" };
  }

  private figures(occupancy: OccupancyPayload): void {
    const shown = meter(occupancy);
    this.item.text = `$(${shown.icon}) ${shown.text}`;
    this.item.command = "ullage.chat.inspect";
    this.item.backgroundColor = background(shown.tone);
    this.item.accessibilityInformation = { label: shown.spoken, role: "button" };
    const table = details(occupancy).map(([label, value]) => `| ${label} | ${value} |`).join("\n");
    this.item.tooltip = new vscode.MarkdownString(`**Ullage context**: ${shown.phase}\n\n| | |\n|---|--:|\n${table}\n\nClick to inspect.`);
  }

  dispose(): void {
    this.item.dispose();
  }
}

function background(tone: "plain" | "band" | "due"): vscode.ThemeColor | undefined {
  if (tone === "plain") return undefined;
  return new vscode.ThemeColor(tone === "band" ? "statusBarItem.warningBackground" : "statusBarItem.errorBackground");
}
