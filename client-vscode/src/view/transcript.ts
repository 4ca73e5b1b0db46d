// A session as a person sees it: the fold of the server's updates into rows. Pure; used by the extension and the panel.
//
// Invariants: the same durable updates give the same rows, however often the session was opened in between; an update
// that was folded already changes nothing; a delta never changes what a durable update said.

import type {
  AnswerUpdate,
  CompactedUpdate,
  DeltaUpdate,
  ErrorPayload,
  PromptMode,
  SessionUpdate,
  ToolCallPayload,
  ToolResultPayload,
} from "../protocol";

export interface Call {
  call: ToolCallPayload;
  result: ToolResultPayload | null;
  /** What it printed so far, while it runs; its result has it all. */
  printed: string;
  /** UTC milliseconds: when it was asked for, and when it had ended. */
  askedAt: number | null;
  endedAt: number | null;
}

export interface PromptRow {
  kind: "prompt";
  key: string;
  seq: number;
  turnId: string;
  messageId: string;
  text: string;
  steer: boolean;
}

export interface AnswerRow {
  kind: "answer";
  key: string;
  /** Newest seq of the answer and its results; null while it streams. */
  seq: number | null;
  turnId: string;
  messageId: string;
  text: string;
  reasoning: string;
  streaming: boolean;
  model: string;
  calls: Call[];
}

export interface CompactedRow {
  kind: "compacted";
  key: string;
  seq: number;
  reason: CompactedUpdate["reason"];
  report: CompactedUpdate["report"];
  ledger: string;
}

export type Tone = "info" | "warning" | "error";

export interface NoticeRow {
  kind: "notice";
  key: string;
  seq: number | null;
  turnId: string | null;
  tone: Tone;
  text: string;
  hint: string;
}

export type Row = PromptRow | AnswerRow | CompactedRow | NoticeRow;

export interface Waiting {
  turnId: string;
  messageId: string;
  seq: number;
  text: string;
  mode: PromptMode;
}

export interface Transcript {
  lastSeq: number;
  title: string;
  rows: Row[];
  waiting: Waiting[];
  /** Why the queue waits for a person. */
  held: string | null;
  running: string | null;
  /** Message ids by pin id; null where a text was pinned. */
  pins: Map<string, string | null>;
  /** What the newest rewind took out, until a turn starts. */
  taken: { at: number; rows: Row[] } | null;
}

export function empty(): Transcript {
  return { lastSeq: -1, title: "", rows: [], waiting: [], held: null, running: null, pins: new Map(), taken: null };
}

/** Fold one update in; the rows that changed are new objects, the others stay the same. */
export function apply(state: Transcript, told: SessionUpdate): Transcript {
  if (told.seq === null) return transient(state, told);
  if (told.seq <= state.lastSeq) return state;
  const next = { ...durable(withoutRetries(state), told, told.seq), lastSeq: told.seq };
  return next;
}

export function applyAll(updates: Iterable<SessionUpdate>, state: Transcript = empty()): Transcript {
  for (const update of updates) state = apply(state, update);
  return state;
}

/** Whether a model or a tool is at work. */
export function busy(state: Transcript): boolean {
  return state.running !== null;
}

