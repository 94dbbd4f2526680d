/** The request as a command for a shell. */

// Linux takes no single argument of 128 KiB or more.
const LONGEST_ARGUMENT = 100_000;

// Characters that a terminal might act on, or that nobody sees: written as JSON escapes.
const UNSEEN = /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/**
 * A curl command that sends sentences to be translated.
 * @param {string} address of the model's predict method
 * @param {string[]} texts any text at all
 * @returns {string} for sh, bash and zsh. Nothing in it is expanded by them.
 */
export function curlCommand(address, texts) {
  const body = JSON.stringify({ instances: texts }).replace(
    UNSEEN,
    (sign) => "\\u" + sign.charCodeAt(0).toString(16).padStart(4, "0"),
  );
  if (new TextEncoder().encode(body).length <= LONGEST_ARGUMENT) {
    return `curl --data ${quoted(body)} ${quoted(address)}`;
  }
  // JSON has no line breaks of its own, so that no text can close the here-document.
  return `curl --data-binary @- ${quoted(address)} <<'END'\n${body}\nEND`;
}

/** One word for a POSIX shell: in single quotes only the single quote needs care. */
function quoted(word) {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
