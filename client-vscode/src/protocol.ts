// Made by `make docs` from the server's payloads; change those instead.

/** `capabilities.experimental.ullage` of the initialize result. */
export interface Abilities {
  /** Version of this protocol. */
  version: number;
  /** Requests the server answers. */
  methods: Array<string>;
  /** Notifications the server sends. */
  notifications: Array<string>;
  /** Whether prompts may hold images. */
  images: boolean;
  /** Most bytes of tool text in one update. */
  updateBytes: number;
}

/** The model's answer; takes the place of its deltas. */
export interface AnswerUpdate {
  kind: "answer";
  /** The turn. */
  turnId: string;
  /** Its message. */
  messageId: string;
  /** What it said. */
  text: string;
  /** Its readable thinking; may be empty. */
  reasoning: string;
  /** What it asked for. */
  calls: Array<ToolCallPayload>;
  usage: UsagePayload;
  /** Why it stopped, in its provider's words; `cancelled` and `failed` are ours. */
  stop: string;
  /** Who answered. */
  model: string;
}

/** A provider's key, as a person typed it. Kept in memory only, for this process. */
export interface AuthParams {
  /** Whose key it is: anthropic. */
  provider: string;
  /** The key. Null forgets the one that was given before. */
  key: string | null;
}

/** What there is now. A key itself is never sent. */
export interface AuthPayload {
  /** Whose key it is. */
  provider: string;
  /** Where the key that is used comes from; null when there is none. */
  source: "editor" | "environment" | "keyring" | null;
}

/** One of the biggest things in the next request. */
export interface BiggestPayload {
  /** Its event. */
  seq: number;
  /** Its message. */
  messageId: string;
  /** The category it counts in. */
  category: string;
  /** Tokens. */
  tokens: number;
}

/** Content kept beside the log. The tool `read_output` pages through it by this name. */
export interface BlobPayload {
  /** Hash of the content, hex. */
  sha256: string;
  /** Bytes. */
  size: number;
}

/** Cancel a turn, a waiting prompt, or whatever runs. A late cancel is harmless. */
export interface CancelParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** Left out: whatever runs. */
  turnId?: string | null;
}

/** A share of the next request. */
export interface CategoryPayload {
  /** Such as system, tools, user, assistant, `results: read`, summary, hidden. */
  name: string;
  /** Tokens. */
  tokens: number;
}

/** A compaction of this session. */
export interface CheckpointPayload {
  /** Its event. */
  seq: number;
  /** When, UTC milliseconds. */
  at: number;
  report: ReportPayload;
}

/** Compact a session now, or before the next step of its running turn. */
export interface CompactParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** What to take care of. */
  instructions?: string;
  /** Only say what would stay, go and cost; nothing is written. */
  dryRun?: boolean;
}

/** How a compaction ended, or what it would do: a dry run has only `preview`. */
export interface CompactResult {
  /** How it ended. */
  outcome: CompactionOutcome | null;
  /** What was done, when it was committed. */
  report: ReportPayload | null;
  /** Why it was not. */
  error: ErrorPayload | null;
  /** The dry run. */
  preview: PreviewPayload | null;
}

/** A boundary in the transcript: what came before, the model knows by this ledger. */
export interface CompactedUpdate {
  kind: "compacted";
  /** Why it was done. */
  reason: Reason;
  report: ReportPayload;
  /** What the model is told of the past. */
  ledger: string;
}

/** A compaction changed nothing. */
export interface CompactionFailedUpdate {
  kind: "compactionFailed";
  /** Why it was tried. */
  reason: Reason;
  error: ErrorPayload;
}

export type CompactionOutcome = "committed" | "refused" | "failed" | "cancelled";

/** Where a compaction stands. */
export interface CompactionPayload {
  /** Session id (uuid7). */
  sessionId: string;
  /** How far it is. */
  status: CompactionStatus;
  /** Why it runs. */
  reason: Reason;
  /** The profile that compacts. */
  profile: string;
  /** Who writes the replacement. */
  strategy: Strategy | null;
  /** What it does; comes with `gated` and `committed`. */
  report: ReportPayload | null;
  /** Why not; comes with `failed` and `skipped`. */
  error: ErrorPayload | null;
}

export type CompactionStatus = "started" | "summarising" | "retrying" | "gated" | "committed" | "failed" | "blocked" | "cancelled" | "skipped";

