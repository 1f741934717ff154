// Owns quoting a word for bash and zsh, so that a command can be copied whatever a file is called.
// Does not: let a control or direction-changing character into the result; it is spelled as an escape.

const kPlain = /^[A-Za-z0-9_./:@%+,=-]+$/;
const kHidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

function escape(character: string): string {
  if (character === "\\" || character === "'") return `\\${character}`;
  if (!kHidden.test(character)) return character;
  const code = (character.codePointAt(0) ?? 0).toString(16);
  return code.length <= 2 && parseInt(code, 16) < 128
    ? `\\x${code.padStart(2, "0")}`
    : code.length <= 4
      ? `\\u${code.padStart(4, "0")}`
      : `\\U${code.padStart(8, "0")}`;
}

// Null if the name has bytes that are not text, which are lost in the page.
export function shellQuote(word: string): string | null {
  if (/[\0\ufffd\p{Cs}]/u.test(word)) return null;
  const safe = word.startsWith("-") ? `./${word}` : word; // not an option
  if (kPlain.test(safe)) return safe;
  if (kHidden.test(safe)) return `$'${Array.from(safe, escape).join("")}'`;
  return `'${safe.replaceAll("'", "'\\''")}'`;
}
