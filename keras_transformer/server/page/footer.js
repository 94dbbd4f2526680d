/** The served model and the request as a curl command. */

import { byId, copyOnClick, element } from "./dom.js";
import { formatCount } from "./format.js";
import { predictAddress } from "./rest.js";

const MAX_SENTENCES = 32; // in one command, as in one request of the page
const MAX_ARGUMENT_BYTES = 100_000; // Linux accepts less than 128 KiB

// Invisible characters, and those that a terminal might act on: written as JSON escapes.
const UNSAFE = /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

let model = null;
let sentences = [];

byId("curl").addEventListener("toggle", showCurl);
copyOnClick(byId("curl-copy"), () => byId("curl-command").textContent);

/** Show the facts about a model returned by fetchModel. */
export function setModel(served) {
  model = served;
  const { beam, alpha, length_penalty, n_best, max_tokens } = model.search ?? {};
  const search = [
    beam !== undefined && `beam ${beam}`,
    alpha !== undefined && `length penalty ${alpha}${length_penalty === "power" ? " (power)" : ""}`,
    n_best !== undefined && `${n_best}-best`,
    max_tokens !== undefined && `at most ${formatCount(max_tokens, "token")}`,
  ];
  const facts = [
    ["Model", `${model.name}, version ${model.version}`],
    ["Search", search.filter(Boolean).join(", ")],
    ["REST", `POST ${predictAddress(model.name)}`],
  ];
  const fact = ([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value));
  byId("facts").replaceChildren(...facts.filter(([, value]) => value).map(fact));
  showCurl();
}

export function setSentences(typed) {
  sentences = typed;
  showCurl();
}

function showCurl() {
  if (model === null || !byId("curl").open) return;
  const sent = sentences.length ? sentences.slice(0, MAX_SENTENCES) : ["Hello."];
  const cut = `The first ${MAX_SENTENCES} of ${sentences.length} sentences.`;
  byId("curl-command").textContent = curlCommand(predictAddress(model.name), sent);
  byId("curl-note").textContent = sent.length < sentences.length ? cut : "For sh, bash and zsh.";
}

/** Return a curl command for sh, bash and zsh; they expand nothing in it. */
function curlCommand(address, instances) {
  const escape = (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0");
  const body = JSON.stringify({ instances }).replace(UNSAFE, escape);
  if (new TextEncoder().encode(body).length <= MAX_ARGUMENT_BYTES) {
    return `curl --data ${quote(body)} ${quote(address)}`;
  }
  // JSON has no line breaks of its own, so no text can end the here-document.
  return `curl --data-binary @- ${quote(address)} <<'END'\n${body}\nEND`;
}

/** Quote a word for a POSIX shell: in single quotes only the single quote is special. */
const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;
