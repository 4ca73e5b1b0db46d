// Errors of the server in its own words.

import type { ErrorPayload } from "../protocol";

/** `data` of error -32001, where the error is one. */
export function payloadOf(error: unknown): ErrorPayload | null {
  const data = (error as { data?: Partial<ErrorPayload> } | null)?.data;
  return typeof data?.code === "string" && typeof data.message === "string" ? ({ hint: "", data: {}, ...data } as ErrorPayload) : null;
}

export function isCancelled(error: unknown): boolean {
  return (error as { code?: number } | null)?.code === -32800;
}

export function words(error: unknown): { message: string; hint: string } {
  const payload = payloadOf(error);
  if (payload) return { message: payload.message, hint: payload.hint };
  return { message: error instanceof Error ? error.message : String(error), hint: "" };
}
