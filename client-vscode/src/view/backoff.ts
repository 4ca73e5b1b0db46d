// When a server that ended by itself is started again. Pure.

/** Milliseconds before the first start anew; twice as long before each one after it. */
const FIRST_MS = 500;
const LONGEST_MS = 15_000;
/** Crashes within this time count together. */
const SPAN_MS = 180_000;
/** After so many it is a person's turn. */
const MOST = 5;

/** Milliseconds to wait after the newest of `crashes` (UTC milliseconds, ascending), or null: give up and say so. */
export function backoff(crashes: readonly number[]): number | null {
  const newest = crashes.at(-1) ?? 0;
  const recent = crashes.filter((at) => newest - at < SPAN_MS).length;
  return recent >= MOST ? null : Math.min(LONGEST_MS, FIRST_MS * 2 ** (recent - 1));
}
