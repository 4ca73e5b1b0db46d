// The panel's side of the door to the extension.

import { type FromPanel, toPanel, type ToPanel } from "../messages";

interface Api {
  postMessage(message: FromPanel): void;
  getState(): unknown;
  setState(state: unknown): void;
}

declare function acquireVsCodeApi(): Api;

const api = acquireVsCodeApi();

export function tell(message: FromPanel): void {
  api.postMessage(message);
}

export function listen(heard: (message: ToPanel) => void): void {
  window.addEventListener("message", (event: MessageEvent) => {
    const message = toPanel(event.data);
    if (message) heard(message);
  });
}

/** What was typed and not sent yet; it outlives a hidden panel and a reload of the window. */
export const draft = {
  get: (): string => {
    const state = api.getState() as { draft?: unknown } | undefined;
    return typeof state?.draft === "string" ? state.draft : "";
  },
  set: (text: string): void => api.setState({ draft: text }),
};
