// Rows of the transcript as templates. What a model or a tool said is text or passes `rendered`.

import { html, nothing, type TemplateResult } from "lit-html";
import { guard } from "lit-html/directives/guard.js";
import { callLine } from "../view/calls";
import { bytes, duration, exact, percent, plural } from "../view/figures";
import type { AnswerRow, Call, CompactedRow, NoticeRow, PromptRow, Row } from "../view/transcript";
import { givenTemplate } from "./given";
import { icon } from "./icon";
import { rendered } from "./markdown";

export interface RowContext {
  /** Calls that wait for the person. */
  asking: ReadonlySet<string>;
  running: string | null;
  pinned: ReadonlyMap<string, string>;
  canChange: boolean;
}

export function rowTemplate(row: Row, context: RowContext): TemplateResult {
  switch (row.kind) {
    case "prompt":
      return promptRow(row, context);
    case "answer":
      return answerRow(row, context);
    case "compacted":
      return compactedRow(row);
    case "notice":
      return noticeRow(row);
  }
}

function action(name: string, iconName: string, label: string, data: Record<string, string>): TemplateResult {
  return html`<button class="icon" title=${label} aria-label=${label} data-do=${name} data-with=${JSON.stringify(data)}>${icon(iconName)}</button>`;
}

function promptRow(row: PromptRow, context: RowContext): TemplateResult {
  return html`<article class="row prompt" aria-label="You">
    ${row.steer ? html`<div class="label">${icon("debug-step-into")} steered</div>` : nothing}
    <div class="text">${row.text}</div>
    <div class="actions">
      ${action("copy", "copy", "Copy", { text: row.text })} ${pin(row.messageId, context)}
      ${context.canChange && !row.steer ? action("rewind", "discard", "Go back to before this prompt", { turnId: row.turnId }) : nothing}
    </div>
  </article>`;
}

function pin(messageId: string, context: RowContext): TemplateResult {
  const pinId = context.pinned.get(messageId);
  return pinId === undefined
    ? action("pin", "pin", "Pin: keep in view through every compaction", { messageId })
    : action("unpin", "pinned", "Unpin", { pinId });
}

function answerRow(row: AnswerRow, context: RowContext): TemplateResult {
  const live = row.turnId === context.running;
  return html`<article class="row answer" aria-label="Ullage" aria-busy=${row.streaming}>
    ${row.reasoning
      ? html`<details class="reasoning"><summary>${icon("lightbulb")} ${row.streaming && !row.text ? "Thinking…" : "Thought"}</summary><div class="text">${row.reasoning}</div></details>`
      : nothing}
    ${row.text ? html`<div class="markdown">${guard([row.text], () => rendered(row.text))}</div>` : nothing}
    ${row.streaming && !row.text ? html`<div class="dots" aria-hidden="true"><i></i><i></i><i></i></div>` : nothing}
    ${row.calls.map((call) => callTemplate(call, context.asking.has(call.call.callId), live))}
    ${row.streaming
      ? nothing
      : html`<div class="actions">
          ${row.text ? action("copy", "copy", "Copy as Markdown", { text: row.text }) : nothing}
          ${row.seq === null ? nothing : action("fork", "repo-forked", "Fork from here", { seq: String(row.seq) })} ${pin(row.messageId, context)}
        </div>`}
  </article>`;
}

function callTemplate(call: Call, asking: boolean, live: boolean): TemplateResult {
  const line = callLine(call, asking, live);
  const states: Record<typeof line.state, string> = { running: "loading", asking: "question", done: "check", failed: "error", unknown: "circle-slash" };
  return html`<details class="call ${line.state}" aria-label=${line.words}>
    <summary title=${line.words}>
      ${icon(line.icon)}<span class="name">${line.name}</span><span class="target">${line.target}</span><span class="outcome">${line.outcome}</span
      ><span class="codicon codicon-${states[line.state]} state ${line.state === "running" ? "codicon-modifier-spin" : ""}" aria-hidden="true"></span>
    </summary>
    <div class="detail">
      ${line.path ? html`<button class="link" data-do="file" data-with=${JSON.stringify({ path: line.path })}>Open ${line.path}</button>` : nothing}
      <div class="label">Arguments</div>
      ${givenTemplate(call.call.arguments, cut(call.call.arguments, call.call.argumentsBytes))}
      ${call.printed ? html`<div class="label">Output so far</div><pre tabindex="0">${call.printed}</pre>` : nothing}
      ${call.result
        ? html`<div class="label">${call.result.isError ? "Error" : "Result"}</div>
            <pre tabindex="0">${call.result.text}${cut(call.result.text, call.result.textBytes)}</pre>`
        : nothing}
    </div>
  </details>`;
}

/** Tools' text may be cut on the way here; the model saw all of it. */
function cut(text: string, whole: number): string {
  const missing = whole - new TextEncoder().encode(text).length;
  return missing > 0 ? `\n… ${bytes(missing)} more` : "";
}

const REASONS: Record<CompactedRow["reason"], string> = { threshold: "the compaction line was reached", overflow: "the window was too small", manual: "you asked for it" };
const STRATEGIES: Record<string, string> = { model: "summarised by the model", deterministic: "made without a model", fallback: "made without a model, after its summary failed" };

function compactedRow(row: CompactedRow): TemplateResult {
  const { report } = row;
  return html`<section class="row compacted" aria-label="Compaction">
    <div class="rule"><span>${icon("fold")} Compacted ${exact(report.before)} → ${exact(report.after)} (−${100 - percent(report.after, report.before)} %)</span></div>
    <div class="small">
      ${REASONS[row.reason]}; ${STRATEGIES[report.strategy] ?? report.strategy}, ${duration(report.durationMs)};
      ${plural(report.droppedMessages, "message")} replaced, ${report.keptMessages} kept word for word${report.restoredFiles.length > 0 ? html`; files read again: ${report.restoredFiles.join(", ")}` : nothing}${report.failure ? html`; ${report.failure}` : nothing}
    </div>
    <details>
      <summary>What the model is told of the past</summary>
      <div class="markdown ledger">${guard([row.ledger], () => rendered(row.ledger))}</div>
      <div class="actions">${action("fork", "repo-forked", "Fork from before this compaction", { seq: String(Math.max(0, row.seq - 1)) })}</div>
    </details>
  </section>`;
}

function noticeRow(row: NoticeRow): TemplateResult {
  const icons = { info: "info", warning: "warning", error: "error" } as const;
  return html`<div class="row notice ${row.tone}" role=${row.tone === "error" ? "alert" : "note"}>
    ${icon(icons[row.tone])}
    <div>${row.text}${row.hint ? html`<div class="small">${row.hint}</div>` : nothing}</div>
  </div>`;
}
