// Keeps the newest in view until the person scrolls away, and again once they are back at the end.
//
// Rows get their real height only when they come into view, so a scroll event says nothing about intent by itself: the
// transcript is left alone only after a wheel, a key or a pointer.

const NEAR_PX = 40;
const INTENT_MS = 400;

export class Scroll {
  private following = true;
  private touchedAt = -Infinity;
  private log: HTMLElement | null = null;
  /** `top` is called when the person comes near the beginning of what is drawn. */
  constructor(private readonly top: () => void) {}

  private readonly grown = new ResizeObserver(() => this.stick());

  /** After each drawing. */
  attach(): void {
    const log = document.getElementById("log");
    if (log && log !== this.log) {
      this.log = log;
      this.grown.observe(log);
      this.grown.observe(document.getElementById("rows") as HTMLElement);
    }
    this.stick();
  }

  readonly touched = (): void => {
    this.touchedAt = performance.now();
  };

  readonly moved = (): void => {
    if (this.atEnd()) this.set(true);
    else if (performance.now() - this.touchedAt < INTENT_MS) this.set(false);
    if (!this.following && this.log && this.log.scrollTop < this.log.clientHeight) this.top();
  };

  follow(): void {
    this.set(true);
    this.stick();
  }

  private stick(): void {
    if (this.following && this.log) this.log.scrollTop = this.log.scrollHeight;
  }

  private atEnd(): boolean {
    const log = this.log;
    return !log || log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_PX;
  }

  private set(following: boolean): void {
    this.following = following;
    const latest = document.getElementById("latest");
    if (latest) latest.hidden = following;
  }
}
