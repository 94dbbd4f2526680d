/** The served model and the request as a curl command. */

import { curlCommand } from "./curl.js";
import { byId, copyOnClick, element } from "./dom.js";
import { formatCount } from "./format.js";
import { predictAddress } from "./rest.js";

const MAX_SENTENCES = 32; // in one command, as in one request of the page

let model = null;
let sentences = [];

byId("curl").addEventListener("toggle", showCurl);
copyOnClick(byId("curl-copy"), () => byId("curl-command").textContent);

/** Show the facts about a model returned by fetchModel. */
export function setModel(served) {
  model = served;
  const { beam, alpha, n_best, max_tokens } = model.search ?? {};
  const search = [
    beam !== undefined && `beam ${beam}`,
    alpha !== undefined && `length penalty ${alpha}`,
    n_best !== undefined && `${n_best}-best`,
    max_tokens !== undefined && `at most ${formatCount(max_tokens, "token")}`,
  ];
  const facts = {
    Model: `${model.name}, version ${model.version}`,
    Search: search.filter(Boolean).join(", "),
    REST: `POST ${predictAddress(model.name)}`,
  };
  const pairs = Object.entries(facts).filter(([, value]) => value);
  byId("facts").replaceChildren(
    ...pairs.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value)),
    ),
  );
  showCurl();
}

export function setSentences(typed) {
  sentences = typed;
  showCurl();
}

function showCurl() {
  if (model === null || !byId("curl").open) return;
  const sent = sentences.length ? sentences.slice(0, MAX_SENTENCES) : ["Hello."];
  byId("curl-command").textContent = curlCommand(predictAddress(model.name), sent);
  byId("curl-note").textContent =
    sentences.length > MAX_SENTENCES
      ? `The first ${MAX_SENTENCES} of ${sentences.length} sentences.`
      : "For sh, bash and zsh.";
}
