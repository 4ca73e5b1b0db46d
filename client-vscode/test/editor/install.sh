#!/usr/bin/env bash
# VS Code's server for the browser, from npm, into .editor/: no download but packages, and only the native modules that
# the scenario needs are built (g++, make and python3 do that). It wants a newer Node than the tests, so it gets its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=4.139.1
stamp=.editor/installed-$version
[ -f "$stamp" ] && exit 0
quiet=(--no-audit --no-fund --loglevel=error)
mkdir -p .editor/node .editor/code-server
(cd .editor/node && { [ -f package.json ] || echo '{"private": true}' > package.json; } && npm i "${quiet[@]}" node@24)
export PATH="$PWD/.editor/node/node_modules/.bin:$PATH"
cd .editor/code-server
[ -f package.json ] || echo '{"private": true}' > package.json
npm i "${quiet[@]}" --ignore-scripts "code-server@$version"
cd node_modules/code-server/lib/vscode
npm i "${quiet[@]}" --omit=dev --ignore-scripts
npm rebuild --ignore-scripts=false --loglevel=error @vscode/spdlog @vscode/native-watchdog
cd - > /dev/null
touch "../../$stamp"
