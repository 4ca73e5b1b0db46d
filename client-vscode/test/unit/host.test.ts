import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { payloadOf, words } from "../../src/host/errors";
import { page } from "../../src/host/html";
import { candidates, findPython } from "../../src/host/interpreter";
import { Sessions } from "../../src/host/sessions";
import { applyAll } from "../../src/view/transcript";
import { answer, call, compacted, delta, ended, printed, prompt, result, SESSION, started, told } from "../told";

describe("sessions of a window", () => {
  test("an update belongs to the session it names", () => {
    const sessions = new Sessions();
    for (const update of told(prompt("t1", "a"), started("t1"))) sessions.hear(update);
    sessions.hear({ ...told(prompt("t1", "b"))[0]!, sessionId: "another" });
    expect(sessions.of(SESSION).transcript.rows).toMatchObject([{ text: "a" }]);
    expect(sessions.of("another").transcript.waiting).toMatchObject([{ text: "b" }]);
  });

  test("a panel that opens at any moment shows what one that was open all the time shows", () => {
    const updates = told(
      prompt("t1", "go"), started("t1"), delta("m1", 0, "think", "reasoning"), delta("m1", 0, "one "), delta("m1", 4, "two"), answer("t1", "m1", "one two", { calls: [call("c1"), call("c2")] }),
      printed("m1", "c1", 0, "out"), printed("m1", "c2", 0, "other"), printed("m1", "c1", 3, "put"), result("c1", "output"), result("c2", "x"), compacted(), delta("m2", 0, "more"), ended("t1"), prompt("t2", "b"),
    );
    const sessions = new Sessions();
    updates.forEach((update, index) => {
      sessions.hear(update);
      const session = sessions.of(SESSION);
      expect(applyAll([...session.updates, ...session.live]).rows, `after update ${index}`).toEqual(session.transcript.rows);
    });
  });

  test("what was told twice is told to nobody", () => {
    const sessions = new Sessions();
    const [first] = told(prompt("t1", "a"));
    expect([sessions.hear(first!), sessions.hear(first!)]).toEqual([true, false]);
    expect(sessions.of(SESSION).updates).toHaveLength(1);
  });

  test("with its server an approval goes", () => {
    const sessions = new Sessions();
    sessions.permissions.push({ sessionId: SESSION, callId: "c", name: "bash", arguments: "{}", description: "", shown: "", targets: [], sha256: "", careful: null, grant: null });
    sessions.lost();
    expect(sessions.permissions).toEqual([]);
  });
});

describe("the interpreter", () => {
  let place: string;
  beforeAll(() => {
    place = mkdtempSync(path.join(tmpdir(), "ullage-python-"));
    mkdirSync(path.join(place, ".venv/bin"), { recursive: true });
    script(".venv/bin/python", "echo 0.1.0");
    script("old", "echo \"AssertionError: needs Python 3.11 or newer\" >&2; exit 1");
    script("says", "echo \"$@\"");
  });
  afterAll(() => rmSync(place, { recursive: true }));

  function script(name: string, body: string): void {
    writeFileSync(path.join(place, name), `#!/bin/sh\n${body}\n`);
    chmodSync(path.join(place, name), 0o755);
  }

  test("a setting decides alone", () => expect(candidates("/opt/python", [place])).toEqual(["/opt/python"]));

  test("of folders that are not trusted none is run", () => expect(candidates("", [])).toEqual(["python3"]));

  test("a trusted folder's venv comes before the PATH", () => expect(candidates("", [place])).toEqual([path.join(place, ".venv/bin/python"), "python3"]));

  test("the first that has the package is taken", async () => {
    const python = path.join(place, ".venv/bin/python");
    expect(await findPython([path.join(place, "missing"), python], place)).toEqual({ python, version: "0.1.0" });
  });

  test("where none has it, each says why", async () => {
    const found = await findPython([path.join(place, "missing"), path.join(place, "old")], place);
    expect(found).toMatchObject({ tried: [{ why: expect.stringContaining("ENOENT") }, { why: "AssertionError: needs Python 3.11 or newer" }] });
  });

  test("the working folder is off Python's path", async () => {
    expect(await findPython([path.join(place, "says")], place)).toMatchObject({ version: expect.stringMatching(/^-P -c /) });
  });
});

test("errors of the server are told in its own words", () => {
  const error = Object.assign(new Error("wire"), { data: { code: "session_busy", message: "Another process writes it.", hint: "Fork it.", data: {} } });
  expect(payloadOf(error)?.code).toBe("session_busy");
  expect(words(error)).toEqual({ message: "Another process writes it.", hint: "Fork it." });
  expect(words(new Error("plain"))).toEqual({ message: "plain", hint: "" });
});

test("a page lets in one script by its nonce, our styles and font, and nothing else", () => {
  const html = page({ nonce: "n0nce", cspSource: "https://x.test", script: "https://x.test/chat.js", styles: ["https://x.test/panel.css"], title: "T", body: "chat" });
  const policy = /Content-Security-Policy" content="([^"]+)"/.exec(html)?.[1];
  expect(policy?.split("; ")).toEqual(["default-src 'none'", "script-src 'nonce-n0nce'", "style-src https://x.test", "font-src https://x.test", "base-uri 'none'", "form-action 'none'"]);
  expect(html.match(/<script/g)).toHaveLength(1);
  expect(html).not.toMatch(/ style=|<style/);
});
