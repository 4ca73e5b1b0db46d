// Which Python runs the server.
//
// Invariant: nothing of a workspace is run unless the workspace is trusted. `-P` keeps the working folder off Python's
// path, so a folder named `ullage` in a workspace is never taken for the server.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import * as path from "node:path";

export interface Found {
  python: string;
  version: string;
}

export interface NotFound {
  tried: Array<{ python: string; why: string }>;
}

const CHECK = "import sys; assert sys.version_info >= (3, 11), 'needs Python 3.11 or newer'; from importlib.metadata import version; import ullage; print(version('ullage'))";
const CHECK_MS = 15_000;

/** Candidates in order: the setting alone, where it is set; else the venvs of trusted folders, then the PATH's python3. */
export function candidates(setting: string, trustedFolders: readonly string[]): string[] {
  if (setting !== "") return [setting];
  const venvs = trustedFolders.flatMap((folder) => [path.join(folder, ".venv/bin/python"), path.join(folder, "venv/bin/python")]);
  return [...venvs.filter((each) => existsSync(each)), "python3"];
}

export async function findPython(pythons: readonly string[], cwd: string): Promise<Found | NotFound> {
  const tried: NotFound["tried"] = [];
  for (const python of pythons) {
    const answer = await ask(python, cwd);
    if ("version" in answer) return { python, version: answer.version };
    tried.push({ python, why: answer.why });
  }
  return { tried };
}

function ask(python: string, cwd: string): Promise<{ version: string } | { why: string }> {
  return new Promise((resolve) => {
    execFile(python, ["-P", "-c", CHECK], { cwd, timeout: CHECK_MS }, (error, stdout, stderr) => {
      if (!error) resolve({ version: stdout.trim() });
      else resolve({ why: stderr.trim().split("\n").at(-1) || error.message });
    });
  });
}
