/** The translation, sentence by sentence, in the lines of the source. */

import { element } from "./dom.js";

/** Fills an element with the translations of a document's sentences. */
export class Output {
  #root;
  #document = null;
  #spans = [];
  #answers = [];
  #joiner = " ";
  #chosen = -1;

  /**
   * @param {HTMLElement} root
   * @param {(sentence: number) => void} onChoose called when a sentence is pressed
   */
  constructor(root, onChoose) {
    this.#root = root;
    root.addEventListener("click", (event) => {
      const sentence = this.#spans.indexOf(event.target.closest(".sentence"));
      const marking = !getSelection().isCollapsed; // the end of marking text, not a press
      if (sentence >= 0 && !marking) onChoose(sentence);
    });
  }

  /** The document that is shown, null at first. */
  get document() {
    return this.#document;
  }

  /** How many sentences have their translation. */
  get answered() {
    return this.#answers.filter(Boolean).length;
  }

  get complete() {
    return this.answered === this.#spans.length;
  }

  /** The answers that were cut short, by number of the sentence. */
  get cut() {
    return this.#answers.flatMap((answer, i) => (answer?.truncated ? [i] : []));
  }

  /** The translation as text, blank lines included; what is not yet there is left out. */
  get text() {
    return this.#document.lines
      .map((line) =>
        line
          .filter((i) => this.#answers[i])
          .map((i) => this.#answers[i].translation)
          .join(this.#joiner),
      )
      .join("\n");
  }

  /**
   * Shows another document. Where a sentence's translation is not there yet, the one that
   * stood in its place stays, faintly.
   * @param {object} document from splitText
   * @param {string} joiner what stands between sentences
   */
  show(document, joiner) {
    const standIns = this.#standIns(document);
    this.#spans = document.sentences.map((_, i) => {
      const span = element("span", "sentence waiting");
      span.textContent = standIns[i];
      return span;
    });
    this.#document = document;
    this.#joiner = joiner;
    this.#answers = document.sentences.map(() => undefined);
    this.#chosen = -1;
    const lines = document.sentences.length ? document.lines : [];
    this.#root.replaceChildren(...lines.map((line) => this.#paragraph(line)));
  }

  /** Puts in the answers that have come. */
  fill(answerOf) {
    this.#document.sentences.forEach(({ text }, i) => {
      const answer = this.#answers[i] ?? answerOf(text);
      if (!answer || this.#answers[i]) return;
      this.#answers[i] = answer;
      this.#spans[i].textContent = answer.translation;
      this.#spans[i].className = answer.truncated ? "sentence cut" : "sentence";
      if (i === this.#chosen) this.choose(i);
    });
  }

  /** Takes away what stands in for translations that will not come. */
  giveUp() {
    this.#spans.forEach((span, i) => {
      if (!this.#answers[i]) span.textContent = "";
    });
  }

  /** Marks a sentence as the one looked at. */
  choose(sentence) {
    const before = this.#spans[this.#chosen];
    before?.classList.remove("chosen");
    before?.removeAttribute("aria-current");
    this.#chosen = sentence;
    if (this.#spans.length < 2) return;
    this.#spans[sentence]?.classList.add("chosen");
    this.#spans[sentence]?.setAttribute("aria-current", "true");
  }

  /** Brings a sentence into view, within the translation only. */
  reveal(sentence) {
    const span = this.#spans[sentence];
    if (!span) return;
    const frame = this.#root.getBoundingClientRect();
    const place = span.getBoundingClientRect();
    if (place.top < frame.top || place.bottom > frame.bottom) {
      this.#root.scrollTop += place.top - frame.top - frame.height / 3;
    }
  }

  #paragraph(line) {
    const paragraph = element("p");
    paragraph.dir = "auto";
    line.forEach((i, n) => {
      if (n) paragraph.append(this.#joiner);
      paragraph.append(this.#spans[i]);
    });
    return paragraph;
  }

  /** What to show in each place meanwhile: sentences before and after a change keep theirs. */
  #standIns(document) {
    const now = document.sentences;
    const before = this.#document?.sentences ?? [];
    const shorter = Math.min(now.length, before.length);
    let head = 0;
    while (head < shorter && now[head].text === before[head].text) head += 1;
    const grown = now.length - before.length;
    return now.map((_, i) => {
      // Up to the change count from the start, beyond it from the end.
      const old = i <= head ? i : i - grown;
      return old >= head || i < head ? (this.#spans[old]?.textContent ?? "") : "";
    });
  }
}