/** Settings to change; null leaves one as it is. */
export interface ConfigChange {
  /** Model that answers. */
  model?: string | null;
  /** Way of keeping inside the window. */
  profile?: string | null;
  /** What the agent may do without being asked. */
  permissionMode?: "plan" | "ask" | "edits" | "auto" | null;
  /** Whole context, in tokens. */
  window?: number | null;
  /** Output reserve, in tokens. */
  outputCap?: number | null;
  /** Compact by itself at the compaction line. */
  autoCompaction?: boolean | null;
  /** Remind the model once, before the compaction line. */
  handoff?: boolean | null;
}

/** Settings of a session as they are; null means the server's setting, or the provider's word. */
export interface ConfigPayload {
  /** Model that answers. */
  model: string | null;
  /** Way of keeping inside the window. */
  profile: string | null;
  /** What the agent may do without being asked. */
  permissionMode: string | null;
  /** Whole context, in tokens. */
  window: number | null;
  /** Output reserve, in tokens. */
  outputCap: number | null;
  /** Whether it compacts by itself at the compaction line. */
  autoCompaction: boolean | null;
  /** Whether the model is reminded once, before the compaction line. */
  handoff: boolean | null;
}

/** Change settings of a session; null leaves one as it is. */
export interface ConfigureParams {
  /** Model that answers. */
  model?: string | null;
  /** Way of keeping inside the window. */
  profile?: string | null;
  /** What the agent may do without being asked. */
  permissionMode?: "plan" | "ask" | "edits" | "auto" | null;
  /** Whole context, in tokens. */
  window?: number | null;
  /** Output reserve, in tokens. */
  outputCap?: number | null;
  /** Compact by itself at the compaction line. */
  autoCompaction?: boolean | null;
  /** Remind the model once, before the compaction line. */
  handoff?: boolean | null;
  /** Session id (uuid7). */
  sessionId: string;
}

/** Settings of the session were changed. */
export interface ConfiguredUpdate {
  kind: "configured";
  /** What was changed; null in it means that it stays. */
  change: ConfigPayload;
}

/** The session began. */
export interface CreatedUpdate {
  kind: "created";
  /** Real path of its workspace. */
  root: string;
  /** Where it was forked from. */
  parent: ParentPayload | null;
}

/** A person agreed to go on after damage that stays in the log. */
export interface DamageAcceptedUpdate {
  kind: "damageAccepted";
  /** Byte ranges, start and end, end excluded. */
  ranges: Array<[number, number]>;
}

export type DeltaKind = "text" | "reasoning" | "output";

/** A piece of an answer that is being streamed, or of what one of its calls prints while it runs. Not durable; may be dropped when the client does not read. */
export interface DeltaUpdate {
  kind: "delta";
  /** What it is a piece of; `output` is a call's. */
  of: DeltaKind;
  /** The answer's message. */
  messageId: string;
  /** The call that prints; null for the answer itself. */
  callId: string | null;
  /** Newest durable seq when it was streamed. */
  afterSeq: number;
  /** Code points of the same before this piece; 0 begins anew. A gap in an `output` means that it ran faster than it is told; the call's result has it. */
  offset: number;
  /** The piece. */
  text: string;
}

/** It is done; there is nothing else to say. */
export type Done = Record<string, unknown>;

/** Settings an editor may send; null leaves a setting to the sources below the editor (see settings.md). */
export interface EditorSettings {
  /** What answers. */
  provider?: "explorer" | "anthropic" | null;
  /** Name of the model that answers. */
  model?: string | null;
  /** Name of the model that writes summaries. */
  summaryModel?: string | null;
  /** The model's whole context, in tokens. */
  window?: number | null;
  /** Tokens kept free for an answer. */
  outputCap?: number | null;
  /** The way a session is kept inside its window. */
  profile?: string | null;
  /** Compact by itself at the compaction line. */
  compactionAuto?: boolean | null;
  /** Remind the model once, before the compaction line. */
  handoff?: boolean | null;
  /** Limits by package and name, as settings.md has them; not those of editors and wire. */
  limits?: Record<string, Record<string, number>> | null;
}

/** What went wrong, and what to do next. Also the `data` of error -32001. */
export interface ErrorPayload {
  /** A stable snake_case word. */
  code: string;
  /** A sentence for a person. */
  message: string;
  /** What to do next; may be empty. */
  hint: string;
  /** Figures and names. */
  data: Record<string, string | number>;
}

/** Ask for a transcript: what clients may see, nothing else. */
export interface ExportParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** For people, or for programs. */
  format?: "markdown" | "jsonl";
}

