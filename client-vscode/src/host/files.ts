// The workspace's files and folders by name, for mentions.

import * as vscode from "vscode";
import { ranked, withFolders } from "../view/fuzzy";

const MOST_FILES = 20_000;
const MOST_SHOWN = 12;
/** Milliseconds for which a listing is good enough: about one mention's typing. */
const FRESH_MS = 10_000;

export class Files {
  private listed: Promise<string[]> | null = null;
  private at = 0;

  async named(query: string): Promise<string[]> {
    if (this.listed === null || Date.now() - this.at > FRESH_MS) {
      this.at = Date.now();
      this.listed = list();
    }
    return ranked(await this.listed, query, MOST_SHOWN);
  }
}

async function list(): Promise<string[]> {
  const found = await vscode.workspace.findFiles("**/*", "**/{node_modules,.git,.venv,__pycache__}/**", MOST_FILES);
  return withFolders(found.map((uri) => vscode.workspace.asRelativePath(uri, false)));
}
