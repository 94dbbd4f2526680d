/** Numbers and names for display. */

/** Return "1 sentence" or "1,530 sentences". */
export const formatCount = (count, noun) =>
  `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** Return "84 ms" or "2.4 s". */
export const formatDuration = (ms) =>
  ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;

/** Return a language's English name, or its tag if it has none. */
export function languageName(tag) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(tag);
  } catch {
    return tag; // not a language tag
  }
}

/** Return a score with a true minus sign. */
export const formatScore = (score) => score.toFixed(2).replace("-", "\u2212");
