/** Requested sentences, translated in small chunks, one chunk at a time. */

import { predict } from "./rest.js";

const FIRST_CHUNK = 4; // sentences, for an early result; each chunk is twice the one before
const MAX_CHUNK = 32;
const MAX_CHARACTERS = 20_000;
const MAX_CACHED = 5_000;

// By sentence: an unchanged one is never requested again, and a late reply never shows elsewhere.
const cache = new Map();
let model = null;
let requested = new Set();
let chunk = []; // sentences of the running request
let controller = null;
let start = 0; // time of the latest request, in ms
let count = 0; // sentences translated since then

/** Functions to call: progress(), error(error), done(sentences, ms). */
export const handlers = {};

/** Set the served model, and drop the predictions of another one. */
export function setModel(served) {
  model = served;
  cache.clear();
  controller?.abort();
}

/** Return a sentence's prediction, undefined while it is missing. */
export const get = (sentence) => cache.get(sentence);

/** Request sentences in order, in place of those requested before. */
export function request(sentences) {
  requested = new Set(sentences);
  start = performance.now();
  count = 0;
  for (const sentence of cache.keys()) {
    if (cache.size > MAX_CACHED && !requested.has(sentence)) cache.delete(sentence);
  }
  if (!controller) run();
  else if (!chunk.some((sentence) => requested.has(sentence))) controller.abort();
}

async function run() {
  for (let size = FIRST_CHUNK; (chunk = nextChunk(size)).length; ) {
    controller = new AbortController();
    const { signal } = controller;
    try {
      const predictions = await predict(model.name, "serving_default", chunk, signal);
      if (signal.aborted) continue;
      chunk.forEach((sentence, i) => cache.set(sentence, predictions[i]));
    } catch (error) {
      if (signal.aborted) continue;
      controller = null;
      return handlers.error(error);
    }
    count += chunk.length;
    size = Math.min(2 * size, MAX_CHUNK);
    handlers.progress();
  }
  controller = null;
  handlers.done(count, performance.now() - start);
}

function nextChunk(size) {
  const next = [];
  let characters = 0;
  for (const sentence of requested) {
    if (cache.has(sentence)) continue;
    characters += sentence.length;
    if (next.length === size || (next.length && characters > MAX_CHARACTERS)) break;
    next.push(sentence);
  }
  return next;
}
