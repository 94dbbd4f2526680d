/** The details of one sentence: its hypotheses and its attention. */

import { attentionTable } from "./attention.js";
import { byId, element } from "./dom.js";
import { hypothesisList } from "./hypotheses.js";
import { errorMessage, predict } from "./rest.js";

const MAX_CACHED = 50; // predictions of each part
const SLOW_MS = 700; // until then the previous drawing stays, to avoid flicker

let parts = [];

/** Set the served model, and drop the predictions of another one. */
export function setModel(model) {
  for (const part of parts) part.cancel();
  parts = [
    createPart(byId("hypotheses"), model, "nbest", hypothesisList),
    createPart(byId("attention"), model, "align", attentionTable),
  ];
}

/** Show a sentence of a segmented source. */
export function show({ sentences }, sentence) {
  const { text } = sentences[sentence];
  const last = sentences.length - 1;
  byId("details-title").textContent = last ? `Sentence ${sentence + 1} of ${last + 1}` : "Sentence";
  byId("details-source").textContent = text;
  // Not `disabled`: a button that was just pressed would lose the focus.
  byId("previous").ariaDisabled = sentence === 0;
  byId("next").ariaDisabled = sentence === last;
  byId("details").hidden = false;
  for (const part of parts) part.show(text);
}

export function hide() {
  byId("details").hidden = true;
  for (const part of parts) part.cancel();
}

/** Create a part that draws the predictions of a model's signature in an element. */
function createPart(root, model, signature, draw) {
  const cache = new Map();
  let shown = null;
  let controller;

  function cancel() {
    controller?.abort();
    shown = null;
  }

  async function show(sentence) {
    if (sentence === shown) return;
    cancel();
    shown = sentence;
    controller = new AbortController();
    const { signal } = controller;
    root.classList.add("pending");
    const slow = setTimeout(() => root.replaceChildren("Working\u2026"), SLOW_MS);
    signal.addEventListener("abort", () => clearTimeout(slow));
    let drawing;
    try {
      if (!cache.has(sentence)) {
        const [prediction] = await predict(model.name, signature, [sentence], signal);
        if (signal.aborted) return;
        cache.set(sentence, prediction);
        if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value);
      }
      drawing = draw(cache.get(sentence), model.languages ?? {});
    } catch (error) {
      if (signal.aborted) return;
      shown = null;
      const button = { type: "button", className: "button", onclick: () => show(sentence) };
      drawing = [element("p", {}, errorMessage(error)), element("button", button, "Try again")];
    }
    clearTimeout(slow);
    root.replaceChildren(...drawing);
    root.classList.remove("pending");
  }

  return { show, cancel };
}
