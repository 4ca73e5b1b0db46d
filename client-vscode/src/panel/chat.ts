// The chat panel: one session, told by the extension, drawn anew once a frame at most.

import { html, nothing, render, type TemplateResult } from "lit-html";
import { guard } from "lit-html/directives/guard.js";
import { repeat } from "lit-html/directives/repeat.js";
import type { FromPanel, ServerState, ToPanel } from "../messages";
import type { CompactionPayload, OccupancyPayload, PermissionParams } from "../protocol";
import { plural } from "../view/figures";
import { meter } from "../view/meter";
import { apply, applyAll, busy, empty, type Transcript } from "../view/transcript";
import { Composer } from "./composer";
import { askedTemplate, givenTemplate } from "./given";
import { listen, tell } from "./host";
import { icon } from "./icon";
import { rowTemplate, type RowContext } from "./rows";
import { Scroll } from "./scroll";

interface State {
  server: { state: ServerState; message: string };
  trusted: boolean;
  session: { sessionId: string; readOnly: string | null; resume: string | null } | null;
  transcript: Transcript;
  occupancy: OccupancyPayload | null;
  compaction: CompactionPayload | null;
  permissions: PermissionParams[];
  problem: { message: string; hint: string } | null;
  editing: string | null;
}

const state: State = {
  server: { state: "starting", message: "" }, trusted: true, session: null, transcript: empty(), occupancy: null,
  compaction: null, permissions: [], problem: null, editing: null,
};

const root = document.getElementById("root") as HTMLElement;
const composer = new Composer({ problem: (message) => change(() => (state.problem = message ? { message, hint: "" } : null)), busy: () => working(), stop });
/** Rows that are drawn at first, and how many more of the past at a time: enough for a screen, few enough to be quick. */
const PAGE = 150;
let most = PAGE;
const scroll = new Scroll(() => earlier());
let scheduled = false;

function change(act: () => void): void {
  act();
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
  });
}

function working(): boolean {
  return busy(state.transcript) || state.compaction !== null;
}

function stop(): void {
  if (working()) tell({ kind: "command", name: "stop", argument: "" });
}

function heard(message: ToPanel): void {
  switch (message.kind) {
    case "snapshot": {
      const same = message.session?.sessionId === state.session?.sessionId;
      Object.assign(state, { server: message.server, trusted: message.trusted, session: message.session, occupancy: message.occupancy, compaction: message.compaction, permissions: message.permissions });
      state.transcript = applyAll(message.session?.updates ?? []);
      if (!same) {
        Object.assign(state, { problem: null, editing: null });
        most = PAGE;
        scroll.follow();
      }
      return;
    }
    case "server":
      state.server = message.server;
      return;
    case "trusted":
      state.trusted = message.trusted;
      return;
    case "update":
      if (message.update.sessionId !== state.session?.sessionId) return;
      announce(message.update.update);
      if (message.update.update.kind === "turnStarted" || message.update.update.kind === "compacted") state.session.resume = null;
      state.transcript = apply(state.transcript, message.update);
      return;
    case "occupancy":
      if (message.occupancy.sessionId === state.session?.sessionId) state.occupancy = message.occupancy;
      return;
    case "compaction":
      state.compaction = message.compaction;
      return;
    case "permissions":
      if (message.permissions.length > state.permissions.length) say(`Approval needed: ${message.permissions.at(-1)?.name ?? "a tool"}.`);
      state.permissions = message.permissions;
      return;
    case "problem":
      state.problem = { message: message.message, hint: message.hint };
      composer.restore(message.restore);
      say(message.message);
      return;
    case "focus":
      composer.insert(message.insert);
      return;
    case "files":
      composer.files(message.query, message.found);
      return;
    case "inspection":
      return;
  }
}