/** A transcript. */
export interface ExportResult {
  /** The whole transcript. */
  text: string;
}

/** Begin a new session with a copy of this one. The answer and updates are those of the fork. */
export interface ForkParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** Last seq to copy; left out: everything. */
  atSeq?: number | null;
}

/** Here ends what was copied from the parent. Its queue and open turn stayed behind. */
export interface ForkedUpdate {
  kind: "forked";
  parent: ParentPayload;
}

/** A session in which something was found. */
export interface FoundPayload {
  session: SummaryPayload;
  /** At most three, the best first. */
  hits: Array<HitPayload>;
}

/** What an epoch says about its handoff. */
export type HandoffState = "none" | "valid" | "suppressed";

/** A passage in which words of the query stand. Only what clients may see is searched. */
export interface HitPayload {
  /** The update that it is a part of. */
  seq: number;
  /** When that was, UTC milliseconds. */
  at: number;
  /** The message; empty for a title. */
  messageId: string;
  /** What of the message it is. */
  kind: PassageKind;
  /** Tool, paths and command of a call or result; else empty. */
  label: string;
  /** Text around what was found. */
  snippet: string;
}

/** An image in a prompt. Not supported yet: refused with `images_unsupported`. */
export interface ImageInput {
  /** Such as image/png. */
  mediaType: string;
  /** The bytes, base64. */
  data: string;
}

/** A picture, by reference. */
export interface ImagePayload {
  blob: BlobPayload;
  /** Such as image/png. */
  mediaType: string;
  /** Pixels. */
  width: number;
  /** Pixels. */
  height: number;
}

/** What fills the window. */
export interface InspectResult {
  occupancy: OccupancyFigures;
  /** Biggest first; what is hidden is one figure. */
  categories: Array<CategoryPayload>;
  /** Biggest first. */
  biggest: Array<BiggestPayload>;
  /** Oldest first. */
  checkpoints: Array<CheckpointPayload>;
  /** In the order they were pinned. */
  pins: Array<PinPayload>;
  leftOut: LeftOutPayload;
  /** Paid for turns. */
  turnTotals: TotalsPayload;
  /** Paid for summaries. */
  summaryTotals: TotalsPayload;
  /** The handoff since the last compaction: none, valid, or suppressed, which means that its record in the log is malformed or stands twice, so that the model sees none until the next compaction. */
  handoff: HandoffState;
}

/** The model was told of an instruction file of the workspace (such as AGENTS.md). */
export interface InstructionsUpdate {
  kind: "instructions";
  /** The file, relative to the root. */
  path: string;
  /** What the model was told takes so many tokens. */
  tokens: number;
  /** What is missing: `cut` (its beginning is there), `gone` or `untrusted` (it holds no longer), or why it was not read, such as `symlink` or `secret`; null when it is whole. */
  note: string | null;
}

/** Name messages of the session: by id, or by the seq of the update with which they entered it. */
export interface LeaveOutParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** Their ids. */
  messageIds?: Array<string>;
  /** Their seqs. */
  seqs?: Array<number>;
  /** Take them back: the model sees them again. */
  back?: boolean;
}

/** What was left out or taken back: a call and its results go together. */
export interface LeaveOutResult {
  /** Every message of it. */
  messageIds: Array<string>;
  /** What these messages take in a request, by our estimate. */
  tokens: number;
}

/** What the model does not see, though no compaction replaced it. */
export interface LeftOutPayload {
  /** Its messages, in the order they were said. */
  messageIds: Array<string>;
  /** What they would take. */
  tokens: number;
}

/** Ask for the sessions of a workspace. */
export interface ListParams {
  /** The workspace: a file URI or an absolute path. May be left out while only one is open. */
  root?: string | null;
}

/** The sessions of a workspace, newest first. */
export interface ListResult {
  /** Newest first. */
  sessions: Array<SummaryPayload>;
}

/** Which part of an occupancy a provider measured. */
export type Measured = "provider" | "provider_plus_estimate" | "estimate";

/** Begin a session in a workspace. */
export interface NewParams {
  /** The workspace: a file URI or an absolute path. May be left out while only one is open. */
  root?: string | null;
  /** Title of the session; may be empty. */
  title?: string;
  /** Settings to begin with. */
  config?: ConfigChange | null;
}

