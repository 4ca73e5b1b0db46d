import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { fromPanel, toPanel } from "../../src/messages";
import { backoff } from "../../src/view/backoff";
import { callLine } from "../../src/view/calls";
import { ago, bytes, dollars, duration, tokens } from "../../src/view/figures";
import { ranked, withFolders } from "../../src/view/fuzzy";
import { given } from "../../src/view/given";
import { details, meter, resumeWords } from "../../src/view/meter";
import { completions, typed } from "../../src/view/slash";
import { applyAll } from "../../src/view/transcript";
import { answer, call, occupancy, result, started, told } from "../told";

describe("figures", () => {
  test.each([
    [tokens(0), "0"], [tokens(999), "999"], [tokens(1000), "1k"], [tokens(3949), "3.9k"], [tokens(9960), "10k"], [tokens(61_300), "61k"], [tokens(1_250_000), "1.3M"],
    [duration(63), "63 ms"], [duration(1500), "1.5 s"], [duration(90_000), "1 min 30 s"], [bytes(900), "900 B"], [bytes(20_000), "20 KB"],
    [dollars(4200), "$0.0042"], [dollars(1_270_000), "$1.27"], [ago(0, 30_000), "just now"], [ago(0, 3 * 3_600_000), "3 h ago"],
  ])("%s", (shown, expected) => expect(shown).toBe(expected));
});

describe("the meter", () => {
  test.each([
    { of: occupancy(13_300), text: "13k / 31k (43 %)", tone: "plain", icon: "pie-chart" },
    { of: occupancy(13_300, { estimated: 5 }), text: "≈13k / 31k (43 %)", tone: "plain", icon: "pie-chart" },
    { of: occupancy(21_560), text: "22k / 31k (70 %)", tone: "band", icon: "warning" },
    { of: occupancy(24_640), text: "25k / 31k (80 %)", tone: "due", icon: "error" },
    { of: occupancy(13_300, { window: null, inputBudget: 0, phase: "unknown" }), text: "13k", tone: "plain", icon: "question" },
  ])("$text, $tone", ({ of, text, tone, icon }) => expect(meter(of)).toMatchObject({ text, tone, icon }));

  test("is a sentence for a screen reader, with the phase in words", () => {
    expect(meter(occupancy(22_000, { estimated: 1 })).spoken).toBe("Context 71 percent full: about 22,000 of 30,800 tokens, handoff band.");
  });

  test("tells lines, reserve and cost, and never zero for what is not known", () => {
    const rows = new Map(details(occupancy(22_000, { hidden: 283 })));
    expect(rows.get("Kept free for the answer")).toBe("1,200 tokens");
    expect(rows.get("Compaction line")).toBe("24,640 tokens (80 %)");
    expect(rows.get("Handoff")).toBe("283 tokens, hidden");
    expect(rows.get("Cost so far")).toBe("unknown (no price)");
    expect(new Map(details(occupancy(1, { cost: 42_000, unpriced: 2 }))).get("Cost so far")).toBe("$0.0420, and 2 calls without a price");
  });
});

test("a large session that was idle says what going on takes", () => {
  expect(resumeWords({ tokens: 120_000, cost: 360_000, idleMs: 7_260_000, largeAndIdle: true })).toBe("Going on after 2 h 1 min sends 120,000 tokens anew, up to $0.36.");
  expect(resumeWords({ tokens: 120_000, cost: null, idleMs: null, largeAndIdle: true })).toBe("Going on sends 120,000 tokens anew.");
  expect(resumeWords({ tokens: 1, cost: 1, idleMs: 1, largeAndIdle: false })).toBeNull();
});

describe("what is typed", () => {
  test.each([
    ["", "nothing"], ["  \n", "nothing"], ["hello", "prompt"], [" /usr is a folder", "prompt"], ["/compact", "command"], ["/compact keep the plan", "command"],
    ["/", "unknown"], ["/nonsense", "unknown"], ["/Compact", "unknown"], ["/steer", "unknown"], ["/constructor", "unknown"], ["/usr/bin/x?", "unknown"],
  ])("%j is %s", (text, kind) => expect(typed(text).kind).toBe(kind));

  test("a command's argument is what follows it, lines and all", () => {
    expect(typed("/compact keep\nthe plan ")).toEqual({ kind: "command", name: "compact", argument: "keep\nthe plan" });
  });

  test("completion offers commands while the first word is typed", () => {
    expect(completions("/re").map((each) => each.name)).toEqual(["rename"]);
    expect(completions("/rename x")).toEqual([]);
    expect(completions("re")).toEqual([]);
  });
});

describe("starting again", () => {
  test.each([
    [[0], 500], [[0, 1000], 1000], [[0, 1000, 2000], 2000], [[0, 1000, 2000, 3000], 4000], [[0, 1, 2, 3, 4], null], [[0, 1, 2, 3, 500_000], 500],
  ])("after crashes at %j: %s ms", (crashes, wait) => expect(backoff(crashes)).toBe(wait));
});

describe("a call in one line", () => {
  const line = (given: Parameters<typeof call>[2], more: Parameters<typeof result>[2] | null, asking = false, live = true) => {
    const updates = told(started("t1"), answer("t1", "m1", "", { calls: [call("c1", "read", given)] }), ...(more ? [result("c1", "x", more)] : []));
    const row = applyAll(updates).rows.at(-1);
    if (row?.kind !== "answer" || !row.calls[0]) throw new Error("no call");
    return callLine(row.calls[0], asking, live);
  };

  test.each([
    ["done", line({ path: "a.py", start: 1, end: 9 }, { detail: "9 lines of a.py" }), { state: "done", target: "a.py 1-9", path: "a.py", outcome: "9 lines, 1.0 s" }],
    ["failed", line({ command: "make" }, { isError: true, op: "run", command: "make", exitCode: 2, paths: [], detail: "no rule" }), { state: "failed", target: "make", icon: "terminal", outcome: "exit 2, no rule, 1.0 s" }],
    ["running", line({ path: "a.py" }, null), { state: "running", outcome: "" }],
    ["asking", line({ path: "a.py" }, null, true), { state: "asking" }],
    ["of a turn that ended", line({ path: "a.py" }, null, false, false), { state: "unknown" }],
    ["with arguments of another shape", line([1], null), { target: "" }],
  ])("%s", (_, seen, expected) => expect(seen).toMatchObject(expected));
});