/** Whole sentences for screen readers; never the stream itself. */
function announce(update: Parameters<typeof apply>[1]["update"]): void {
  if (update.kind === "answer") say(update.text.slice(0, 500) || `Uses ${update.calls.map((call) => call.name).join(", ")}.`);
  if (update.kind === "compacted") say(`Compacted from ${update.report.before} to ${update.report.after} tokens.`);
  if (update.kind === "turnEnded") say(update.stop === "done" ? "Done." : `The turn ended: ${update.stop}.`);
}

function say(words: string): void {
  const region = document.getElementById("spoken");
  if (region) region.textContent = words;
}

function draw(): void {
  render(panel(), root);
  composer.attach(root);
  scroll.attach();
}

function panel(): TemplateResult {
  return html`<h1 class="spoken">Ullage chat</h1>${header()}${banners()}
    <div class="scroll">
      <div id="log" role="log" aria-label="Conversation" aria-live="off" tabindex="0" @scroll=${scroll.moved} @wheel=${scroll.touched} @pointerdown=${scroll.touched} @keydown=${keyed} @click=${clicked}>
        <div id="rows">${state.transcript.rows.length === 0 ? welcome() : rows()}</div>
      </div>
      <button id="latest" class="floating" hidden @click=${() => scroll.follow()}>${icon("arrow-down")} Latest</button>
    </div>
    <div id="spoken" class="spoken" role="status" aria-live="polite"></div>
    <footer>${problem()}${compacting()}${approvals()}${queue()}${composer.template(state.session?.readOnly ?? null, state.server.state === "ready")}</footer>`;
}

function rows(): unknown {
  const context: RowContext = {
    asking: new Set(state.permissions.map((each) => each.callId)), running: state.transcript.running,
    pinned: new Map([...state.transcript.pins].flatMap(([pin, message]) => (message === null ? [] : [[message, pin] as const]))),
    canChange: !working() && state.session?.readOnly === null,
  };
  const shared = JSON.stringify([[...context.asking], context.running, [...context.pinned], context.canChange]);
  const hidden = Math.max(0, state.transcript.rows.length - most);
  const earlierRows = hidden > 0 ? html`<button class="second earlier" @click=${earlier}>${icon("arrow-up")} ${plural(hidden, "earlier row")}</button>` : nothing;
  return html`${earlierRows}${repeat(state.transcript.rows.slice(hidden), (row) => row.key, (row) => guard([row, shared], () => rowTemplate(row, context)))}`;
}

function earlier(): void {
  if (state.transcript.rows.length > most) change(() => (most += PAGE));
}

function header(): TemplateResult | typeof nothing {
  if (!state.occupancy) return nothing;
  const shown = meter(state.occupancy);
  return html`<button class="meter ${shown.tone}" title="Inspect context" @click=${() => tell({ kind: "command", name: "inspect", argument: "" })}>
    <span class="figures">${icon(shown.icon)} ${shown.text}<span class="phase">${shown.phase}</span></span><span class="spoken">${shown.spoken} Inspect.</span>
    ${shown.bar
      ? html`<svg class="bar" viewBox="0 0 1000 6" preserveAspectRatio="none" aria-hidden="true">
          <rect class="track" width="1000" height="6"></rect><rect class="used" width=${Math.round(shown.bar.used * 1000)} height="6"></rect>
          <rect class="line" x=${Math.round(shown.bar.handoff * 1000)} width="3" height="6"></rect><rect class="line" x=${Math.round(shown.bar.compaction * 1000)} width="3" height="6"></rect>
        </svg>`
      : nothing}
  </button>`;
}

