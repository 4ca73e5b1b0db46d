import { html, nothing, type TemplateResult } from "lit-html";
import type { PermissionParams } from "../protocol";
import { type DiffLine, diffLines, given } from "../view/given";

/** The whole of a call's arguments: a command as it will run, what would be written as lines, then whatever else was given. */
export function givenTemplate(text: string, missing = ""): TemplateResult {
  const { command, change, rest } = given(text);
  return html`${command === null ? nothing : html`<pre tabindex="0" class="command">${command}</pre>`}
    ${rest || missing ? html`<pre tabindex="0">${rest}${missing}</pre>` : nothing}
    ${change.length > 0 ? html`<pre tabindex="0" class="diff" aria-label="Change">${change.map(line)}</pre>` : nothing}`;
}

/** What a call would do, as the server says it: what is allowed is this and nothing else. */
export function askedTemplate(asked: PermissionParams): TemplateResult {
  const isCommand = given(asked.arguments).command !== null;
  if (!asked.shown) return givenTemplate(asked.arguments);
  return isCommand
    ? html`<pre tabindex="0" class="command">${asked.shown}</pre>`
    : html`<pre tabindex="0" class="diff" aria-label="Change">${diffLines(asked.shown).map(line)}</pre>`;
}

const CLASSES: Record<DiffLine["sign"], string> = { "+": "added", "-": "removed", " ": "same", "@": "heading" };

function line({ sign, text }: DiffLine): TemplateResult {
  return html`<span class=${CLASSES[sign]}>${sign === "@" ? "" : sign}${text}
</span>`;
}