/** The one number and what it is measured against, all in tokens. */
export interface OccupancyFigures {
  /** Tokens the next request will take. */
  used: number;
  /** The part of `used` that no provider measured. */
  estimated: number;
  /** Which part was measured. */
  source: Measured;
  /** System prompt and tool schemas. */
  fixed: number;
  /** The handoff, as a figure. */
  hidden: number;
  /** Where `used` stands against the lines. */
  phase: Phase;
  /** The model's whole context; null when nobody said how large it is. */
  window: number | null;
  /** Who said so. */
  windowSource: string;
  /** Kept free for the answer. */
  reserve: number;
  /** Window minus reserve. */
  inputBudget: number;
  /** 70 % of the input budget. */
  handoffLine: number;
  /** 80 % of the input budget. */
  compactionLine: number;
}

/** The one number of a session, whenever it changed. */
export interface OccupancyPayload {
  /** Tokens the next request will take. */
  used: number;
  /** The part of `used` that no provider measured. */
  estimated: number;
  /** Which part was measured. */
  source: Measured;
  /** System prompt and tool schemas. */
  fixed: number;
  /** The handoff, as a figure. */
  hidden: number;
  /** Where `used` stands against the lines. */
  phase: Phase;
  /** The model's whole context; null when nobody said how large it is. */
  window: number | null;
  /** Who said so. */
  windowSource: string;
  /** Kept free for the answer. */
  reserve: number;
  /** Window minus reserve. */
  inputBudget: number;
  /** 70 % of the input budget. */
  handoffLine: number;
  /** 80 % of the input budget. */
  compactionLine: number;
  /** Session id (uuid7). */
  sessionId: string;
  /** Paid for turns so far. */
  totals: TotalsPayload;
  /** Micro-dollars that turns and summaries cost so far, where prices are known; null where none is. */
  cost: number | null;
  /** Calls whose cost is not known, so that `cost` is less than what was paid. */
  unpriced: number;
}

/** Why messages are left out of what the model sees. */
export type OmissionReason = "micro" | "snip" | "asked";

/** Messages that the model does not see from here on, or sees again. The transcript stays whole. */
export interface OmissionUpdate {
  kind: "omission";
  /** Of the updates with which the messages entered the session. */
  seqs: Array<number>;
  /** `micro`: the provider's cache had expired; `snip`: the window was filling up; `asked`: a person named them; null: they are seen again. */
  reason: OmissionReason | null;
  /** What they took; null where they are seen again. */
  tokens: number | null;
}

/** What a tool call does to the world; everything but WRITE and RUN changes nothing. */
export type Op = "read" | "search" | "write" | "run" | "other";

/** Open a session, or ask again for what was missed of it. */
export interface OpenParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** The workspace: a file URI or an absolute path. May be left out while only one is open. */
  root?: string | null;
  /** First seq wanted: one more than the newest that the client has. */
  fromSeq?: number;
  /** Open to read, even while another process writes. */
  readOnly?: boolean;
}

/** `initializationOptions`; what is not ours is left alone. */
export interface Options {
  ullage?: OurOptions;
}

/** `initializationOptions.ullage`. */
export interface OurOptions {
  /** Folders (file URIs or absolute paths) that the person trusts. Absent: none is trusted. */
  trustedRoots?: Array<string>;
  /** An EditorSettings object. What is unknown or wrong is left out and reported by window/logMessage. */
  settings?: Record<string, unknown>;
}

/** Where a fork comes from. */
export interface ParentPayload {
  /** Session id (uuid7). */
  sessionId: string;
  /** Last seq that was copied. */
  seq: number;
}

/** What a passage is a part of. */
export type PassageKind = "prompt" | "answer" | "call" | "result" | "title";

/** A call that a person must decide on. Reading never asks. */
export interface PermissionParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** The call. */
  callId: string;
  /** The tool. */
  name: string;
  /** Its arguments, raw JSON text, whole. */
  arguments: string;
  /** What the tool does. */
  description: string;
  /** What would be done: the diff of every file, or the command, whole. What is invisible is escaped. */
  shown: string;
  /** The files that would be changed, as real paths; for a command the folder it runs in. */
  targets: Array<string>;
  /** Names all that would be done. When that changes before it is done, nothing is done and another request follows for the same call. */
  sha256: string;
  /** Why this is asked for in every mode; null where it is not. No grant covers it. */
  careful: string | null;
  /** What `scope: session` would allow from now on, in words; null where nothing more than this call. */
  grant: string | null;
}

/** The person's word. Anything else, and no answer, means deny. */
export interface PermissionResult {
  /** Whether this one call may run. */
  decision: "allow" | "deny";
  /** Told to the model when denied. */
  reason?: string;
  /** `session` allows what `grant` says until the permission mode is set. */
  scope?: "once" | "session";
}