function durable(state: Transcript, told: SessionUpdate, seq: number): Transcript {
  const update = told.update;
  switch (update.kind) {
    case "prompt":
      return { ...state, waiting: queued(state.waiting, update, seq) };
    case "promptRemoved":
      return { ...state, waiting: state.waiting.filter((each) => each.turnId !== update.turnId) };
    case "queue":
      return { ...state, held: update.held };
    case "turnStarted":
      return enter({ ...state, running: update.turnId, taken: null }, update.turnId, false, seq);
    case "steerEntered":
      return enter(state, update.steerId, true, seq);
    case "answer":
      return { ...state, rows: put(state.rows, answered(update, seq, told.at)) };
    case "toolResult":
      return { ...state, rows: state.rows.map((row) => withResults(row, update.results, seq, told.at)) };
    case "turnEnded":
      return ended(state, update.turnId, update.stop, update.error, seq);
    case "compacted":
      return add(state, { kind: "compacted", key: `s${seq}`, seq, reason: update.reason, report: update.report, ledger: update.ledger });
    case "compactionFailed":
      return note(state, seq, "warning", `The context was not compacted: ${update.error.message}`, update.error.hint);
    case "pinned":
      return { ...state, pins: new Map(state.pins).set(update.pinId, update.messageId) };
    case "unpinned":
      return { ...state, pins: new Map([...state.pins].filter(([pin]) => pin !== update.pinId)) };
    case "omission":
      return update.reason === null
        ? note(state, seq, "info", `${update.seqs.length} left-out messages are seen by the model again.`)
        : note(state, seq, "info", `${update.seqs.length} older messages are left out of what the model sees${update.tokens ? ` (${update.tokens.toLocaleString("en-US")} tokens)` : ""}.`);
    case "instructions":
      return note(state, seq, "info", `The model was told of ${update.path}${update.note ? ` (${update.note})` : ""}.`);
    case "created":
      return state;
    case "forked":
      return note(state, seq, "info", "Forked here. What follows is only in this session.");
    case "renamed":
      return { ...state, title: update.title };
    case "configured":
      return state;
    case "repaired":
      return note(state, seq, "warning", `The end of the log was damaged by a crash and was cut; a copy is kept as ${update.keptAs}.`);
    case "damageAccepted":
      return note(state, seq, "info", "Writing goes on after damage that stays in the log.");
    case "rewound":
      return rewound(state, update.beforeSeq, update.turns);
    case "redone":
      return redone(state);
    case "delta":
    case "retrying":
      return state;
    default:
      return unknown(update, state);
  }
}

/** What a newer server tells and we do not know changes nothing; a kind of our own version does not compile. */
function unknown(_update: never, state: Transcript): Transcript {
  return state;
}

function transient(state: Transcript, told: SessionUpdate): Transcript {
  const update = told.update;
  if (update.kind === "delta") return delta(state, update);
  if (update.kind === "retrying") {
    const text = `${update.error.message} Trying again (${update.attempt} of ${update.most})…`;
    const row: NoticeRow = { kind: "notice", key: `retry:${update.messageId}`, seq: null, turnId: state.running, tone: "warning", text, hint: "" };
    return { ...state, rows: put(state.rows, row) };
  }
  return state;
}

function delta(state: Transcript, update: DeltaUpdate): Transcript {
  if (update.of === "output") return { ...state, rows: state.rows.map((row) => withOutput(row, update)) };
  const key = `m${update.messageId}`;
  const old = state.rows.findLast((row): row is AnswerRow => row.kind === "answer" && row.key === key);
  if (old && !old.streaming) return state;
  const row: AnswerRow = old ?? {
    kind: "answer", key, seq: null, turnId: state.running ?? "", messageId: update.messageId, text: "", reasoning: "", streaming: true, model: "", calls: [],
  };
  const field = update.of === "text" ? "text" : "reasoning";
  return { ...state, rows: put(withoutRetries(state).rows, { ...row, [field]: spliced(row[field], update.offset, update.text) }) };
}

function withOutput(row: Row, update: DeltaUpdate): Row {
  if (row.kind !== "answer" || row.messageId !== update.messageId) return row;
  const calls = row.calls.map((each) =>
    each.call.callId === update.callId && !each.result ? { ...each, printed: spliced(each.printed, update.offset, update.text) } : each,
  );
  return { ...row, calls };
}

/** `offset` counts code points. A piece that begins earlier takes the place of what is there; a gap is shown as one. */
function spliced(have: string, offset: number, piece: string): string {
  if (offset === 0) return piece;
  const points = countPoints(have);
  if (offset === points) return have + piece;
  if (offset < points) return [...have].slice(0, offset).join("") + piece;
  return `${have} … ${piece}`;
}

function countPoints(text: string): number {
  let pairs = 0;
  for (let index = 0; index + 1 < text.length; index += 1) {
    if ((text.charCodeAt(index) & 0xfc00) === 0xd800 && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00) pairs += 1;
  }
  return text.length - pairs;
}

