// What a model's answer or a tool call points to, opened only after a check.

import * as path from "node:path";
import * as vscode from "vscode";

/** A web address goes to the browser, after VS Code's own question; anything else may only be a file of the workspace. */
export async function openLink(href: string): Promise<void> {
  if (/^https?:\/\//i.test(href)) {
    await vscode.env.openExternal(vscode.Uri.parse(href, true));
    return;
  }
  if (/^[a-z][a-z0-9+.-]*:/i.test(href)) throw new Error(`Links to ${href.split(":", 1)[0]}: are not opened.`);
  await openFile(href.split(/[?#]/, 1)[0] ?? "");
}

export async function openFile(name: string): Promise<void> {
  for (const folder of vscode.workspace.workspaceFolders ?? []) {
    const whole = path.resolve(folder.uri.fsPath, name);
    const inside = path.relative(folder.uri.fsPath, whole);
    if (inside === "" || inside.startsWith("..") || path.isAbsolute(inside)) continue;
    const uri = vscode.Uri.file(whole);
    const found = await vscode.workspace.fs.stat(uri).then((stat) => stat.type, () => null);
    if (found === null) continue;
    if (found & vscode.FileType.Directory) await vscode.commands.executeCommand("revealInExplorer", uri);
    else await vscode.window.showTextDocument(uri, { preview: true });
    return;
  }
  throw new Error(`${name} is no file of this workspace.`);
}