/** Where occupancy stands against the input budget; a boundary belongs to the upper phase. */
export type Phase = "unknown" | "below_handoff" | "handoff_band" | "compaction_due";

/** Pin a message of the session, or a text: one of them, not both. */
export interface PinParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** The message to pin. */
  messageId?: string | null;
  /** What to pin that nobody said yet. */
  text?: string | null;
}

/** What the person keeps in view. */
export interface PinPayload {
  /** Names the pin. */
  pinId: string;
  /** The pinned message; null for a text they typed. */
  messageId: string | null;
  /** Who said it. */
  role: Role;
  /** What is pinned, whole. */
  text: string;
  /** Tokens it takes where a compaction keeps it; in view already, it costs nothing. */
  tokens: number;
}

/** The pin; what was pinned already keeps the pin it has. */
export interface PinResult {
  /** Names the pin. */
  pinId: string;
}

/** The person pinned something: the model has it in view, through every compaction, until they take it back. */
export interface PinnedUpdate {
  kind: "pinned";
  /** Names the pin. */
  pinId: string;
  /** The pinned message; null for a text they typed. */
  messageId: string | null;
  /** Who said it. */
  role: Role;
  /** What is pinned, whole. */
  text: string;
}

/** What a compaction would do. */
export interface PreviewPayload {
  /** Tokens of the next request now. */
  before: number;
  /** Most tokens of the next request afterwards. */
  after: number;
  /** Who would write the replacement; null when it would be refused. */
  strategy: Strategy | null;
  /** Messages that the replacement would stand for. */
  messages: number;
  /** Why it would be refused. */
  error: ErrorPayload | null;
}

/** How a prompt enters while a turn runs: after it, or at its next step. */
export type PromptMode = "queue" | "steer";

/** Prompt a session. Answered when the prompt's own turn has ended. */
export interface PromptParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** The text; may be empty when something is mentioned. */
  text: string;
  /** Images; see `capabilities.experimental.ullage.images`. */
  images?: Array<ImageInput>;
  /** Paths the text is about; they follow it as plain lines. */
  mentions?: Array<string>;
  /** Made by the server when left out. */
  turnId?: string | null;
  /** While a turn runs: wait for its end, or enter at its next step. */
  mode?: "queue" | "steer";
}

/** A waiting prompt was taken out of the queue. */
export interface PromptRemovedUpdate {
  kind: "promptRemoved";
  /** The turn it would have been. */
  turnId: string;
}

/** How a prompt ended. */
export interface PromptResult {
  /** Turn id, made by whoever prompts; a repeated one is the same. */
  turnId: string;
  /** How the turn ended; null for steering that entered a running turn. */
  stop: Stop | null;
  /** What went wrong, where something did. */
  error: ErrorPayload | null;
  /** Paid for turns of this session so far. */
  totals: TotalsPayload;
  timing: TimingPayload;
}

/** A prompt waits, or was edited while it waited. An idle session starts its turn at once. */
export interface PromptUpdate {
  kind: "prompt";
  /** The turn it will be. */
  turnId: string;
  /** Its message. */
  messageId: string;
  /** What was said. */
  text: string;
  /** What was shown. */
  images: Array<ImagePayload>;
  /** How it enters a running turn; null when it was edited. */
  mode: PromptMode | null;
}

/** Replace a waiting prompt. */
export interface QueueEditParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** The text; may be empty when something is mentioned. */
  text: string;
  /** Images; see `capabilities.experimental.ullage.images`. */
  images?: Array<ImageInput>;
  /** Paths the text is about; they follow it as plain lines. */
  mentions?: Array<string>;
  /** Turn id, made by whoever prompts; a repeated one is the same. */
  turnId: string;
}

/** Take a waiting prompt out of the queue. */
export interface QueueRemoveParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** Turn id, made by whoever prompts; a repeated one is the same. */
  turnId: string;
}

/** The queue waits for a person, or runs again. */
export interface QueueUpdate {
  kind: "queue";
  /** Why it waits; null when it runs. */
  held: string | null;
}

/** Why a compaction runs. */
export type Reason = "threshold" | "overflow" | "manual";

/** A rewind was undone: what it took back is a part of the transcript again. */
export interface RedoneUpdate {
  kind: "redone";
  /** Seq of the rewind. */
  rewindSeq: number;
  /** Turn ids of turns and steering that are back, oldest first. */
  turns: Array<string>;
}

