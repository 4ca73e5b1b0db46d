// The input: sends, completes commands and names of files, recalls. What is typed survives until it was sent.

import { html, nothing, render, type TemplateResult } from "lit-html";
import { completions, type CommandName, typed } from "../view/slash";
import { draft, tell } from "./host";
import { icon } from "./icon";

interface Around {
  problem(message: string): void;
  busy(): boolean;
  stop(): void;
}

/** One line of the list above the input, and what the input holds once it is taken. */
interface Offer {
  label: string;
  argument: string;
  does: string;
  before: string;
  after: string;
}

export class Composer {
  private area: HTMLTextAreaElement | null = null;
  private readonly sent: string[] = [];
  private recalled = 0;
  private offers: Offer[] = [];
  private chosen = 0;
  private readonly mentioned = new Set<string>();

  constructor(private readonly around: Around) {}

  template(readOnly: string | null, ready: boolean): TemplateResult {
    const busy = this.around.busy();
    return html`<div class="composer">
      <div id="completions"></div>
      <textarea
        id="input" rows="2" aria-label="Prompt" aria-describedby="keys" aria-controls="completions" ?disabled=${readOnly !== null}
        placeholder=${readOnly !== null ? "Read-only: fork to go on" : busy ? "Waits until this turn ends (Ctrl+Enter steers)" : "Ask about this folder, @ for files, / for commands"}
        @keydown=${this.key} @input=${this.input} @blur=${() => this.offer([])}></textarea>
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

  /** Put a text behind what is there, and go there. */
  insert(text: string): void {
    if (this.area && text) this.write([this.area.value.trimEnd(), text].filter(Boolean).join(" "));
    this.focus();
  }

  /** A prompt that was refused comes back, unless something else is being typed. */
  restore(text: string): void {
    if (this.area && text && this.area.value === "") this.write(text);
  }

  /** Names that the extension found for what was typed after an @. */
  files(query: string, found: string[]): void {
    const at = this.mention();
    if (at === null || at.query !== query || !this.area) return;
    const [before, after] = [this.area.value.slice(0, at.start), this.area.value.slice(at.start + 1 + query.length)];
    this.offer(found.map((path) => ({ label: path, argument: "", does: "", before: `${before}@${path} `, after: after.trimStart() })));
  }

  private write(text: string, caret = text.length): void {
    if (!this.area) return;
    this.area.value = text;
    this.area.setSelectionRange(caret, caret);
    this.changed();
  }

  private readonly input = () => {
    this.around.problem("");
    this.changed();
  };

  private changed(): void {
    const text = this.area?.value ?? "";
    draft.set(text);
    this.grow();
    const mention = this.mention();
    if (mention) tell({ kind: "findFiles", query: mention.query });
    this.offer(completions(text).map((each) => ({ label: `/${each.name}`, argument: each.argument, does: each.does, before: `/${each.name}`, after: "" })));
  }

  /** The @ that is being typed: at the start or behind a space, up to the caret. */
  private mention(): { start: number; query: string } | null {
    const caret = this.area?.selectionStart ?? 0;
    const found = /(?:^|\s)@([^\s@]*)$/.exec((this.area?.value ?? "").slice(0, caret));
    return found ? { start: caret - (found[1]?.length ?? 0) - 1, query: found[1] ?? "" } : null;
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
    else tell({ kind: "send", text, mode: this.around.busy() ? mode : "queue", mentions: this.mentions(text) });
    this.sent.push(text);
    this.recalled = this.sent.length;
    this.mentioned.clear();
    this.write(what.kind === "command" && what.name === "help" ? "/" : "");
  }

  private mentions(text: string): string[] {
    return [...this.mentioned].filter((path) => text.includes(`@${path}`));
  }

  private run(name: CommandName, argument: string): void {
    if (name === "help") return;
    if (name === "steer") return tell({ kind: "send", text: argument, mode: "steer", mentions: this.mentions(argument) });
    tell({ kind: "command", name, argument });
  }

  private readonly key = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (this.offers.length > 0 && this.keyInList(event)) return;
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

  private keyInList(event: KeyboardEvent): boolean {
    const offer = this.offers[this.chosen];
    const whole = offer && this.area?.value === offer.before + offer.after;
    if (event.key === "Escape") this.offer([]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.choose(event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && !whole)) this.take(offer);
    else return false;
    event.preventDefault();
    return true;
  }

  private choose(step: number): void {
    this.chosen = (this.chosen + step + this.offers.length) % this.offers.length;
    this.list();
  }

  private take(offer: Offer | undefined): void {
    if (!offer) return;
    const path = /@(\S+) $/.exec(offer.before)?.[1];
    if (path) this.mentioned.add(path);
    this.write(offer.before + offer.after, offer.before.length);
    this.offer([]);
    this.focus();
  }

  private mayRecall(): boolean {
    return this.sent.length > 0 && (this.area?.value === "" || this.recalled < this.sent.length);
  }

  private recall(step: number): void {
    this.recalled = Math.min(this.sent.length, Math.max(0, this.recalled + step));
    this.write(this.sent[this.recalled] ?? "");
    this.offer([]);
  }

  private offer(offers: Offer[]): void {
    this.offers = offers;
    this.chosen = 0;
    this.list();
  }

  private list(): void {
    const place = document.getElementById("completions");
    if (!place) return;
    const items = this.offers.map((each, index) => html`<div role="option" id="option-${index}" aria-selected=${index === this.chosen} @mousedown=${(event: Event) => {
      event.preventDefault();
      this.take(each);
    }}><b>${each.label}</b> <span class="argument">${each.argument}</span> <span class="small">${each.does}</span></div>`);
    render(items.length > 0 ? html`<div class="completions" role="listbox" aria-label="Completions">${items}</div>` : nothing, place);
    place.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
    if (items.length > 0) this.area?.setAttribute("aria-activedescendant", `option-${this.chosen}`);
    else this.area?.removeAttribute("aria-activedescendant");
  }
}
