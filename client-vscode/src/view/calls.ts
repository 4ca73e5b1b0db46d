// A tool call in one line. Pure.

import type { Call } from "./transcript";
import { bytes, duration } from "./figures";

export type CallState = "running" | "asking" | "done" | "failed" | "unknown";

export interface CallLine {
  icon: string;
  name: string;
  /** What it is about: a path, a pattern, a command. */
  target: string;
  /** A path of the workspace that can be opened. */
  path: string | null;
  outcome: string;
  state: CallState;
  /** For screen readers. */
  words: string;
}

const ICONS: Record<string, string> = { read: "file", search: "search", write: "edit", run: "terminal", other: "tools" };
const NAMES: Array<[RegExp, string]> = [[/read|list/, "read"], [/grep|glob|search|recall/, "search"], [/write|edit|patch/, "write"], [/run|shell|bash|exec/, "run"]];
const WORDS: Record<CallState, string> = { running: "running", asking: "waits for your approval", done: "done", failed: "failed", unknown: "outcome unknown" };

export function callLine(call: Call, asking: boolean, live: boolean): CallLine {
  const { result } = call;
  const kind = result?.op ?? NAMES.find(([pattern]) => pattern.test(call.call.name))?.[1] ?? "other";
  const state: CallState = result ? (result.isError ? "failed" : "done") : asking ? "asking" : live ? "running" : "unknown";
  const target = targetOf(call);
  const path = result && result.paths.length === 1 ? (result.paths[0] ?? null) : null;
  const outcome = outcomeOf(call);
  const words = [call.call.name, target, WORDS[state], outcome].filter(Boolean).join(", ");
  return { icon: ICONS[kind] ?? "tools", name: call.call.name, target, path, outcome, state, words };
}

function targetOf(call: Call): string {
  if (call.result?.command) return call.result.command;
  const args = parsed(call.call.arguments);
  const about = ["command", "pattern", "query", "path", "file", "id"].map((name) => args[name]).filter((each) => typeof each === "string");
  const range = typeof args.start === "number" ? [`${args.start}-${typeof args.end === "number" ? args.end : ""}`] : [];
  return [...about, ...range].join(" ") || (call.result?.paths.join(", ") ?? "");
}

function outcomeOf(call: Call): string {
  const { result } = call;
  if (!result) return call.printed.trimEnd().split("\n").at(-1) ?? "";
  const took = call.askedAt !== null && call.endedAt !== null && call.endedAt > call.askedAt ? duration(call.endedAt - call.askedAt) : "";
  const code = result.exitCode !== null && result.exitCode !== 0 ? `exit ${result.exitCode}` : "";
  return [code, detail(result.detail, targetOf(call)) ?? bytes(result.textBytes), took].filter(Boolean).join(", ");
}

/** The target stands beside it already: "100 lines of a.py" is "100 lines". */
function detail(text: string | null, target: string): string | null {
  if (text === null) return null;
  const said = target.split(" ").filter((word) => word.length > 1);
  const cut = /^(.+?) (?:of|for|in) ['"]?(\S+)/.exec(text);
  return cut?.[1] && said.some((word) => cut[2]?.startsWith(word.slice(0, 8))) ? cut[1] : text;
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