/** Give a session a title. */
export interface RenameParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** Title of the session; may be empty. */
  title: string;
}

/** The session got a title. */
export interface RenamedUpdate {
  kind: "renamed";
  /** The title; may be empty. */
  title: string;
}

/** The end of the log was damaged (a crash while writing): it was copied aside and cut. */
export interface RepairedUpdate {
  kind: "repaired";
  /** Where the damage began, in bytes of the file. */
  offset: number;
  /** How much was cut, in bytes. */
  size: number;
  /** Name of the copy. */
  keptAs: string;
}

/** What one compaction did. `before` and `after` are occupancies on one basis. */
export interface ReportPayload {
  /** Who wrote the replacement. */
  strategy: Strategy;
  /** The profile that compacted. */
  profile: string;
  /** Tokens of the next request before. */
  before: number;
  /** Tokens of the next request after. */
  after: number;
  /** Messages that stay word for word. */
  keptMessages: number;
  /** Messages that the ledger now stands for. */
  droppedMessages: number;
  /** Files read again, relative to the root. */
  restoredFiles: Array<string>;
  /** Summaries a model was asked for. */
  samples: number;
  /** Why the model's summary was not used (strategy `fallback`). */
  failure: string | null;
  /** Milliseconds from the plan to the commit. */
  durationMs: number;
}

/** What going on with a session begins with: nothing of it may be in the provider's cache any more. */
export interface ResumePayload {
  /** Tokens of the next request. */
  tokens: number;
  /** Most micro-dollars of these; null where no price is known. */
  cost: number | null;
  /** Milliseconds since a model was last called; null where none ever was. */
  idleMs: number | null;
  /** Whether to ask first, or offer a compaction: by `limits.context.resume_tokens` and `limits.context.resume_minutes`. */
  largeAndIdle: boolean;
}

/** The model was called in vain and is called again by itself. Not durable; whatever follows ends it. */
export interface RetryingUpdate {
  kind: "retrying";
  /** The answer's message. */
  messageId: string;
  /** Newest durable seq at that time. */
  afterSeq: number;
  /** Number of the coming try. */
  attempt: number;
  /** Tries there may be. */
  most: number;
  /** Milliseconds until then. */
  waitMs: number;
  error: ErrorPayload;
}

/** Go back to just before a turn. One of `turnId` and `messageId` names it. */
export interface RewindParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** The first turn to take back. */
  turnId?: string | null;
  /** The user message that began it. */
  messageId?: string | null;
  /** Only say what would go; nothing is written. */
  dryRun?: boolean;
}

/** What a rewind took back, what a redo brought back, or what a rewind would take back. */
export interface RewindResult {
  /** Seq of the rewind or the redo; null for a dry run. */
  seq: number | null;
  /** Turn ids of the turns and the steering, oldest first. */
  turns: Array<string>;
  /** Tokens of the next request before. */
  before: number;
  /** Tokens of the next request after. */
  after: number;
  /** Files that tools wrote in turns that go, relative to the root. They stay as they are now. */
  writtenFiles: Array<string>;
}

/** The conversation went back: show these turns no more, nor what else was told of it from `beforeSeq` on. Prompts that still wait, settings and titles stay. Keep what is taken back until the next turn starts: a redo may bring it back. */
export interface RewoundUpdate {
  kind: "rewound";
  /** The first of the turns, in front of which the session is now. */
  turnId: string;
  /** The seq that it started at. */
  beforeSeq: number;
  /** Turn ids of turns and steering that are taken back, oldest first. */
  turns: Array<string>;
}

/** Who speaks. A tool message carries the results of exactly one assistant message's calls. */
export type Role = "user" | "assistant" | "tool";

/** One workspace. */
export interface RootPayload {
  /** Real path of the workspace. */
  root: string;
  /** Whether its sessions have tools. */
  trusted: boolean;
}

/** Search what was said in all sessions of a workspace. */
export interface SearchParams {
  /** The workspace: a file URI or an absolute path. May be left out while only one is open. */
  root?: string | null;
  /** Words; a phrase in "double quotes". */
  query: string;
  /** Most sessions to answer with. */
  limit?: number;
}

/** What was found. */
export interface SearchResult {
  /** The best first. */
  sessions: Array<FoundPayload>;
  /** False when time was up before everything was looked at. */
  complete: boolean;
}

/** Names an open session. */
export interface SessionParams {
  /** Session id (uuid7). */
  sessionId: string;
}

