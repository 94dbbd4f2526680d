/** The details of one sentence: its hypotheses and its attention. */

import { attentionTable } from "./attention.js";
import { byId, element } from "./dom.js";
import { hypothesisList } from "./hypotheses.js";
import { errorMessage, predict } from "./rest.js";

const MAX_CACHED = 50;
const SLOW_MS = 700; // until then the drawing of the sentence before prevents a flicker

/** The drawing of one signature's prediction. */
class Part {
  #root;
  #signature;
  #draw;
  #sentence = null;
  #controller;
  #cache = new Map();

  constructor(id, signature, draw) {
    this.#root = byId(id);
    this.#signature = signature;
    this.#draw = draw;
  }

  async show(sentence) {
    if (sentence === this.#sentence) return;
    this.cancel();
    this.#sentence = sentence;
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    this.#root.classList.add("pending");
    const slow = setTimeout(() => {
      if (!signal.aborted) this.#root.replaceChildren("Working\u2026");
    }, SLOW_MS);
    try {
      const prediction = this.#cache.get(sentence) ?? (await this.#predict(sentence, signal));
      if (signal.aborted) return;
      this.#root.replaceChildren(...this.#draw(prediction, model.languages ?? {}));
    } catch (error) {
      if (signal.aborted) return;
      this.#sentence = null;
      const retry = element("button", { type: "button", className: "button" }, "Try again");
      retry.addEventListener("click", () => this.show(sentence));
      this.#root.replaceChildren(element("p", {}, errorMessage(error)), retry);
    } finally {
      clearTimeout(slow);
    }
    this.#root.classList.remove("pending");
  }

  async #predict(sentence, signal) {
    const [prediction] = await predict(model.name, this.#signature, [sentence], signal);
    if (signal.aborted) return undefined; // perhaps another model's
    this.#cache.set(sentence, prediction);
    if (this.#cache.size > MAX_CACHED) this.#cache.delete(this.#cache.keys().next().value);
    return prediction;
  }

  cancel() {
    this.#controller?.abort();
    this.#sentence = null;
  }

  clear() {
    this.#cache.clear();
    this.cancel();
  }
}

let model;
const parts = [
  new Part("hypotheses", "nbest", hypothesisList),
  new Part("attention", "align", attentionTable),
];

/** Forget what another model has predicted. */
export function setModel(served) {
  model = served;
  for (const part of parts) part.clear();
}

/** Show a sentence of a segmented source. */
export function show({ sentences }, sentence) {
  const last = sentences.length - 1;
  byId("details-title").textContent = last ? `Sentence ${sentence + 1} of ${last + 1}` : "Sentence";
  byId("details-source").textContent = sentences[sentence].text;
  // Not `disabled`: a button that was just pressed would lose the focus.
  byId("previous").ariaDisabled = sentence === 0;
  byId("next").ariaDisabled = sentence === last;
  byId("details").hidden = false;
  for (const part of parts) part.show(sentences[sentence].text);
}

export function hide() {
  byId("details").hidden = true;
  for (const part of parts) part.cancel();
}