function banners(): TemplateResult {
  const { server, session, trusted, transcript } = state;
  return html`${server.state === "ready"
    ? nothing
    : html`<div class="banner ${server.state === "failed" ? "error" : "info"}" role="status">
        ${icon(server.state === "failed" ? "error" : "loading codicon-modifier-spin")}<span>${server.message || "Starting the server…"}</span>
        ${server.state === "failed" ? html`${does("log", "Show log")}${does("restart", "Restart")}` : nothing}
      </div>`}
  ${trusted ? nothing : html`<div class="banner info">${icon("shield")}<span>This folder is not trusted: the agent has no tools.</span>${does("trust", "Trust…")}</div>`}
  ${session?.readOnly ? html`<div class="banner info">${icon("lock")}<span>Read-only: ${session.readOnly}</span>${does("fork", "Fork")}</div>` : nothing}
  ${session?.resume && !working() ? html`<div class="banner info">${icon("history")}<span>${session.resume}</span>${does("compact", "Compact first")}</div>` : nothing}
  ${transcript.taken ? html`<div class="banner info">${icon("discard")}<span>Went back. Until the next prompt it can be redone.</span>${does("redo", "Redo")}</div>` : nothing}`;
}

function does(name: Extract<FromPanel, { kind: "command" }>["name"], label: string): TemplateResult {
  return html`<button class="second" @click=${() => tell({ kind: "command", name, argument: "" })}>${label}</button>`;
}

function welcome(): TemplateResult {
  return html`<div class="welcome">
    <h2>Ullage</h2>
    <p>Ask about this folder. The meter shows how full the model's window is; before it overflows, the older part is compacted, and nothing that was said is lost.</p>
    <ul>
      <li><kbd>Enter</kbd> sends, <kbd>Shift</kbd>+<kbd>Enter</kbd> begins a new line, <kbd>Esc</kbd> stops</li>
      <li>What you send while it works waits its turn, or steers it</li>
      <li><kbd>/</kbd> names the commands</li>
    </ul>
    <div class="buttons">${does("open", "Open a session…")}${does("key", "Set API key…")}</div>
  </div>`;
}

function problem(): TemplateResult | typeof nothing {
  if (!state.problem) return nothing;
  return html`<div class="banner error" role="alert">
    ${icon("error")}<span>${state.problem.message}${state.problem.hint ? html`<span class="small"> ${state.problem.hint}</span>` : nothing}</span>
    <button class="icon" title="Dismiss" aria-label="Dismiss" @click=${() => change(() => (state.problem = null))}>${icon("close")}</button>
  </div>`;
}

function compacting(): TemplateResult | typeof nothing {
  if (!state.compaction) return nothing;
  const words: Record<string, string> = { started: "Compacting…", summarising: "Compacting: the model writes a summary…", retrying: "Compacting: the summary is asked for again…", gated: "Compacting: checked, being written…" };
  return html`<div class="banner info" role="status">${icon("loading codicon-modifier-spin")}<span>${words[state.compaction.status] ?? "Compacting…"}</span>${does("stop", "Cancel")}</div>`;
}

function approvals(): TemplateResult {
  return html`${state.permissions.map((each) => html`<section class="approval" aria-label="Approval needed: ${each.name}" data-call=${each.callId}>
    <div class="ask">${icon("question")} <b>${each.name}</b> asks to run</div>
    ${each.careful ? html`<div class="careful">${icon("warning")} ${each.careful}</div>` : nothing}
    ${askedTemplate(each)}
    <details class="small"><summary>Where, and what was asked for</summary>${each.targets.map((target) => html`<div>${target}</div>`)}${givenTemplate(each.arguments)}</details>
    <input type="text" placeholder="Why not (told to the model)" aria-label="Reason when denied" @keydown=${(event: KeyboardEvent) => event.key === "Enter" && decide(event, each, "deny")}>
    <div class="buttons">
      <button class="first" accesskey="y" @click=${(event: Event) => decide(event, each, "allow")}>Allow once</button>
      ${each.grant ? html`<button class="second" title=${`Until the permission mode is set: ${each.grant}`} @click=${(event: Event) => decide(event, each, "allow", "session")}>Allow for this session</button>` : nothing}
      <button class="second" accesskey="n" @click=${(event: Event) => decide(event, each, "deny")}>Deny</button>
    </div>
    ${each.grant ? html`<div class="small">For this session: ${each.grant}</div>` : nothing}
  </section>`)}`;
}

