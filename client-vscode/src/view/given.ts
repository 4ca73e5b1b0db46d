// A call's arguments for a person who reads or decides. Pure.
//
// Invariant: nothing that was given is left out: what is not shown as a command or a change stands in `rest`.

export interface DiffLine {
  sign: "+" | "-" | " " | "@";
  text: string;
}

export interface Given {
  /** A command as it will run. */
  command: string | null;
  /** What would be written: lines that go and come, `@` for a heading. */
  change: DiffLine[];
  /** The others, laid out; empty where there are none. */
  rest: string;
}

export function given(text: string): Given {
  const args = parsed(text);
  if (args === null) return { command: null, change: [], rest: text };
  const { command, patch, content, edits, ...others } = args;
  const shown: Given = { command: null, change: [], rest: "" };
  const kept: Record<string, unknown> = others;
  if (typeof command === "string") shown.command = command;
  else if (command !== undefined) kept.command = command;
  if (typeof patch === "string") shown.change.push(...diffLines(patch));
  else if (patch !== undefined) kept.patch = patch;
  if (typeof content === "string") shown.change.push(...lines("+", content));
  else if (content !== undefined) kept.content = content;
  const edited = editLines(edits);
  if (edited) shown.change.push(...edited);
  else if (edits !== undefined) kept.edits = edits;
  return { ...shown, rest: rest(kept) };
}

function rest(kept: Record<string, unknown>): string {
  const names = Object.keys(kept);
  if (names.length === 0) return "";
  if (names.length === 1 && typeof kept.path === "string") return kept.path;
  return JSON.stringify(kept, null, 2);
}

function editLines(edits: unknown): DiffLine[] | null {
  if (!Array.isArray(edits)) return null;
  const found = edits.map((edit: unknown, index) => {
    if (typeof edit !== "object" || edit === null) return null;
    const { old_text: before, new_text: after, all, ...more } = edit as Record<string, unknown>;
    if (typeof before !== "string" || typeof after !== "string" || Object.keys(more).length > 0) return null;
    const heading: DiffLine[] = edits.length > 1 || all === true ? [{ sign: "@", text: `Edit ${index + 1}${all === true ? ", wherever it stands" : ""}` }] : [];
    return [...heading, ...lines("-", before), ...lines("+", after)];
  });
  return found.every((each) => each !== null) ? found.flat() : null;
}

/** Lines of a diff or a patch by what they begin with. */
export function diffLines(patch: string): DiffLine[] {
  const all = patch.split("\n");
  // The two lines that name a file are no change, though they look like one.
  const names = (index: number) => all[index]?.startsWith("--- ") && all[index + 1]?.startsWith("+++ ");
  return all.map((line, index): DiffLine => {
    if (names(index) || names(index - 1)) return { sign: "@", text: line };
    const sign = line[0];
    return sign === "+" || sign === "-" || sign === " " ? { sign, text: line.slice(1) } : { sign: "@", text: line };
  });
}

function lines(sign: "+" | "-", text: string): DiffLine[] {
  return text.split("\n").map((line) => ({ sign, text: line }));
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
