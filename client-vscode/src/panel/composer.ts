// The input: sends, completes commands, recalls. What is typed survives until it was sent.

import { html, nothing, render, type TemplateResult } from "lit-html";
import { completions, typed } from "../view/slash";
import { draft, tell } from "./host";
import { icon } from "./icon";

interface Around {
  problem(message: string): void;
  busy(): boolean;
  stop(): void;
}

export class Composer {
  private area: HTMLTextAreaElement | null = null;
  private readonly sent: string[] = [];
  private recalled = 0;
  private chosen = 0;

  constructor(private readonly around: Around) {}

  template(readOnly: string | null, ready: boolean): TemplateResult {
    const busy = this.around.busy();
    return html`<div class="composer">
      <div id="completions"></div>
      <textarea
        id="input" rows="2" aria-label="Prompt" aria-describedby="keys" aria-controls="completions" ?disabled=${readOnly !== null}
        placeholder=${readOnly !== null ? "Read-only: fork to go on" : busy ? "Waits until this turn ends (Ctrl+Enter steers)" : "Ask about this folder, / for commands"}
        @keydown=${this.key} @input=${this.input}></textarea>
      <div class="tools">
        <span id="keys" class="small">${busy ? "Esc stops" : "Enter sends"}</span>
        ${busy
          ? html`<button class="round stop" title="Stop (Esc)" aria-label="Stop" @click=${() => this.around.stop()}>${icon("debug-stop")}</button>`
          : nothing}
        <button class="round" title=${busy ? "Queue (Enter)" : "Send (Enter)"} aria-label=${busy ? "Queue" : "Send"} ?disabled=${!ready || readOnly !== null} @click=${() => this.send("queue")}>
          ${icon(busy ? "add" : "arrow-up")}
        </button>
      </div>
    </div>`;
  }

  /** After each drawing; the first one puts back what was typed before. */
  attach(root: HTMLElement): void {
    const area = root.querySelector<HTMLTextAreaElement>("#input");
    if (area === this.area || !area) return;
    this.area = area;
    area.value = draft.get();
    this.grow();
  }

  focus(): void {
    this.area?.focus();
  }

  insert(text: string): void {
    if (this.area && text) this.write(text);
    this.focus();
  }

  /** A prompt that was refused comes back, unless something else is being typed. */
  restore(text: string): void {
    if (this.area && text && this.area.value === "") this.write(text);
  }

  private write(text: string): void {
    if (!this.area) return;
    this.area.value = text;
    this.changed();
  }

  private readonly input = () => {
    this.around.problem("");
    this.changed();
  };

  private changed(): void {
    draft.set(this.area?.value ?? "");
    this.chosen = 0;
    this.grow();
    this.complete();
  }

  private grow(): void {
    if (!this.area) return;
    this.area.style.height = "auto";
    this.area.style.height = `${Math.min(this.area.scrollHeight + 2, window.innerHeight * 0.4)}px`;
  }

  private send(mode: "queue" | "steer"): void {
    const text = this.area?.value ?? "";
    const what = typed(text);
    if (what.kind === "nothing") return;
    if (what.kind === "unknown") return this.around.problem(what.message);
    if (what.kind === "command") this.run(what.name, what.argument);
    else tell({ kind: "send", text, mode: this.around.busy() ? mode : "queue" });
    this.sent.push(text);
    this.recalled = this.sent.length;
    this.write("");
  }

  private run(name: Extract<ReturnType<typeof typed>, { kind: "command" }>["name"], argument: string): void {
    if (name === "help") return this.write("/");
    if (name === "steer") return tell({ kind: "send", text: argument, mode: "steer" });
    tell({ kind: "command", name, argument });
  }

  private readonly key = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const offered = completions(this.area?.value ?? "");
    if (offered.length > 0 && this.keyInList(event, offered.map((each) => each.name))) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.send(event.ctrlKey || event.metaKey ? "steer" : "queue");
    } else if (event.key === "ArrowUp" && this.mayRecall()) {
      event.preventDefault();
      this.recall(-1);
    } else if (event.key === "ArrowDown" && this.recalled < this.sent.length) {
      event.preventDefault();
      this.recall(1);
    }
  };

  private keyInList(event: KeyboardEvent, names: string[]): boolean {
    const whole = names.length === 1 && this.area?.value === `/${names[0]}`;
    if (event.key === "Escape") render(nothing, this.list());
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      this.chosen = (this.chosen + (event.key === "ArrowDown" ? 1 : names.length - 1)) % names.length;
      this.complete();
    } else if (event.key === "Tab" || (event.key === "Enter" && !whole)) this.pick(names[this.chosen] ?? "");
    else return false;
    event.preventDefault();
    return true;
  }

  private pick(name: string): void {
    this.write(`/${name}`);
    render(nothing, this.list());
    this.focus();
  }

  private mayRecall(): boolean {
    return this.sent.length > 0 && (this.area?.value === "" || this.recalled < this.sent.length);
  }

  private recall(step: number): void {
    this.recalled = Math.min(this.sent.length, Math.max(0, this.recalled + step));
    this.write(this.sent[this.recalled] ?? "");
  }

  private list(): HTMLElement {
    return document.getElementById("completions") as HTMLElement;
  }

  private complete(): void {
    const offered = completions(this.area?.value ?? "");
    const items = offered.map((each, index) => html`<div role="option" id="option-${index}" aria-selected=${index === this.chosen} @mousedown=${(event: Event) => {
      event.preventDefault();
      this.pick(each.name);
    }}><b>/${each.name}</b> <span class="argument">${each.argument}</span> <span class="small">${each.does}</span></div>`);
    render(items.length > 0 ? html`<div class="completions" role="listbox" aria-label="Commands">${items}</div>` : nothing, this.list());
  }
}