function decide(event: Event, asked: PermissionParams, decision: "allow" | "deny", scope: "once" | "session" = "once"): void {
  const card = (event.currentTarget as HTMLElement).closest(".approval");
  const reason = card?.querySelector("input")?.value ?? "";
  tell({ kind: "decide", callId: asked.callId, decision, scope, reason: decision === "deny" ? reason : "" });
  composer.focus();
}

function queue(): TemplateResult | typeof nothing {
  const { waiting, held } = state.transcript;
  if (waiting.length === 0) return nothing;
  return html`<section class="queue" aria-label="Waiting prompts">
    <div class="label">${icon("clock")} ${held ? "Waiting, held" : "Waiting"} ${held ? html`<button class="second" @click=${() => tell({ kind: "queueResume" })}>Resume</button>` : nothing}</div>
    ${repeat(waiting, (each) => each.turnId, (each) => html`<div class="waiting">
      ${state.editing === each.turnId
        ? html`<textarea aria-label="Edit waiting prompt" .value=${each.text} @keydown=${(event: KeyboardEvent) => edit(event, each.turnId)}></textarea>`
        : html`<span class="text">${each.text}</span>`}
      <button class="icon" title="Edit" aria-label="Edit" @click=${() => change(() => (state.editing = state.editing === each.turnId ? null : each.turnId))}>${icon("edit")}</button>
      ${busy(state.transcript)
        ? html`<button class="icon" title="Steer: enter the running turn" aria-label="Steer" @click=${() => tell({ kind: "queueSteer", turnId: each.turnId })}>${icon("debug-step-into")}</button>`
        : nothing}
      <button class="icon" title="Remove" aria-label="Remove" @click=${() => tell({ kind: "queueRemove", turnId: each.turnId })}>${icon("trash")}</button>
    </div>`)}
  </section>`;
}

function edit(event: KeyboardEvent, turnId: string): void {
  const area = event.currentTarget as HTMLTextAreaElement;
  if (event.key === "Escape") change(() => (state.editing = null));
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (area.value.trim()) tell({ kind: "queueEdit", turnId, text: area.value });
  change(() => (state.editing = null));
}

/** Everything that is clicked in the transcript, in one place: what was said brings no handlers of its own. */
function clicked(event: Event): void {
  const target = event.target as HTMLElement;
  const link = target.closest<HTMLElement>("a[data-href]");
  if (link?.dataset.href) {
    event.preventDefault();
    tell({ kind: "openLink", href: link.dataset.href });
    return;
  }
  const copy = target.closest<HTMLElement>("[data-copy]");
  if (copy) return tell({ kind: "copy", text: copy.closest(".code")?.querySelector("pre")?.textContent ?? "" });
  const button = target.closest<HTMLElement>("[data-do]");
  if (button) act(button.dataset.do ?? "", JSON.parse(button.dataset.with ?? "{}") as Record<string, string>);
}

function keyed(event: KeyboardEvent): void {
  scroll.touched();
  if (event.key === "Enter" && (event.target as HTMLElement).matches("a[data-href]")) clicked(event);
}

function act(name: string, given: Record<string, string>): void {
  const messages: Record<string, () => FromPanel> = {
    copy: () => ({ kind: "copy", text: given.text ?? "" }),
    fork: () => ({ kind: "forkAt", seq: Number(given.seq) }),
    pin: () => ({ kind: "pin", messageId: given.messageId ?? "" }),
    unpin: () => ({ kind: "unpin", pinId: given.pinId ?? "" }),
    rewind: () => ({ kind: "rewind", turnId: given.turnId ?? "" }),
    file: () => ({ kind: "openFile", path: given.path ?? "" }),
  };
  const message = messages[name]?.();
  if (message) tell(message);
}

window.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.defaultPrevented && !event.isComposing) stop();
});
listen((message) => change(() => heard(message)));
draw();
tell({ kind: "ready" });
