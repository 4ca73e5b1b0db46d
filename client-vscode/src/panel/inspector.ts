// What fills the window: the number and its lines, shares, the biggest things, compactions, the handoff.

import { html, nothing, render, svg, type TemplateResult } from "lit-html";
import type { InspectResult, TotalsPayload } from "../protocol";
import { ago, dollars, duration, exact, percent, plural, tokens } from "../view/figures";
import { meter, windowRows } from "../view/meter";
import { listen, tell } from "./host";
import { icon } from "./icon";

const root = document.getElementById("root") as HTMLElement;

function inspector(found: InspectResult, title: string, handoffOn: boolean): TemplateResult {
  const shown = meter(found.occupancy);
  return html`<header><h1>${title || "Untitled session"}</h1><p class="big ${shown.tone}">${icon(shown.icon)} ${shown.text} <span class="phase">${shown.phase}</span></p></header>
    ${stack(found)}
    <div class="columns">
      <section><h2>By category</h2>${categories(found)}</section>
      <section><h2>Window</h2>${table(windowRows(found.occupancy))}${handoff(found, handoffOn)}</section>
      <section><h2>Biggest items</h2>${biggest(found)}</section>
      <section><h2>Compactions</h2>${checkpoints(found)}</section>
      <section><h2>Pinned</h2>${pins(found)}</section>
      <section><h2>Paid</h2>${table([...totals("Turns", found.turnTotals), ...totals("Summaries", found.summaryTotals)])}</section>
    </div>`;
}

/** Categories on one line, against the input budget with its two lines. */
function stack(found: InspectResult): TemplateResult {
  const whole = Math.max(found.occupancy.inputBudget, found.occupancy.used, 1);
  const wide = (count: number) => (count / whole) * 1000;
  let at = 0;
  const shares = found.categories.map((each, index) => {
    const x = at;
    at += wide(each.tokens);
    return svg`<rect class="share s${index % 8}" x=${x} y="4" width=${Math.max(0, wide(each.tokens) - 1)} height="20"></rect>`;
  });
  const lines = found.occupancy.window === null ? [] : [found.occupancy.handoffLine, found.occupancy.compactionLine];
  return html`<svg class="stack" viewBox="0 0 1000 28" preserveAspectRatio="none" role="img" aria-label=${found.categories.map((each) => `${each.name} ${each.tokens} tokens`).join(", ")}>
    <rect class="track" y="4" width="1000" height="20"></rect>
    ${shares}${lines.map((count) => svg`<rect class="line" x=${wide(count)} width="2" height="28"></rect>`)}
  </svg>`;
}

function categories(found: InspectResult): TemplateResult {
  const most = Math.max(1, ...found.categories.map((each) => each.tokens));
  return html`<table class="bars">${found.categories.map((each, index) => html`<tr>
    <th scope="row">${each.name}</th>
    <td class="number">${tokens(each.tokens)}</td>
    <td class="number">${percent(each.tokens, found.occupancy.used)} %</td>
    <td class="graph" aria-hidden="true"><svg viewBox="0 0 100 8" preserveAspectRatio="none"><rect class="share s${index % 8}" width=${(each.tokens / most) * 100} height="8"></rect></svg></td>
  </tr>`)}</table>`;
}

function biggest(found: InspectResult): TemplateResult {
  if (found.biggest.length === 0) return html`<p class="small">Nothing yet.</p>`;
  const { leftOut } = found;
  return html`<table>${found.biggest.map((each) => html`<tr>
      <th scope="row">${each.category}</th><td class="number">${exact(each.tokens)}</td><td class="small">#${each.seq}</td>
      <td><button class="icon" title="Leave out of what the model sees" aria-label="Leave out" @click=${() => tell({ kind: "leaveOut", messageIds: [each.messageId], back: false })}>${icon("eye-closed")}</button></td>
    </tr>`)}</table>
    ${leftOut.messageIds.length > 0
      ? html`<p class="small">Left out: ${plural(leftOut.messageIds.length, "message")}, ${exact(leftOut.tokens)} tokens.
          <button class="second" @click=${() => tell({ kind: "leaveOut", messageIds: leftOut.messageIds, back: true })}>Take back</button></p>`
      : nothing}`;
}

function checkpoints(found: InspectResult): TemplateResult {
  if (found.checkpoints.length === 0) return html`<p class="small">None yet: the model sees everything that was said.</p>`;
  return html`<table>${found.checkpoints.map(({ at, report }) => html`<tr>
    <th scope="row"><time datetime=${new Date(at).toISOString()} title=${new Date(at).toLocaleString()}>${ago(at, Date.now())}</time></th>
    <td class="number">${exact(report.before)} → ${exact(report.after)}</td><td class="small">${report.strategy}, ${duration(report.durationMs)}</td>
  </tr>`)}</table>`;
}

function pins(found: InspectResult): TemplateResult {
  if (found.pins.length === 0) return html`<p class="small">Nothing is pinned.</p>`;
  return html`<table>${found.pins.map((each) => html`<tr>
    <td class="clip">${each.text}</td><td class="number">${exact(each.tokens)}</td>
    <td><button class="icon" title="Unpin" aria-label="Unpin" @click=${() => tell({ kind: "unpin", pinId: each.pinId })}>${icon("pinned")}</button></td>
  </tr>`)}</table>`;
}

function handoff(found: InspectResult, on: boolean): TemplateResult {
  const words = found.occupancy.hidden > 0 ? `recorded, ${exact(found.occupancy.hidden)} tokens that only the model sees` : found.handoff === "suppressed" ? "suppressed until the next compaction" : "none in this epoch";
  return html`<div class="switch">
    <label><input type="checkbox" role="switch" .checked=${on} @change=${(event: Event) => tell({ kind: "handoff", on: (event.currentTarget as HTMLInputElement).checked })}> Handoff reminder</label>
    <span class="small">${words}</span>
  </div>`;
}

function table(rows: Array<[string, string]>): TemplateResult {
  return html`<table>${rows.map(([label, value]) => html`<tr><th scope="row">${label}</th><td class="number">${value}</td></tr>`)}</table>`;
}

function totals(label: string, of: TotalsPayload): Array<[string, string]> {
  return [[label, `${of.calls} calls, ${exact(of.prompt)} in, ${exact(of.completion)} out${of.cost === null ? "" : `, ${dollars(of.cost)}`}`]];
}

listen((message) => {
  if (message.kind === "inspection") render(inspector(message.inspection, message.title, message.handoffOn), root);
});
render(html`<p class="small">Open a session to see what fills its window.</p>`, root);
tell({ kind: "ready" });
