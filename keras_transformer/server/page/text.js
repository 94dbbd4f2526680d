/** Text to sentences, each with its place in the text, and translations back to text. */

// After these a full stop does not end a sentence, whatever letter comes next.
const ABBREVIATIONS = new Set(
  ("mr mrs ms dr prof st sr jr mt vs no nr hr fr frl bzw ca evtl inkl usw mme mlle mgr " +
    "sra srta sig dott").split(" "),
);

// These write sentences one after another with no space between them.
const WITHOUT_SPACES = new Set(["zh", "ja", "yue"]);

/**
 * Splits text at line breaks and, within a line, into sentences.
 * @param {string} text
 * @param {string | undefined} language BCP 47 tag of the text
 * @returns {{text: string, sentences: {text: string, start: number, end: number}[],
 *   lines: number[][]}} sentences in order; for each line the numbers of its sentences,
 *   so that a blank line is an empty list. `text` is well-formed Unicode without margins.
 */
export function splitText(text, language) {
  const sentences = [];
  const lines = [];
  let offset = 0;
  for (const line of text.split("\n")) {
    const numbers = [];
    for (const [from, to] of sentenceSpans(line, language)) {
      const segment = line.slice(from, to);
      const body = segment.trim();
      if (!body) continue;
      const start = offset + from + segment.indexOf(body);
      numbers.push(sentences.length);
      sentences.push({ text: wellFormed(body), start, end: start + body.length });
    }
    lines.push(numbers);
    offset += line.length + 1;
  }
  return { text, sentences, lines };
}

/** The number of the sentence at a place in the text, or the last one before it; -1 if none. */
export function sentenceAt(document, place) {
  let found = document.sentences.length ? 0 : -1;
  for (let i = 0; i < document.sentences.length && document.sentences[i].start <= place; i += 1) {
    found = i;
  }
  return found;
}

/** What stands between two sentences of a language. */
export function joiner(language) {
  return WITHOUT_SPACES.has((language ?? "").split("-")[0].toLowerCase()) ? "" : " ";
}

/** Lone surrogates have no UTF-8 form, and JSON would carry them as escapes. */
function wellFormed(text) {
  return text.toWellFormed?.() ?? text.replace(/\p{Surrogate}/gu, "\ufffd");
}

function sentenceSpans(line, language) {
  const spans = [];
  let open = 0;
  for (const end of boundaries(line, language)) {
    if (end < line.length && endsInAbbreviation(line.slice(open, end))) continue;
    spans.push([open, end]);
    open = end;
  }
  return spans;
}

function* boundaries(line, language) {
  const segmenter = sentenceSegmenter(language);
  if (segmenter) {
    for (const { index, segment } of segmenter.segment(line)) yield index + segment.length;
    return;
  }
  const sentence =
    /.+?(?:[.!?…]+["'”’»)\]]*(?=\s|$)|[。！？]+["”’」』）]*|$)\s*/gsu;
  for (const match of line.matchAll(sentence)) yield match.index + match[0].length;
}

const segmenters = new Map();

function sentenceSegmenter(language) {
  if (!("Segmenter" in Intl)) return null;
  if (!segmenters.has(language)) {
    let made;
    try {
      made = new Intl.Segmenter(language, { granularity: "sentence" });
    } catch {
      made = new Intl.Segmenter(undefined, { granularity: "sentence" }); // not a language tag
    }
    segmenters.set(language, made);
  }
  return segmenters.get(language);
}

function endsInAbbreviation(text) {
  const word = /(?<![\p{L}\p{M}])(\p{L}+)\.\s*$/u.exec(text.slice(-40))?.[1];
  if (word === undefined) return false;
  // One letter is an initial (J. Smith, z. B.); the English "I" more often ends a sentence.
  return (word.length === 1 && word !== "I") || ABBREVIATIONS.has(word.toLowerCase());
}