/** A session as it was when its updates had been sent. */
export interface SessionPayload {
  /** Session id (uuid7). */
  sessionId: string;
  /** Real path of its workspace. */
  root: string;
  /** Its title; may be empty. */
  title: string;
  /** Where it was forked from. */
  parent: ParentPayload | null;
  /** Newest durable seq; updates up to it have been sent. -1 when there is none. */
  seq: number;
  /** The turn in progress. */
  runningTurn: string | null;
  /** Turn ids of waiting prompts, in order. */
  waitingTurns: Array<string>;
  /** Why the queue waits for a person; null when it does not. */
  held: string | null;
  /** Why nothing can be written; null when it can. */
  readOnly: string | null;
  /** Settings of this session. */
  config: ConfigPayload;
  /** What its next prompt begins with. */
  resume: ResumePayload;
}

/** One thing that happened in a session. Durable ones have a seq, ascending with gaps; the others have none. */
export interface SessionUpdate {
  /** Session id (uuid7). */
  sessionId: string;
  /** Its place in the log; null for deltas and retries. */
  seq: number | null;
  /** When it was written, UTC milliseconds; null for deltas and retries. */
  at: number | null;
  /** What happened. */
  update: PromptUpdate | PromptRemovedUpdate | QueueUpdate | TurnStartedUpdate | SteerEnteredUpdate | AnswerUpdate | ToolResultUpdate | TurnEndedUpdate | CompactedUpdate | CompactionFailedUpdate | PinnedUpdate | UnpinnedUpdate | OmissionUpdate | InstructionsUpdate | RewoundUpdate | RedoneUpdate | CreatedUpdate | ForkedUpdate | RenamedUpdate | ConfiguredUpdate | RepairedUpdate | DamageAcceptedUpdate | DeltaUpdate | RetryingUpdate;
}

/** A waiting prompt became part of the running turn. */
export interface SteerEnteredUpdate {
  kind: "steerEntered";
  /** The running turn. */
  turnId: string;
  /** Turn id of the prompt that entered. */
  steerId: string;
}

/** How a turn ended. */
export type Stop = "done" | "cancelled" | "failed" | "interrupted" | "length";

/** Who wrote a replacement. */
export type Strategy = "model" | "deterministic" | "fallback";

/** A session in a list. */
export interface SummaryPayload {
  /** Session id (uuid7). */
  sessionId: string;
  /** Its title; may be empty. */
  title: string;
  /** Where it was forked from. */
  parent: ParentPayload | null;
  /** When it began, UTC milliseconds. */
  createdAt: number;
  /** When it was last written to, UTC milliseconds. */
  updatedAt: number;
  /** Newest seq; -1 when none can be read. */
  lastSeq: number;
  /** Bytes of its log. */
  size: number;
  /** Whether unreadable bytes were seen. */
  damaged: boolean;
  /** Whether a turn has no end: it runs, or its process was ended. */
  openTurn: boolean;
}

/** Where a turn's time went. */
export interface TimingPayload {
  /** Model calls of the turn. */
  steps: number;
  /** Milliseconds from the turn's start to its end. */
  wallMs: number;
  /** Of these, milliseconds spent waiting for the model. */
  modelMs: number;
}

/** A tool the model asked for. */
export interface ToolCallPayload {
  /** Names the call in results. */
  callId: string;
  /** The tool. */
  name: string;
  /** Raw JSON text as the model wrote it, valid or not; may be cut. */
  arguments: string;
  /** Bytes of the arguments before cutting. */
  argumentsBytes: number;
}

/** What a call gave back. */
export interface ToolResultPayload {
  /** The call. */
  callId: string;
  /** The text as the model saw it; may be cut. */
  text: string;
  /** Bytes of that text before cutting. */
  textBytes: number;
  /** The whole output, when the model saw a part of it. */
  full: BlobPayload | null;
  /** Whether the call failed. */
  isError: boolean;
  /** What kind of act it was. */
  op: Op;
  /** Files it was about, relative to the root. */
  paths: Array<string>;
  /** The command that ran. */
  command: string | null;
  /** How the command ended. */
  exitCode: number | null;
  /** One line about the outcome. */
  detail: string | null;
  /** Pictures it gave back. */
  images: Array<ImagePayload>;
}

/** Tool calls have ended. */
export interface ToolResultUpdate {
  kind: "toolResult";
  /** The turn. */
  turnId: string;
  /** Its message. */
  messageId: string;
  /** One, as things are. */
  results: Array<ToolResultPayload>;
}

