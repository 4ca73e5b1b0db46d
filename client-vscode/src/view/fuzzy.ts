// Names of files and folders for what was typed of them. Pure.

/** The best first, at most `most`. A folder ends with a slash. */
export function ranked(paths: readonly string[], query: string, most: number): string[] {
  const wanted = query.toLowerCase();
  return paths
    .map((path) => ({ path, score: score(path.toLowerCase(), wanted) }))
    .filter((each) => each.score !== null)
    .sort((a, b) => (a.score ?? 0) - (b.score ?? 0) || a.path.length - b.path.length || (a.path < b.path ? -1 : 1))
    .slice(0, most)
    .map((each) => each.path);
}

/** Lower is better; null where the letters do not stand in the path in that order. */
function score(path: string, wanted: string): number | null {
  const name = path.replace(/\/$/, "").split("/").at(-1) ?? path;
  if (name === wanted) return 0;
  if (name.startsWith(wanted)) return 1;
  if (path.startsWith(wanted)) return 2;
  if (name.includes(wanted)) return 3;
  if (path.includes(wanted)) return 4;
  let at = -1;
  for (const letter of wanted) {
    at = path.indexOf(letter, at + 1);
    if (at < 0) return null;
  }
  return 5;
}

/** The files and every folder above them. */
export function withFolders(files: readonly string[]): string[] {
  const folders = new Set<string>();
  for (const file of files) {
    for (let at = file.indexOf("/"); at > 0; at = file.indexOf("/", at + 1)) folders.add(file.slice(0, at + 1));
  }
  return [...folders, ...files];
}
