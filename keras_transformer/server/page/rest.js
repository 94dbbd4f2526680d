/** The server's REST interface, and its errors in words. */

const PATIENCE_MS = 60_000; // longer than the server's own time limit
const LONGEST_DETAIL = 300;

const WORDS = {
  400: "The server did not accept this text.",
  404: "The server no longer has this model.",
  413: "This text is too large for one request.",
  429: "The server has more to do than it can take just now.",
  503: "The server has more to do than it can take just now, or is loading its model.",
  504: "The server took too long over this text and gave up.",
};

/** A request that failed; `message` is meant for the person at the page. */
export class RestError extends Error {}

/**
 * What the server says of its model.
 * @returns {Promise<{name: string, version: number, languages?: object, search?: object}>}
 * @throws {RestError}
 */
export async function fetchModel() {
  const model = await fetchJson(new URL("page/model.json", document.baseURI), {});
  if (typeof model?.name !== "string") throw notUnderstood();
  return model;
}

/** Where a model's predictions are asked for. */
export function predictAddress(name) {
  return new URL(`v1/models/${encodeURIComponent(name)}:predict`, document.baseURI).href;
}

/**
 * Runs a signature on sentences.
 * @param {string} name of the model
 * @param {string} signature
 * @param {string[]} texts
 * @param {AbortSignal} signal
 * @returns {Promise<object[]>} one answer for each text, in order
 * @throws {RestError}, or an AbortError where the signal asked for it
 */
export async function predict(name, signature, texts, signal) {
  const reply = await fetchJson(predictAddress(name), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ signature_name: signature, instances: texts }),
    signal,
  });
  const answers = reply?.predictions;
  if (!Array.isArray(answers) || answers.length !== texts.length) throw notUnderstood();
  return answers;
}

async function fetchJson(address, options) {
  let response;
  let body;
  try {
    response = await fetch(address, { ...options, signal: withPatience(options.signal) });
    body = await response.text();
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new RestError(
      error.name === "TimeoutError"
        ? `The server has not answered for ${PATIENCE_MS / 1000} seconds.`
        : "The server does not answer. It may have been stopped.",
    );
  }
  const content = parsed(body);
  if (!response.ok) throw refused(response.status, content?.error);
  if (content === undefined) throw notUnderstood();
  return content;
}

/** The caller's signal, or the end of patience, whichever comes first. */
function withPatience(signal) {
  if (!("any" in AbortSignal)) return signal;
  const limit = AbortSignal.timeout(PATIENCE_MS);
  return signal ? AbortSignal.any([signal, limit]) : limit;
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return undefined; // NaN and Infinity are not JSON, and a proxy may answer in HTML
  }
}

function refused(status, detail) {
  const words = WORDS[status] ?? "The server could not do this.";
  const said = typeof detail === "string" ? detail.trim().slice(0, LONGEST_DETAIL) : "";
  return new RestError(`${words} (${status}${said ? `: ${said}` : ""})`);
}

function notUnderstood() {
  return new RestError("The server's answer has an unexpected form.");
}

/** Any error as a sentence for the person at the page. */
export function inWords(error) {
  if (error instanceof RestError) return error.message;
  console.error(error);
  return notUnderstood().message;
}
