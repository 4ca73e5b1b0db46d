// What a typed text is: a prompt, or a command. Pure.
//
// Invariant: a text that begins with a slash never reaches the model; a command that does not exist is an error that
// names those that do. A space before the slash makes it a prompt.

export const COMMANDS = {
  compact: { argument: "[INSTRUCTIONS]", does: "replace the older part of what the model sees by a shorter one, now" },
  steer: { argument: "TEXT", does: "tell the running turn something before its next step" },
  fork: { argument: "", does: "go on in a new session with all that was said" },
  new: { argument: "", does: "begin a new session" },
  open: { argument: "", does: "go on with another session" },
  rename: { argument: "[TITLE]", does: "give this session a title" },
  export: { argument: "", does: "the session as Markdown" },
  inspect: { argument: "", does: "what fills the window" },
  stop: { argument: "", does: "stop the running turn" },
  help: { argument: "", does: "these lines" },
} as const;

export type CommandName = keyof typeof COMMANDS;

export type Typed =
  | { kind: "nothing" }
  | { kind: "prompt"; text: string }
  | { kind: "command"; name: CommandName; argument: string }
  | { kind: "unknown"; message: string };

export function typed(text: string): Typed {
  if (text.trim() === "") return { kind: "nothing" };
  if (!text.startsWith("/")) return { kind: "prompt", text: text.trim() };
  const [, word = "", argument = ""] = /^\/(\S*)\s*([\s\S]*)$/.exec(text) ?? [];
  if (!Object.hasOwn(COMMANDS, word)) return { kind: "unknown", message: unknown(word) };
  const name = word as CommandName;
  if (COMMANDS[name].argument === "TEXT" && argument.trim() === "") {
    return { kind: "unknown", message: `/${name} needs a text after it.` };
  }
  return { kind: "command", name, argument: argument.trim() };
}

function unknown(word: string): string {
  const names = Object.keys(COMMANDS).map((name) => `/${name}`);
  return `There is no command /${word}. There are ${names.join(", ")}. To send a text that begins with a slash, put a space before it.`;
}

/** Commands whose name begins as what was typed so far; for completion. */
export function completions(text: string): Array<{ name: CommandName; argument: string; does: string }> {
  const begun = /^\/(\S*)$/.exec(text)?.[1];
  if (begun === undefined) return [];
  return (Object.keys(COMMANDS) as CommandName[])
    .filter((name) => name.startsWith(begun))
    .map((name) => ({ name, ...COMMANDS[name] }));
}