function queued(waiting: Waiting[], update: { turnId: string; messageId: string; text: string; mode: PromptMode | null }, seq: number): Waiting[] {
  const old = waiting.find((each) => each.turnId === update.turnId);
  const entry: Waiting = { turnId: update.turnId, messageId: update.messageId, seq, text: update.text, mode: update.mode ?? old?.mode ?? "queue" };
  return old ? waiting.map((each) => (each === old ? entry : each)) : [...waiting, entry];
}

function enter(state: Transcript, turnId: string, steer: boolean, seq: number): Transcript {
  const prompt = state.waiting.find((each) => each.turnId === turnId);
  if (!prompt) return state;
  const row: PromptRow = { kind: "prompt", key: `t${turnId}`, seq, turnId, messageId: prompt.messageId, text: prompt.text, steer };
  return { ...state, waiting: state.waiting.filter((each) => each !== prompt), rows: [...state.rows, row] };
}

function answered(update: AnswerUpdate, seq: number, at: number | null): AnswerRow {
  const calls = update.calls.map((call): Call => ({ call, result: null, printed: "", askedAt: at, endedAt: null }));
  return {
    kind: "answer", key: `m${update.messageId}`, seq, turnId: update.turnId, messageId: update.messageId, text: update.text,
    reasoning: update.reasoning, streaming: false, model: update.model, calls,
  };
}

function withResults(row: Row, results: ToolResultPayload[], seq: number, at: number | null): Row {
  if (row.kind !== "answer" || !row.calls.some((each) => results.some((result) => result.callId === each.call.callId))) return row;
  const calls = row.calls.map((each) => {
    const result = results.find((one) => one.callId === each.call.callId);
    return result ? { ...each, result, printed: "", endedAt: at } : each;
  });
  return { ...row, seq, calls };
}

const ENDS: Record<string, { tone: Tone; text: string } | undefined> = {
  cancelled: { tone: "info", text: "Stopped." },
  failed: { tone: "error", text: "The turn failed." },
  interrupted: { tone: "warning", text: "The server ended while this turn ran. Nothing was run again." },
  length: { tone: "warning", text: "The answer reached its length and was cut." },
};

function ended(state: Transcript, turnId: string, stop: string, error: ErrorPayload | null, seq: number): Transcript {
  // What still streams now was never written down: a reload would not show it either.
  const rows = withoutLast(state.rows, (row) => row.kind === "answer" && row.streaming);
  const next = { ...state, rows, running: state.running === turnId ? null : state.running };
  const end = ENDS[stop];
  return end ? note(next, seq, end.tone, error ? error.message : end.text, error?.hint ?? "", turnId) : next;
}

function rewound(state: Transcript, beforeSeq: number, turns: string[]): Transcript {
  const gone = new Set(turns);
  const goes = (row: Row) => (row.seq !== null && row.seq >= beforeSeq) || ("turnId" in row && row.turnId !== null && gone.has(row.turnId));
  const rows = state.rows.filter((row) => !goes(row));
  return { ...state, rows, running: null, taken: { at: rows.length, rows: state.rows.filter(goes) } };
}

function redone(state: Transcript): Transcript {
  if (!state.taken) return state;
  const rows = [...state.rows.slice(0, state.taken.at), ...state.taken.rows, ...state.rows.slice(state.taken.at)];
  return { ...state, rows, taken: null };
}

function note(state: Transcript, seq: number, tone: Tone, text: string, hint = "", turnId: string | null = null): Transcript {
  return add(state, { kind: "notice", key: `s${seq}`, seq, turnId, tone, text, hint });
}

function add(state: Transcript, row: Row): Transcript {
  return { ...state, rows: [...state.rows, row] };
}

function put(rows: Row[], row: Row): Row[] {
  const index = rows.findLastIndex((each) => each.key === row.key);
  return index < 0 ? [...rows, row] : rows.with(index, row);
}

function withoutRetries(state: Transcript): Transcript {
  const rows = withoutLast(state.rows, (row) => row.key.startsWith("retry:"));
  return rows === state.rows ? state : { ...state, rows };
}

/** What is not durable stands at the end, so a long transcript is not walked for it. */
function withoutLast(rows: Row[], goes: (row: Row) => boolean): Row[] {
  let end = rows.length;
  for (let row = rows[end - 1]; row && goes(row); row = rows[end - 1]) end -= 1;
  return end === rows.length ? rows : rows.slice(0, end);
}
