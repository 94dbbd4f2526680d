/** The server's REST interface, and its errors as messages. */

const TIMEOUT_MS = 60_000; // longer than the server's own
const MAX_DETAIL = 300; // characters of the server's message

const MESSAGES = {
  400: "The server did not accept this text.",
  404: "The server no longer has this model.",
  413: "This text is too large for one request.",
  429: "The server is overloaded.",
  503: "The server is overloaded, or is loading its model.",
  504: "The server took too long over this text and gave up.",
};
const UNEXPECTED = "The server's answer has an unexpected form.";
const LATE = `The server has not answered for ${TIMEOUT_MS / 1000} seconds.`;
const SILENT = "The server does not answer. It may have been stopped.";

/** A failed request; `message` is meant for the user. */
class RestError extends Error {}

/** Return the served model: {name, version, languages?, search?}. */
export async function fetchModel() {
  const model = await fetchJson(new URL("page/model.json", document.baseURI));
  if (typeof model?.name !== "string") throw new RestError(UNEXPECTED);
  return model;
}

export const predictAddress = (name) =>
  new URL(`v1/models/${encodeURIComponent(name)}:predict`, document.baseURI).href;

/** Return a signature's prediction for each sentence; throws a RestError or the signal's error. */
export async function predict(name, signature, sentences, signal) {
  const { predictions } = await fetchJson(predictAddress(name), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ signature_name: signature, instances: sentences }),
    signal,
  });
  if (predictions?.length !== sentences.length) throw new RestError(UNEXPECTED);
  return predictions;
}

async function fetchJson(address, options = {}) {
  const signals = [options.signal, AbortSignal.timeout(TIMEOUT_MS)].filter(Boolean);
  let response, content;
  try {
    response = await fetch(address, { ...options, signal: AbortSignal.any(signals) });
    content = await response.json();
  } catch (error) {
    if (options.signal?.aborted) throw error;
    if (error.name === "TimeoutError") throw new RestError(LATE);
    // A reply that is not JSON contains NaN or Infinity, or comes from a proxy.
    if (!(error instanceof SyntaxError)) throw new RestError(SILENT);
  }
  if (!response.ok) throw new RestError(refusal(response.status, content?.error));
  if (!content) throw new RestError(UNEXPECTED);
  return content;
}

function refusal(status, detail) {
  const message = MESSAGES[status] ?? "The server could not do this.";
  const reason = typeof detail === "string" && detail.trim().slice(0, MAX_DETAIL);
  return `${message} (${status}${reason ? `: ${reason}` : ""})`;
}

/** Return any error as a message for the user. */
export function errorMessage(error) {
  if (error instanceof RestError) return error.message;
  console.error(error);
  return UNEXPECTED;
}