/** Tokens and money paid so far. Money is in micro-dollars: a million are one US dollar. */
export interface TotalsPayload {
  /** Model calls. */
  calls: number;
  /** Tokens of requests. */
  prompt: number;
  /** Tokens of answers. */
  completion: number;
  /** Tokens of requests that came from a cache. */
  cacheRead: number;
  /** Tokens of requests that were written to a cache. */
  cacheWrite: number;
  /** Calls whose provider reported no usage. */
  unreported: number;
  /** Calls whose cost is known. */
  priced: number;
  /** What these cost, in micro-dollars; null when there is none. */
  cost: number | null;
}

/** Whether a person trusts a workspace: an untrusted one gets no tools. */
export interface TrustParams {
  /** The workspace: a file URI or an absolute path. */
  root: string;
  /** True grants tools, false takes them away. */
  trusted: boolean;
}

/** A turn has ended. */
export interface TurnEndedUpdate {
  kind: "turnEnded";
  /** The turn. */
  turnId: string;
  /** How it ended. */
  stop: Stop;
  /** What went wrong, where something did. */
  error: ErrorPayload | null;
}

/** A waiting prompt became the running turn. */
export interface TurnStartedUpdate {
  kind: "turnStarted";
  /** The turn. */
  turnId: string;
}

/** Take a pin back. One that is not there is no error. */
export interface UnpinParams {
  /** Session id (uuid7). */
  sessionId: string;
  /** The pin. */
  pinId: string;
}

/** The person took a pin back. */
export interface UnpinnedUpdate {
  kind: "unpinned";
  /** The pin. */
  pinId: string;
}

/** Tokens of one model call as its provider reported them; null means not reported. */
export interface UsagePayload {
  /** Tokens of the request, cached ones included. */
  prompt: number | null;
  /** Tokens of the answer. */
  completion: number | null;
  /** Tokens of both, where the provider says so. */
  total: number | null;
  /** Tokens of the request that came from a cache. */
  cacheRead: number | null;
  /** Tokens of the request that were written to a cache. */
  cacheWrite: number | null;
  /** Tokens of the answer that are not sent back. */
  reasoning: number | null;
}

/** Something a person should know, which stops nothing. */
export interface WarningPayload {
  /** Session id (uuid7). */
  sessionId: string;
  warning: ErrorPayload;
}

export interface Requests {
  "ullage/session/new": { params: NewParams; result: SessionPayload };
  "ullage/session/list": { params: ListParams; result: ListResult };
  "ullage/session/search": { params: SearchParams; result: SearchResult };
  "ullage/session/open": { params: OpenParams; result: SessionPayload };
  "ullage/session/prompt": { params: PromptParams; result: PromptResult };
  "ullage/session/cancel": { params: CancelParams; result: Done };
  "ullage/session/compact": { params: CompactParams; result: CompactResult };
  "ullage/session/fork": { params: ForkParams; result: SessionPayload };
  "ullage/session/pin": { params: PinParams; result: PinResult };
  "ullage/session/unpin": { params: UnpinParams; result: Done };
  "ullage/session/rewind": { params: RewindParams; result: RewindResult };
  "ullage/session/redo": { params: SessionParams; result: RewindResult };
  "ullage/session/leaveOut": { params: LeaveOutParams; result: LeaveOutResult };
  "ullage/session/rename": { params: RenameParams; result: Done };
  "ullage/session/export": { params: ExportParams; result: ExportResult };
  "ullage/session/configure": { params: ConfigureParams; result: Done };
  "ullage/session/acceptDamage": { params: SessionParams; result: Done };
  "ullage/queue/edit": { params: QueueEditParams; result: Done };
  "ullage/queue/remove": { params: QueueRemoveParams; result: Done };
  "ullage/queue/resume": { params: SessionParams; result: Done };
  "ullage/context/inspect": { params: SessionParams; result: InspectResult };
  "ullage/auth/set": { params: AuthParams; result: AuthPayload };
  "ullage/workspace/trust": { params: TrustParams; result: RootPayload };
}

export interface Notifications {
  "ullage/session/update": { params: SessionUpdate };
  "ullage/context/occupancy": { params: OccupancyPayload };
  "ullage/session/warning": { params: WarningPayload };
  "ullage/context/compaction": { params: CompactionPayload };
}

export interface RequestsToClient {
  "ullage/permission/request": { params: PermissionParams; result: PermissionResult };
}

export const PROTOCOL_VERSION = 1;
