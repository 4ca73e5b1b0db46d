// Updates as a server tells them, for tests.

import type { AnswerUpdate, OccupancyPayload, SessionUpdate, ToolCallPayload, ToolResultPayload } from "../src/protocol";

export const SESSION = "0190a000-0000-7000-8000-000000000001";

type Update = SessionUpdate["update"];

/** Durable updates get seqs 0, 1, 2, …; deltas and retries none. */
export function told(...updates: Update[]): SessionUpdate[] {
  let seq = 0;
  return updates.map((update) => {
    const durable = update.kind !== "delta" && update.kind !== "retrying";
    return { sessionId: SESSION, seq: durable ? seq++ : null, at: durable ? 1_790_000_000_000 + seq * 1000 : null, update };
  });
}

export const prompt = (turnId: string, text: string, mode: "queue" | "steer" | null = "queue"): Update => ({ kind: "prompt", turnId, messageId: `${turnId}.p`, text, images: [], mode });
export const started = (turnId: string): Update => ({ kind: "turnStarted", turnId });
export const ended = (turnId: string, stop: "done" | "cancelled" | "failed" | "interrupted" | "length" = "done"): Update => ({
  kind: "turnEnded", turnId, stop, error: stop === "failed" ? { code: "x", message: "It broke.", hint: "Mend it.", data: {} } : null,
});
export const call = (callId: string, name = "read", args: unknown = { path: "a.py" }): ToolCallPayload => {
  const text = JSON.stringify(args);
  return { callId, name, arguments: text, argumentsBytes: text.length };
};
export const answer = (turnId: string, messageId: string, text: string, more: Partial<AnswerUpdate> = {}): Update => ({
  kind: "answer", turnId, messageId, text, reasoning: "", calls: [], stop: "end_turn", model: "explorer",
  usage: { prompt: null, completion: null, total: null, cacheRead: null, cacheWrite: null, reasoning: null }, ...more,
});
export const result = (callId: string, text: string, more: Partial<ToolResultPayload> = {}): Update => ({
  kind: "toolResult", turnId: "t1", messageId: "r", results: [
    { callId, text, textBytes: text.length, full: null, isError: false, op: "read", paths: ["a.py"], command: null, exitCode: null, detail: null, images: [], ...more },
  ],
});
export const delta = (messageId: string, offset: number, text: string, of: "text" | "reasoning" = "text"): Update => ({ kind: "delta", of, messageId, callId: null, afterSeq: 0, offset, text });
export const printed = (messageId: string, callId: string, offset: number, text: string): Update => ({ kind: "delta", of: "output", messageId, callId, afterSeq: 0, offset, text });
export const compacted = (ledger = "## Goal\n\nFind it."): Update => ({
  kind: "compacted", reason: "threshold", ledger, report: {
    strategy: "deterministic", profile: "ullage", before: 24_846, after: 16_766, keptMessages: 28, droppedMessages: 31, restoredFiles: ["a.py"], samples: 0, failure: null, durationMs: 63,
  },
});

export const occupancy = (used: number, more: Partial<OccupancyPayload> = {}): OccupancyPayload => ({
  sessionId: SESSION, used, estimated: 0, source: "provider", fixed: 957, hidden: 0, phase: used >= 24_640 ? "compaction_due" : used >= 21_560 ? "handoff_band" : "below_handoff",
  window: 32_000, windowSource: "setting", reserve: 1200, inputBudget: 30_800, handoffLine: 21_560, compactionLine: 24_640,
  totals: { calls: 3, prompt: 1, completion: 1, cacheRead: 0, cacheWrite: 0, unreported: 0, priced: 0, cost: null }, cost: null, unpriced: 0, ...more,
});
