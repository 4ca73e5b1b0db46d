// The sessions of this window: what the server told of each, and which one is shown.
//
// Invariant: an update belongs to the session it names and to no other; what was told is kept as it came, so that a
// panel that opens later, or a server that starts again, goes on from the newest seq without a gap or a repetition.

import type { CompactionPayload, DeltaUpdate, OccupancyPayload, PermissionParams, SessionPayload, SessionUpdate } from "../protocol";
import { resumeWords } from "../view/meter";
import { apply, empty, type Transcript } from "../view/transcript";

export interface Session {
  sessionId: string;
  title: string;
  readOnly: string | null;
  /** What its next prompt begins with, where that is worth a thought first. */
  resume: string | null;
  /** Durable updates in order. */
  updates: SessionUpdate[];
  /** What is being streamed: the newest pieces by message and kind, joined. */
  live: SessionUpdate[];
  transcript: Transcript;
  occupancy: OccupancyPayload | null;
  compaction: CompactionPayload | null;
  handoffOn: boolean;
}

export class Sessions {
  private readonly known = new Map<string, Session>();
  private shownId: string | null = null;
  readonly permissions: PermissionParams[] = [];

  get shown(): Session | null {
    return this.shownId === null ? null : this.of(this.shownId);
  }

  show(sessionId: string | null): void {
    this.shownId = sessionId;
  }

  of(sessionId: string): Session {
    const old = this.known.get(sessionId);
    if (old) return old;
    const made: Session = {
      sessionId, title: "", readOnly: null, resume: null, updates: [], live: [], transcript: empty(), occupancy: null, compaction: null, handoffOn: true,
    };
    this.known.set(sessionId, made);
    return made;
  }

  all(): Iterable<Session> {
    return this.known.values();
  }

  opened(payload: SessionPayload): Session {
    const session = this.of(payload.sessionId);
    session.title = payload.title;
    session.readOnly = payload.readOnly;
    session.resume = resumeWords(payload.resume);
    session.handoffOn = payload.config.handoff ?? true;
    return session;
  }

  /** False where it is known already. */
  hear(told: SessionUpdate): boolean {
    const session = this.of(told.sessionId);
    if (told.seq !== null && told.seq <= session.transcript.lastSeq) return false;
    session.transcript = apply(session.transcript, told);
    const { update } = told;
    if (told.seq === null) {
      if (update.kind === "delta") this.stream(session, told);
      return true;
    }
    session.updates.push(told);
    if (update.kind === "turnStarted" || update.kind === "compacted") session.resume = null;
    if (update.kind === "renamed") session.title = update.title;
    if (update.kind === "configured" && update.change.handoff !== null) session.handoffOn = update.change.handoff;
    if (update.kind === "answer" || update.kind === "turnEnded") session.live = [];
    if (update.kind === "toolResult") session.live = session.live.filter((each) => !update.results.some((result) => streamsFor(each, result.callId)));
    return true;
  }

  private stream(session: Session, told: SessionUpdate): void {
    const update = told.update;
    if (update.kind !== "delta") return;
    const row = session.transcript.rows.find((each) => each.kind === "answer" && each.messageId === update.messageId);
    if (row?.kind !== "answer") return;
    const call = row.calls.find((each) => each.call.callId === update.callId);
    const text = update.of === "output" ? (call?.printed ?? "") : update.of === "text" ? row.text : row.reasoning;
    const whole: SessionUpdate = { ...told, update: { ...update, offset: 0, text } };
    session.live = [...session.live.filter((each) => !sameStream(each, update)), whole];
  }

  /** The server is gone, and with it what was in flight. */
  lost(): void {
    for (const session of this.known.values()) {
      session.live = [];
      session.compaction = null;
    }
    this.permissions.length = 0;
  }
}

function sameStream(told: SessionUpdate, delta: DeltaUpdate): boolean {
  return told.update.kind === "delta" && told.update.of === delta.of && told.update.callId === delta.callId;
}

function streamsFor(told: SessionUpdate, callId: string): boolean {
  return told.update.kind === "delta" && told.update.callId === callId;
}
