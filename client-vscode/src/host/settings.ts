// What the editor's settings tell the server.

import * as vscode from "vscode";
import type { EditorSettings } from "../protocol";

const NAMES: Array<keyof EditorSettings> = ["provider", "model", "summaryModel", "window", "outputCap", "profile", "compactionAuto", "handoff", "limits"];

/** Only what a person set; the server's own sources decide the rest. */
export function editorSettings(): EditorSettings {
  const from = vscode.workspace.getConfiguration("ullage");
  const set = NAMES.map((name) => [name, from.get(name, null)] as const).filter(([, value]) => value !== null && value !== "");
  return Object.fromEntries(set) as EditorSettings;
}
