/** Numbers and names in words. */

/** "1 sentence", "1,530 sentences". */
export function amount(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** "84 ms", "2.4 s". */
export function duration(milliseconds) {
  return milliseconds < 1000
    ? `${Math.round(milliseconds)} ms`
    : `${(milliseconds / 1000).toFixed(1)} s`;
}

/** The English name of a language, its tag where it has none. */
export function languageName(tag) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(tag) ?? tag;
  } catch {
    return tag; // not a language tag
  }
}

/** A score with a true minus sign. */
export function formatScore(score) {
  return score.toFixed(2).replace("-", "\u2212");
}
