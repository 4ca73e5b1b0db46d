// What the extension and its webviews say to each other.
//
// Invariant: a message of another shape is dropped at the door, in both directions. Payloads of the server inside a
// message are checked as far as the fold of them rests on it; the rest is the generated types' word.

import * as v from "valibot";
import type { CompactionPayload, InspectResult, OccupancyPayload, PermissionParams, SessionUpdate } from "./protocol";

const text = v.pipe(v.string(), v.maxLength(1_000_000));
const id = v.pipe(v.string(), v.minLength(1), v.maxLength(200));
const path = v.pipe(v.string(), v.maxLength(4096));
const seq = v.pipe(v.number(), v.integer(), v.minValue(0));

const FROM_PANEL = v.variant("kind", [
  v.strictObject({ kind: v.literal("ready") }),
  v.strictObject({ kind: v.literal("send"), text, mode: v.picklist(["queue", "steer"]), mentions: v.pipe(v.array(path), v.maxLength(100)) }),
  v.strictObject({ kind: v.literal("findFiles"), query: path }),
  v.strictObject({ kind: v.literal("command"), name: v.picklist(["compact", "fork", "new", "open", "rename", "export", "inspect", "stop", "log", "restart", "key", "trust", "redo"]), argument: text }),
  v.strictObject({ kind: v.literal("queueEdit"), turnId: id, text }),
  v.strictObject({ kind: v.literal("queueRemove"), turnId: id }),
  v.strictObject({ kind: v.literal("queueSteer"), turnId: id }),
  v.strictObject({ kind: v.literal("queueResume") }),
  v.strictObject({ kind: v.literal("forkAt"), seq }),
  v.strictObject({ kind: v.literal("rewind"), turnId: id }),
  v.strictObject({ kind: v.literal("pin"), messageId: id }),
  v.strictObject({ kind: v.literal("unpin"), pinId: id }),
  v.strictObject({ kind: v.literal("decide"), callId: id, decision: v.picklist(["allow", "deny"]), scope: v.picklist(["once", "session"]), reason: text }),
  v.strictObject({ kind: v.literal("copy"), text }),
  v.strictObject({ kind: v.literal("openLink"), href: path }),
  v.strictObject({ kind: v.literal("openFile"), path }),
  v.strictObject({ kind: v.literal("handoff"), on: v.boolean() }),
  v.strictObject({ kind: v.literal("leaveOut"), messageIds: v.array(id), back: v.boolean() }),
]);

export type FromPanel = v.InferOutput<typeof FROM_PANEL>;

/** The message, or null where it is none of ours. */
export function fromPanel(message: unknown): FromPanel | null {
  const parsed = v.safeParse(FROM_PANEL, message);
  return parsed.success ? parsed.output : null;
}

export type ServerState = "starting" | "ready" | "restarting" | "failed";

const server = v.object({ state: v.picklist(["starting", "ready", "restarting", "failed"]), message: v.string() });
const update = v.custom<SessionUpdate>(
  (value) => isObject(value) && typeof value.sessionId === "string" && (value.seq === null || typeof value.seq === "number") && isObject(value.update) && typeof value.update.kind === "string",
);
const occupancy = v.custom<OccupancyPayload>((value) => isObject(value) && typeof value.used === "number" && typeof value.phase === "string");
const compaction = v.custom<CompactionPayload>((value) => isObject(value) && typeof value.status === "string");
const permission = v.custom<PermissionParams>((value) => isObject(value) && typeof value.callId === "string" && typeof value.arguments === "string" && typeof value.shown === "string" && Array.isArray(value.targets));
const inspection = v.custom<InspectResult>((value) => isObject(value) && Array.isArray(value.categories) && isObject(value.occupancy));

const session = v.object({ sessionId: v.string(), title: v.string(), readOnly: v.nullable(v.string()), resume: v.nullable(v.string()), updates: v.array(update) });

const TO_PANEL = v.variant("kind", [
  v.object({
    kind: v.literal("snapshot"), server, trusted: v.boolean(), session: v.nullable(session), occupancy: v.nullable(occupancy),
    compaction: v.nullable(compaction), permissions: v.array(permission),
  }),
  v.object({ kind: v.literal("server"), server }),
  v.object({ kind: v.literal("trusted"), trusted: v.boolean() }),
  v.object({ kind: v.literal("update"), update }),
  v.object({ kind: v.literal("occupancy"), occupancy }),
  v.object({ kind: v.literal("compaction"), compaction: v.nullable(compaction) }),
  v.object({ kind: v.literal("permissions"), permissions: v.array(permission) }),
  v.object({ kind: v.literal("problem"), message: v.string(), hint: v.string(), restore: v.string() }),
  v.object({ kind: v.literal("focus"), insert: v.string() }),
  v.object({ kind: v.literal("files"), query: v.string(), found: v.array(v.string()) }),
  v.object({ kind: v.literal("inspection"), inspection, title: v.string(), handoffOn: v.boolean() }),
]);

export type ToPanel = v.InferOutput<typeof TO_PANEL>;

export function toPanel(message: unknown): ToPanel | null {
  const parsed = v.safeParse(TO_PANEL, message);
  return parsed.success ? parsed.output : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
