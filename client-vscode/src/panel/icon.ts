import { html, type TemplateResult } from "lit-html";

/** A codicon, for the eye only: words stand beside it or in a label. */
export function icon(name: string): TemplateResult {
  return html`<span class="codicon codicon-${name}" aria-hidden="true"></span>`;
}
