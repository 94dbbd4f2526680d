/** One sentence looked at closely: its alternatives and its attention. */

import { showAlternatives } from "./alternatives.js";
import { element, setLanguage } from "./dom.js";
import { showHeatmap } from "./heatmap.js";
import { inWords } from "./rest.js";

const KEPT_ANSWERS = 50;
const SLOW_MS = 700; // until then what is drawn of the sentence before spares the eye a flicker

/** The section below the translation. */
export class Closer {
  #root;
  #languages = {};
  #parts;

  /**
   * @param {HTMLElement} root
   * @param {(signature: string, text: string, signal: AbortSignal) => Promise<object>} ask
   */
  constructor(root, ask) {
    this.#root = root;
    const part = (id, signature, show) =>
      new Part(
        root.querySelector(id),
        (text, signal) => ask(signature, text, signal),
        (target, answer) => show(target, answer, this.#languages),
      );
    this.#parts = [
      part("#alternatives", "nbest", showAlternatives),
      part("#attention", "align", showHeatmap),
    ];
  }

  /** @param {{source?: string, target?: string}} languages */
  set languages(languages) {
    this.#languages = languages;
    setLanguage(this.#root.querySelector("#closer-source"), languages.source);
  }

  /** Looks at a sentence of a document. */
  show(document, sentence) {
    const count = document.sentences.length;
    const { text } = document.sentences[sentence];
    const find = (id) => this.#root.querySelector(id);
    find("#closer-title").textContent =
      count > 1 ? `Sentence ${sentence + 1} of ${count}` : "The sentence";
    find("#closer-source").textContent = text;
    // Not `disabled`: that would take the keyboard's place away from whoever pressed it last.
    find("#before").setAttribute("aria-disabled", sentence === 0);
    find("#after").setAttribute("aria-disabled", sentence === count - 1);
    this.#root.hidden = false;
    for (const part of this.#parts) part.look(text);
  }

  /** Shows nothing. */
  hide() {
    this.#root.hidden = true;
    for (const part of this.#parts) part.leave();
  }

  /** Forgets every answer: they are another model's. */
  forget() {
    for (const part of this.#parts) part.forget();
  }
}

/** A place for one signature's answer on one sentence. */
class Part {
  #root;
  #ask;
  #draw;
  #text = null;
  #controller = null;
  #answers = new Map();

  constructor(root, ask, draw) {
    this.#root = root;
    this.#ask = ask;
    this.#draw = draw;
  }

  /** What is drawn stays, faintly, until the answer for the text is there, or is slow. */
  async look(text) {
    if (text === this.#text) return;
    this.leave();
    this.#text = text;
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    this.#root.classList.add("waiting");
    const slow = setTimeout(() => {
      if (!signal.aborted) this.#root.replaceChildren(element("p", "", "Working\u2026"));
    }, SLOW_MS);
    try {
      const answer = this.#answers.get(text) ?? (await this.#ask(text, signal));
      if (signal.aborted) return;
      this.#keep(text, answer);
      this.#draw(this.#root, answer);
    } catch (error) {
      if (signal.aborted) return;
      this.#fail(error, text);
    } finally {
      clearTimeout(slow);
    }
    this.#root.classList.remove("waiting");
  }

  leave() {
    this.#controller?.abort();
    this.#text = null;
  }

  forget() {
    this.#answers.clear();
    this.leave();
  }

  #keep(text, answer) {
    this.#answers.set(text, answer);
    if (this.#answers.size > KEPT_ANSWERS) {
      this.#answers.delete(this.#answers.keys().next().value);
    }
  }

  #fail(error, text) {
    this.#text = null;
    const again = element("button", "button", "Try again");
    again.type = "button";
    again.addEventListener("click", () => this.look(text));
    this.#root.replaceChildren(element("p", "", inWords(error)), again);
  }
}
