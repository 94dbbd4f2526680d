/** The request as a shell command. */

const MAX_ARGUMENT_BYTES = 100_000; // Linux accepts less than 128 KiB

// Invisible characters, and those that a terminal might act on: written as JSON escapes.
const UNSAFE = /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Return a curl command for sh, bash and zsh; they expand nothing in it. */
export function curlCommand(address, sentences) {
  const body = JSON.stringify({ instances: sentences }).replace(
    UNSAFE,
    (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"),
  );
  if (new TextEncoder().encode(body).length <= MAX_ARGUMENT_BYTES) {
    return `curl --data ${quote(body)} ${quote(address)}`;
  }
  // JSON has no line breaks of its own, so no text can end the here-document.
  return `curl --data-binary @- ${quote(address)} <<'END'\n${body}\nEND`;
}

/** Quote a word for a POSIX shell: in single quotes only the single quote is special. */
function quote(word) {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