describe("what is asked for is shown whole", () => {
  const shown = (args: unknown) => {
    const { command, change, rest } = given(typeof args === "string" ? args : JSON.stringify(args));
    return [command, change.map((each) => each.sign + each.text).join("|"), rest];
  };
  test.each<[unknown, Array<string | null>]>([
    [{ command: "make test" }, ["make test", "", ""]],
    [{ command: "make", seconds: 9 }, ["make", "", '{\n  "seconds": 9\n}']],
    [{ command: ["make"] }, [null, "", '{\n  "command": [\n    "make"\n  ]\n}']],
    [{ path: "a.py", content: "one\ntwo" }, [null, "+one|+two", "a.py"]],
    [{ path: "a.py", edits: [{ old_text: "a", new_text: "b\nc" }] }, [null, "-a|+b|+c", "a.py"]],
    [{ path: "a.py", edits: [{ old_text: "a", new_text: "b", all: true }, { old_text: "c", new_text: "" }] }, [null, "@Edit 1, wherever it stands|-a|+b|@Edit 2|-c|+", "a.py"]],
    [{ path: "a.py", edits: [{ old_text: "a", new_text: "b", force: 1 }] }, [null, "", expect.stringContaining('"force": 1') as unknown as string]],
    [{ patch: "*** Update File: a.py\n@@\n-old\n+new\n same" }, [null, "@*** Update File: a.py|@@@|-old|+new| same", ""]],
    [{ patch: "--- a.py\n+++ a.py\n@@ -1 +1 @@\n--- x\n+y" }, [null, "@--- a.py|@+++ a.py|@@@ -1 +1 @@|--- x|+y", ""]],
    ["no {json", [null, "", "no {json"]],
    ["[1]", [null, "", "[1]"]],
  ])("%j", (args, expected) => expect(shown(args)).toEqual(expected));
});

describe("names of files", () => {
  const FILES = withFolders(["src/host/server.ts", "src/view/slash.ts", "docs/server.md", "README.md"]);
  test.each([
    ["server", ["docs/server.md", "src/host/server.ts"]], ["src/", ["src/", "src/host/", "src/view/", "src/view/slash.ts", "src/host/server.ts"]],
    ["readme", ["README.md"]], ["shst", ["src/host/", "src/host/server.ts"]], ["zzz", []],
  ])("%s", (query, found) => expect(ranked(FILES, query, 9)).toEqual(found));

  test("no more than asked for", () => expect(ranked(FILES, "", 2)).toHaveLength(2));
});

describe("messages of a webview", () => {
  test.each([
    [{ kind: "ready" }, true], [{ kind: "send", text: "hi", mode: "queue", mentions: [] }, true], [{ kind: "send", text: "hi", mode: "queue" }, false], [{ kind: "send", text: "hi" }, false], [{ kind: "send", text: 1, mode: "queue", mentions: [] }, false],
    [{ kind: "send", text: "hi", mode: "queue", mentions: [], more: 1 }, false], [{ kind: "command", name: "compact", argument: "" }, true],
    [{ kind: "command", name: "workbench.action.quit", argument: "" }, false], [{ kind: "forkAt", seq: -1 }, false], [{ kind: "decide", callId: "c", decision: "always", scope: "once", reason: "" }, false], [{ kind: "decide", callId: "c", decision: "allow", scope: "session", reason: "" }, true],
    [{ kind: "eval", code: "1" }, false], ["ready", false], [null, false], [{ kind: "openLink", href: "x".repeat(5000) }, false],
  ])("%#: %o is %s", (message, taken) => expect(fromPanel(message) !== null).toBe(taken));

  test("what the panel is told has a shape too", () => {
    expect(toPanel({ kind: "occupancy", occupancy: occupancy(1) })).not.toBeNull();
    expect(toPanel({ kind: "occupancy", occupancy: { used: "1" } })).toBeNull();
    expect(toPanel({ kind: "update", update: { sessionId: "s", seq: "1", update: { kind: "answer" } } })).toBeNull();
  });
});

test("the settings of package.json are those that the server takes from an editor", () => {
  const { contributes } = JSON.parse(readFileSync("package.json", "utf8"));
  const { $defs } = JSON.parse(readFileSync("../docs/protocol.schema.json", "utf8"));
  const ours = Object.keys(contributes.configuration.properties).filter((name) => name !== "ullage.server.python");
  expect(ours.sort()).toEqual(Object.keys($defs.EditorSettings.properties).map((name) => `ullage.${name}`).sort());
});

test("only what a workspace may choose can be set by one", () => {
  const { contributes } = JSON.parse(readFileSync("package.json", "utf8"));
  const settable = Object.entries<{ scope: string }>(contributes.configuration.properties).filter(([, about]) => about.scope !== "machine").map(([name]) => name);
  expect(settable).toEqual(["ullage.profile"]);
});

test("every command of the palette has a handler", () => {
  const { contributes } = JSON.parse(readFileSync("package.json", "utf8"));
  const handlers = readFileSync("src/host/commands.ts", "utf8");
  for (const { command } of contributes.commands) expect(handlers).toContain(`"${command}":`);
});
