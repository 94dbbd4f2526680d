/** The best hypotheses of one sentence, with their differences from the first. */

import { element } from "./dom.js";
import { formatScore } from "./format.js";

const MIN_SCORE = -1e8; // missing hypotheses have -1e9
const MAX_WORDS = 400; // the comparison takes quadratic time

/** Return the drawing of a prediction {translations, scores}, best first. */
export function hypothesisList({ translations, scores }, languages) {
  const hypotheses = translations
    .map((text, i) => ({ words: splitWords(text), score: scores[i] }))
    .filter(({ score }) => score > MIN_SCORE);
  const items = hypotheses.map(({ words, score }) => {
    const common = commonWords(hypotheses[0].words, words);
    const same = (word, i) => common.has(i) || !word.trim();
    const nodes = words.map((word, i) => (same(word, i) ? word : element("em", {}, word)));
    const properties = { className: "hypothesis", dir: "auto", lang: languages.target };
    const text = element("span", properties, ...nodes);
    const hint = element("span", { className: "visually-hidden" }, " score ");
    const number = element("span", { className: "score" }, hint, formatScore(score));
    return element("li", {}, text, number);
  });
  return [element("ol", { className: "hypotheses" }, ...items)];
}

function splitWords(text) {
  if (!Intl.Segmenter) return text.split(/(\s+)/);
  const segments = new Intl.Segmenter("en", { granularity: "word" }).segment(text);
  return Array.from(segments, ({ segment }) => segment);
}

/** Return the indices in `words` of the longest common subsequence with `best`. */
function commonWords(best, words) {
  if (Math.max(best.length, words.length) > MAX_WORDS) return new Set(words.keys());
  // lengths[i][j]: length of the common subsequence of best[i:] and words[j:]
  const lengths = [...best, ""].map(() => new Uint16Array(words.length + 1));
  for (let i = best.length - 1; i >= 0; i -= 1) {
    for (let j = words.length - 1; j >= 0; j -= 1) {
      const skip = Math.max(lengths[i + 1][j], lengths[i][j + 1]);
      lengths[i][j] = best[i] === words[j] ? lengths[i + 1][j + 1] + 1 : skip;
    }
  }
  const common = new Set();
  for (let i = 0, j = 0; i < best.length && j < words.length; ) {
    if (best[i] === words[j]) {
      common.add(j);
      [i, j] = [i + 1, j + 1];
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return common;
}
