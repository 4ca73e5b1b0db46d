// Bundles into dist/: the extension (Node, CommonJS) and the webviews (browser), the icon font, and the licences of
// everything that is bundled.

import { build } from "esbuild";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";

const debug = process.argv.includes("--debug");
const shared = { bundle: true, minify: !debug, sourcemap: debug, logLevel: "warning", legalComments: "none", metafile: true };

const bundles = await Promise.all([
  build({
    ...shared, entryPoints: ["src/host/extension.ts"], outfile: "dist/extension.js", platform: "node", format: "cjs", target: "node20",
    external: ["vscode"], mainFields: ["module", "main"],
  }),
  build({ ...shared, entryPoints: ["src/panel/chat.ts", "src/panel/inspector.ts"], outdir: "dist", platform: "browser", format: "iife", target: "chrome120" }),
  build({ ...shared, entryPoints: ["src/panel/panel.css"], outdir: "dist" }),
]);
for (const file of ["codicon.css", "codicon.ttf"]) cpSync(`node_modules/@vscode/codicons/dist/${file}`, `dist/${file}`);
writeFileSync("dist/THIRD_PARTY.txt", licences(bundles.flatMap((each) => Object.keys(each.metafile.inputs))));

function licences(inputs) {
  const packages = inputs.map((each) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(each)?.[1]).filter(Boolean);
  return [...new Set([...packages, "@vscode/codicons"])].sort().map(licence).join(`\n\n${"-".repeat(80)}\n\n`);
}

function licence(name) {
  const place = `node_modules/${name}`;
  const about = JSON.parse(readFileSync(`${place}/package.json`, "utf8"));
  const file = readdirSync(place).find((each) => /^licen[cs]e/i.test(each));
  return `${name} ${about.version} (${about.license})\n\n${file ? readFileSync(`${place}/${file}`, "utf8").trim() : ""}`;
}
