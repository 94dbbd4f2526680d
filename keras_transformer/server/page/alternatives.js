/** The best translations of one sentence, with what sets each apart from the first. */

import { element, setLanguage } from "./dom.js";
import { formatScore } from "./words.js";

const NO_SCORE = -1e8; // where fewer exist than were asked for, the server scores -1e9
const LONGEST_COMPARED = 400; // words; the comparison takes the square of it

/**
 * @param {HTMLElement} root
 * @param {{translations: string[], scores: number[]}} answer best first
 * @param {{target?: string}} languages
 */
export function showAlternatives(root, answer, languages) {
  const found = answer.translations
    .map((text, i) => ({ text, score: answer.scores[i] }))
    .filter(({ score }) => score > NO_SCORE);
  const list = element("ol", "alternatives");
  const best = words(found[0]?.text ?? "", languages.target);
  for (const { text, score } of found) {
    const item = element("li");
    const line = element("span", "alternative");
    line.dir = "auto";
    setLanguage(line, languages.target);
    line.append(...marked(best, words(text, languages.target)));
    const number = element("span", "score", formatScore(score));
    number.prepend(element("span", "unseen", " score "));
    item.append(line, number);
    list.append(item);
  }
  const note = element("p", "quiet");
  note.textContent =
    "Score: log-probability over the length penalty; the nearer to zero, the better. " +
    "Underlined: where it differs from the first.";
  root.replaceChildren(list, note);
}

function words(text, language) {
  if ("Segmenter" in Intl) {
    try {
      const segmenter = new Intl.Segmenter(language, { granularity: "word" });
      return Array.from(segmenter.segment(text), ({ segment }) => segment);
    } catch {
      // not a language tag: as below
    }
  }
  return text.split(/(\s+)/).filter(Boolean);
}

/** The words of a text as nodes, in <em> where the best one lacks them. */
function marked(best, text) {
  const shared = commonPlaces(best, text);
  const nodes = [];
  text.forEach((word, i) => {
    const different = !shared.has(i) && word.trim() !== "";
    nodes.push(different ? element("em", "", word) : document.createTextNode(word));
  });
  return nodes;
}

/** Places in `text` that belong to the longest common subsequence with `best`. */
function commonPlaces(best, text) {
  const all = new Set(text.keys());
  if (Math.max(best.length, text.length) > LONGEST_COMPARED) return all;
  const width = text.length + 1;
  const length = new Uint16Array((best.length + 1) * width); // of what follows i and j
  for (let i = best.length - 1; i >= 0; i -= 1) {
    for (let j = text.length - 1; j >= 0; j -= 1) {
      length[i * width + j] =
        best[i] === text[j]
          ? length[(i + 1) * width + j + 1] + 1
          : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  const places = new Set();
  for (let i = 0, j = 0; i < best.length && j < text.length; ) {
    if (best[i] === text[j]) {
      places.add(j);
      i += 1;
      j += 1;
    } else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) {
      i += 1;
    } else {
      j += 1;
    }
  }
  return places;
}
