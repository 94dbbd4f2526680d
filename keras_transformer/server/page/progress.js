/** The line under the translation: how far it is, then how long it took. */

const SLOW_MS = 400; // what takes less needs no sign that it is being done
const MANY = 8; // sentences, from which on a bar is worth its place

export class Progress {
  #line;
  #bar;
  #timer = null;
  #slow = false;
  #state = { done: 0, total: 0 };

  /**
   * @param {HTMLElement} line
   * @param {HTMLProgressElement} bar
   */
  constructor(line, bar) {
    this.#line = line;
    this.#bar = bar;
  }

  begin() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#slow = true;
      this.#draw();
    }, SLOW_MS);
  }

  advance(done, total) {
    this.#state = { done, total };
    if (this.#slow) this.#draw();
  }

  /** Ends with some words, which may be none. */
  end(words) {
    clearTimeout(this.#timer);
    this.#slow = false;
    this.#bar.hidden = true;
    this.#line.textContent = words;
  }

  #draw() {
    const { done, total } = this.#state;
    this.#bar.hidden = total < MANY;
    this.#bar.max = total;
    this.#bar.value = done;
    this.#line.textContent =
      total < MANY ? "Translating\u2026" : `Translating: ${done} of ${total} sentences`;
  }
}
