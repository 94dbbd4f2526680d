/** Sentence segmentation. */

const TERMINAL = String.raw`[\p{Sentence_Terminal}…]`;
const CLOSING = String.raw`["'\p{Pe}\p{Pf}\p{Pi}]*`; // quotation marks and brackets

// Sentences end before a space, or before Chinese and Japanese characters, which need none. A full
// stop before a lower-case letter does not end a sentence.
const SENTENCE = new RegExp(
  String.raw`.+?(?:[。！？｡]+${CLOSING}` +
    String.raw`|(?<!${TERMINAL})${TERMINAL}+${CLOSING}(?=\s|$|[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}])` +
    String.raw`(?!(?<=[.…]${CLOSING})\s+\p{P}*\p{Ll})|$)\s*`,
  "gsu",
);

// A full stop after these does not end a sentence. A single letter is an initial (J. Smith, z. B.),
// except for the English "I", which more often ends a sentence.
const ABBREVIATION = new RegExp(
  String.raw`(?<![\p{L}\p{M}])((?!i)\p{L}|mr|mrs|ms|dr|prof|st|sr|jr|mt|vs|no|nr|hr|fr|frl|bzw|ca` +
    String.raw`|evtl|inkl|usw|mme|mlle|mgr|sra|srta|sig|dott)\.\s*$`,
  "iu",
);

const WITHOUT_SPACES = new Set(["zh", "ja", "yue"]); // between sentences

/**
 * Split text at line breaks and, within a line, into sentences.
 * @returns {{text: string, sentences: {text: string, start: number, end: number}[],
 *   lines: number[][]}} sentences as well-formed Unicode, and the numbers of each line's sentences
 */
export function segment(text) {
  const sentences = [];
  const lines = [];
  let offset = 0;
  for (const line of text.split("\n")) {
    const first = sentences.length;
    for (const span of splitLine(line)) {
      const body = span.text.trim();
      const start = offset + span.start + span.text.indexOf(body);
      // A lone surrogate has no UTF-8 form.
      if (body) sentences.push({ text: body.toWellFormed(), start, end: start + body.length });
    }
    lines.push(sentences.slice(first).map((_, i) => first + i));
    offset += line.length + 1;
  }
  return { text, sentences, lines };
}

function splitLine(line) {
  const spans = [];
  let start = 0;
  for (const { index, 0: match } of line.matchAll(SENTENCE)) {
    const end = index + match.length;
    const text = line.slice(start, end);
    if (end < line.length && ABBREVIATION.test(text.slice(-40))) continue;
    spans.push({ text, start });
    start = end;
  }
  return spans;
}

/** Return the number of the sentence at a position, or the one before it; -1 if there is none. */
export function sentenceAt({ sentences }, position) {
  const last = sentences.findLastIndex(({ start }) => start <= position);
  return Math.max(last, Math.min(0, sentences.length - 1));
}

/** Return the space between two sentences of a language. */
export const sentenceSpace = (language = "") =>
  WITHOUT_SPACES.has(language.split("-")[0].toLowerCase()) ? "" : " ";
