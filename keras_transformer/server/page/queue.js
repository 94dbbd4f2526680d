/** Sentences that are wanted, in small requests, one at a time. */

const FIRST_CHUNK = 4; // something to see early; then twice as many each time
const LARGEST_CHUNK = 32;
const CHUNK_CHARACTERS = 20_000;
const KEPT_ANSWERS = 5_000;

/**
 * Answers are kept by sentence, so that an unchanged sentence is never asked for again and a
 * late answer can only ever appear beside the sentence it belongs to.
 */
export class Queue {
  #ask;
  #on;
  #answers = new Map();
  #wanted = new Set();
  #asked = [];
  #controller = null;
  #start = 0; // of the present wish, in ms, and what has been asked for since
  #count = 0;

  /**
   * @param {(texts: string[], signal: AbortSignal) => Promise<object[]>} ask
   * @param {{answers: () => void, error: (error: Error) => void,
   *   done: (sentences: number, milliseconds: number) => void}} on `done` follows only where
   *   every wanted sentence has its answer
   */
  constructor(ask, on) {
    this.#ask = ask;
    this.#on = on;
  }

  /** The answer for a sentence, if it is there. */
  answer(text) {
    return this.#answers.get(text);
  }

  /** Forgets every answer: they are another model's. */
  forget() {
    this.#answers.clear();
    this.#controller?.abort();
  }

  /** Says what is wanted from now on, in order; what was wanted before no longer is. */
  want(texts) {
    this.#wanted = new Set(texts);
    this.#start = performance.now();
    this.#count = 0;
    this.#prune();
    if (this.#controller === null) {
      this.#run();
    } else if (!this.#asked.some((text) => this.#wanted.has(text))) {
      this.#controller.abort();
    }
  }

  async #run() {
    let size = FIRST_CHUNK;
    for (let chunk = this.#next(size); chunk.length; chunk = this.#next(size)) {
      this.#controller = new AbortController();
      this.#asked = chunk;
      const { signal } = this.#controller;
      try {
        const answers = await this.#ask(chunk, signal);
        if (signal.aborted) continue;
        chunk.forEach((text, i) => this.#answers.set(text, answers[i]));
        this.#count += chunk.length;
        size = Math.min(2 * size, LARGEST_CHUNK);
        this.#on.answers();
      } catch (error) {
        if (signal.aborted) continue;
        this.#controller = null;
        this.#on.error(error);
        return;
      }
    }
    this.#controller = null;
    this.#on.done(this.#count, performance.now() - this.#start);
  }

  #next(size) {
    const chunk = [];
    let characters = 0;
    for (const text of this.#wanted) {
      if (this.#answers.has(text)) continue;
      characters += text.length;
      if (chunk.length === size || (chunk.length && characters > CHUNK_CHARACTERS)) break;
      chunk.push(text);
    }
    return chunk;
  }

  /** Lets go of the oldest answers, but of none that is wanted: it would be asked for anew. */
  #prune() {
    for (const text of this.#answers.keys()) {
      if (this.#answers.size <= KEPT_ANSWERS) return;
      if (!this.#wanted.has(text)) this.#answers.delete(text);
    }
  }
}
