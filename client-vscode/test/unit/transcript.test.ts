import { describe, expect, test } from "vitest";
import type { SessionUpdate } from "../../src/protocol";
import { applyAll, busy, type Row, type Transcript } from "../../src/view/transcript";
import { answer, call, compacted, delta, ended, printed, prompt, result, started, told } from "../told";

/** One line a row, as a person reads it. */
function lines(state: Transcript): string[] {
  return state.rows.map(line);
}

function line(row: Row): string {
  switch (row.kind) {
    case "prompt":
      return `${row.steer ? "steer" : "you"}: ${row.text}`;
    case "answer":
      return [`model${row.streaming ? " (streams)" : ""}: ${row.text}`, ...row.calls.map((each) => `${each.call.name}=${each.result?.text ?? (each.printed || "?")}`)].join(" | ");
    case "compacted":
      return `compacted ${row.report.before} to ${row.report.after}`;
    case "notice":
      return `${row.tone}: ${row.text}`;
  }
}

const TURN = [prompt("t1", "hi"), started("t1"), answer("t1", "m1", "hello")];

const ROWS: Array<{ name: string; updates: SessionUpdate[]; rows: string[]; more?: Partial<{ busy: boolean; waiting: string[]; held: string | null }> }> = [
  { name: "a prompt waits until its turn starts", updates: told(prompt("t1", "hi")), rows: [], more: { waiting: ["hi"], busy: false } },
  { name: "a turn runs", updates: told(...TURN), rows: ["you: hi", "model: hello"], more: { waiting: [], busy: true } },
  { name: "a turn ends", updates: told(...TURN, ended("t1")), rows: ["you: hi", "model: hello"], more: { busy: false } },
  { name: "a waiting prompt is edited where it stands", updates: told(prompt("t1", "a"), prompt("t2", "b"), prompt("t1", "c", null)), rows: [], more: { waiting: ["c", "b"] } },
  { name: "a waiting prompt is removed", updates: told(prompt("t1", "a"), { kind: "promptRemoved", turnId: "t1" }), rows: [], more: { waiting: [] } },
  { name: "steering enters", updates: told(...TURN, prompt("t2", "also", "steer"), { kind: "steerEntered", turnId: "t1", steerId: "t2" }), rows: ["you: hi", "model: hello", "steer: also"] },
  { name: "the queue is held", updates: told({ kind: "queue", held: "cancelled" }), rows: [], more: { held: "cancelled" } },
  { name: "deltas stream", updates: told(...TURN.slice(0, 2), delta("m1", 0, "he"), delta("m1", 2, "llo")), rows: ["you: hi", "model (streams): hello"] },
  { name: "a delta that begins anew replaces", updates: told(started("t1"), delta("m1", 0, "wrong"), delta("m1", 0, "right")), rows: ["model (streams): right"] },
  { name: "offsets count code points", updates: told(started("t1"), delta("m1", 0, "a😀"), delta("m1", 2, "b")), rows: ["model (streams): a😀b"] },
  { name: "a piece that was dropped is seen as a gap", updates: told(started("t1"), delta("m1", 0, "a"), delta("m1", 5, "b")), rows: ["model (streams): a … b"] },
  { name: "the answer takes the place of its deltas", updates: told(started("t1"), delta("m1", 0, "hel"), answer("t1", "m1", "hello"), delta("m1", 3, "late")), rows: ["model: hello"] },
  { name: "what streamed into a crash is gone, as after a reload", updates: told(started("t1"), delta("m1", 0, "hel"), ended("t1", "interrupted")), rows: ["warning: The server ended while this turn ran. Nothing was run again."] },
  { name: "results find their calls", updates: told(started("t1"), answer("t1", "m1", "", { calls: [call("c1"), call("c2")] }), result("c2", "two"), result("c1", "one")), rows: ["model:  | read=one | read=two"] },
  { name: "a call prints while it runs", updates: told(started("t1"), answer("t1", "m1", "", { calls: [call("c1", "bash")] }), printed("m1", "c1", 0, "one\n"), printed("m1", "c1", 4, "two")), rows: ["model:  | bash=one\ntwo"] },
  { name: "and its result takes the place of that", updates: told(started("t1"), answer("t1", "m1", "", { calls: [call("c1", "bash")] }), printed("m1", "c1", 0, "one"), result("c1", "all"), printed("m1", "c1", 3, "late")), rows: ["model:  | bash=all"] },
  { name: "a failed turn says why", updates: told(...TURN, ended("t1", "failed")), rows: ["you: hi", "model: hello", "error: It broke."] },
  { name: "a compaction is a boundary", updates: told(...TURN, compacted()), rows: ["you: hi", "model: hello", "compacted 24846 to 16766"] },
  { name: "a retry shows until something follows", updates: told(started("t1"), { kind: "retrying", messageId: "m1", afterSeq: 0, attempt: 2, most: 5, waitMs: 1, error: { code: "x", message: "Busy.", hint: "", data: {} } }), rows: ["warning: Busy. Trying again (2 of 5)…"] },
  { name: "and no longer", updates: told(started("t1"), { kind: "retrying", messageId: "m1", afterSeq: 0, attempt: 2, most: 5, waitMs: 1, error: { code: "x", message: "Busy.", hint: "", data: {} } }, answer("t1", "m1", "ok")), rows: ["model: ok"] },
  { name: "rewound turns go", updates: told(...TURN, ended("t1"), prompt("t2", "more"), started("t2"), answer("t2", "m2", "b"), ended("t2"), { kind: "rewound", turnId: "t2", beforeSeq: 5, turns: ["t2"] }), rows: ["you: hi", "model: hello"] },
  { name: "a redo brings them back", updates: told(...TURN, ended("t1"), prompt("t2", "more"), started("t2"), answer("t2", "m2", "b"), ended("t2"), { kind: "rewound", turnId: "t2", beforeSeq: 5, turns: ["t2"] }, { kind: "redone", rewindSeq: 8, turns: ["t2"] }), rows: ["you: hi", "model: hello", "you: more", "model: b"] },
  { name: "an update of a newer server changes nothing", updates: told({ kind: "fromTheFuture" } as never, ...TURN), rows: ["you: hi", "model: hello"] },
];

