/** Requested sentences, translated in small chunks, one chunk at a time. */

const FIRST_CHUNK = 4; // sentences, for an early result; each chunk is twice the one before
const MAX_CHUNK = 32;
const MAX_CHARACTERS = 20_000;
const MAX_CACHED = 5_000;

/**
 * Translations are cached by sentence. An unchanged sentence is never requested again, and a late
 * reply only ever belongs to its own sentence.
 */
export class Queue {
  #translate;
  #on;
  #cache = new Map();
  #requested = new Set();
  #chunk = []; // on its way to the server
  #controller = null;
  #start = 0; // of the latest request, in ms
  #count = 0; // of sentences translated since

  /**
   * @param {(sentences: string[], signal: AbortSignal) => Promise<object[]>} translate
   * @param {{progress: () => void, error: (error: Error) => void,
   *   done: (sentences: number, ms: number) => void}} on
   */
  constructor(translate, on) {
    this.#translate = translate;
    this.#on = on;
  }

  /** Return a sentence's prediction, undefined while it is missing. */
  get(sentence) {
    return this.#cache.get(sentence);
  }

  clear() {
    this.#cache.clear();
    this.#controller?.abort();
  }

  /** Request sentences in order, instead of those requested before. */
  request(sentences) {
    this.#requested = new Set(sentences);
    this.#start = performance.now();
    this.#count = 0;
    for (const sentence of this.#cache.keys()) {
      if (this.#cache.size <= MAX_CACHED) break;
      if (!this.#requested.has(sentence)) this.#cache.delete(sentence);
    }
    if (!this.#controller) this.#run();
    else if (!this.#chunk.some((sentence) => this.#requested.has(sentence))) {
      this.#controller.abort();
    }
  }

  async #run() {
    for (let size = FIRST_CHUNK; (this.#chunk = this.#next(size)).length; ) {
      this.#controller = new AbortController();
      const { signal } = this.#controller;
      try {
        const predictions = await this.#translate(this.#chunk, signal);
        if (signal.aborted) continue;
        this.#chunk.forEach((sentence, i) => this.#cache.set(sentence, predictions[i]));
      } catch (error) {
        if (signal.aborted) continue;
        this.#controller = null;
        this.#on.error(error);
        return;
      }
      this.#count += this.#chunk.length;
      size = Math.min(2 * size, MAX_CHUNK);
      this.#on.progress();
    }
    this.#controller = null;
    this.#on.done(this.#count, performance.now() - this.#start);
  }

  #next(size) {
    const chunk = [];
    let characters = 0;
    for (const sentence of this.#requested) {
      if (this.#cache.has(sentence)) continue;
      characters += sentence.length;
      if (chunk.length === size || (chunk.length && characters > MAX_CHARACTERS)) break;
      chunk.push(sentence);
    }
    return chunk;
  }
}
