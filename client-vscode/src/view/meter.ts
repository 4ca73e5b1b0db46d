// The context meter in words: for the status bar, the panel's header and screen readers. Pure.
//
// Invariant: every figure is the server's. The percentage is of the input budget (window minus reserve), and nothing
// is told by colour alone: the phase has a word and an icon.

import type { OccupancyFigures, OccupancyPayload, Phase, ResumePayload } from "../protocol";
import { dollars, duration, exact, percent, tokens } from "./figures";

export type Tone = "plain" | "band" | "due";

export interface Meter {
  /** `61k / 143k (43 %)`, with ≈ while a part of it is estimated. */
  text: string;
  /** Name of a codicon. */
  icon: string;
  tone: Tone;
  /** The phase in words. */
  phase: string;
  /** One sentence for a screen reader. */
  spoken: string;
  /** Shares of the input budget, 0 to 1, for a bar: what is used and where the lines stand; null without a window. */
  bar: { used: number; handoff: number; compaction: number } | null;
}

const PHASES: Record<Phase, { tone: Tone; icon: string; words: string }> = {
  unknown: { tone: "plain", icon: "question", words: "window unknown" },
  below_handoff: { tone: "plain", icon: "pie-chart", words: "below the handoff line" },
  handoff_band: { tone: "band", icon: "warning", words: "handoff band" },
  compaction_due: { tone: "due", icon: "error", words: "compaction due" },
};

export function meter(figures: OccupancyFigures): Meter {
  const { tone, icon, words } = PHASES[figures.phase];
  const about = figures.estimated > 0 ? "≈" : "";
  const known = figures.window !== null && figures.inputBudget > 0;
  const share = percent(figures.used, figures.inputBudget);
  const text = known
    ? `${about}${tokens(figures.used)} / ${tokens(figures.inputBudget)} (${share} %)`
    : `${about}${tokens(figures.used)}`;
  const spoken = known
    ? `Context ${share} percent full: ${about ? "about " : ""}${exact(figures.used)} of ${exact(figures.inputBudget)} tokens, ${words}.`
    : `Context: ${about ? "about " : ""}${exact(figures.used)} tokens, ${words}.`;
  return { text, icon, tone, phase: words, spoken, bar: known ? bar(figures) : null };
}

function bar(figures: OccupancyFigures): Meter["bar"] {
  const share = (count: number) => Math.min(1, count / figures.inputBudget);
  return { used: share(figures.used), handoff: share(figures.handoffLine), compaction: share(figures.compactionLine) };
}

/** Label and value of what the meter's tooltip and the inspector tell. */
export function details(occupancy: OccupancyPayload): Array<[string, string]> {
  return [...windowRows(occupancy), ["Cost so far", cost(occupancy)]];
}

export function windowRows(figures: OccupancyFigures): Array<[string, string]> {
  const rows: Array<[string, string]> = [["Next request", `${exact(figures.used)} tokens`]];
  if (figures.estimated > 0) rows.push(["of it estimated", `${exact(figures.estimated)} tokens`]);
  if (figures.window === null) {
    rows.push(["Window", "unknown: nothing is compacted by itself"]);
    return rows;
  }
  rows.push(
    ["Input budget", `${exact(figures.inputBudget)} tokens`],
    ["Kept free for the answer", `${exact(figures.reserve)} tokens`],
    ["Window", `${exact(figures.window)} tokens (${figures.windowSource})`],
    ["Handoff line", `${exact(figures.handoffLine)} tokens (70 %)`],
    ["Compaction line", `${exact(figures.compactionLine)} tokens (80 %)`],
    ["Fixed part", `${exact(figures.fixed)} tokens`],
    ["Handoff", figures.hidden > 0 ? `${exact(figures.hidden)} tokens, hidden` : "none"],
  );
  return rows;
}

export function cost(occupancy: OccupancyPayload): string {
  if (occupancy.cost === null) return occupancy.totals.calls === 0 ? "nothing yet" : "unknown (no price)";
  return dollars(occupancy.cost) + (occupancy.unpriced > 0 ? `, and ${occupancy.unpriced} calls without a price` : "");
}

/** What going on with a large session that was idle takes; null where there is nothing to think about. */
export function resumeWords(resume: ResumePayload): string | null {
  if (!resume.largeAndIdle) return null;
  const idle = resume.idleMs === null ? "" : ` after ${duration(resume.idleMs)}`;
  const price = resume.cost === null ? "" : `, up to ${dollars(resume.cost)}`;
  return `Going on${idle} sends ${exact(resume.tokens)} tokens anew${price}.`;
}