describe("the fold of updates", () => {
  for (const row of ROWS) {
    test(row.name, () => {
      const state = applyAll(row.updates);
      expect(lines(state)).toEqual(row.rows);
      const seen = { busy: busy(state), waiting: state.waiting.map((each) => each.text), held: state.held };
      expect(seen).toMatchObject(row.more ?? {});
    });
  }

  test("what was folded already changes nothing", () => {
    const updates = told(...TURN, ended("t1"), compacted());
    const once = applyAll(updates);
    expect(applyAll(updates, once)).toBe(once);
  });

  test("rows that did not change are the same objects", () => {
    const before = applyAll(told(...TURN));
    const after = applyAll(told(...TURN, ended("t1"), prompt("t2", "x"), started("t2"), delta("m2", 0, "y")), before);
    expect(after.rows[0]).toBe(before.rows[0]);
    expect(after.rows[1]).toBe(before.rows[1]);
  });

  test("wherever the connection was lost, asking again from the newest seq gives the same rows", () => {
    const updates = told(...TURN, delta("m9", 0, "lost"), result("c", "x"), ended("t1"), compacted(), prompt("t2", "b"), started("t2"), answer("t2", "m2", "b"), ended("t2"));
    const whole = applyAll(updates.filter((each) => each.seq !== null));
    for (let cut = 0; cut <= updates.length; cut += 1) {
      const first = applyAll(updates.slice(0, cut));
      const again = applyAll(updates.filter((each) => each.seq !== null && each.seq > first.lastSeq), first);
      expect(lines(again)).toEqual(lines(whole));
    }
  });
});
