// words splits a command as a POSIX shell does, without expanding anything: quotes,
// backslashes and $'…' are known; variables and substitutions stay as they are.
export function words(command: string): string[] {
  const found: string[] = [];
  let word: string | undefined;
  for (let i = 0; i < command.length; ) {
    const c = command[i]!;
    if (/\s/.test(c)) {
      if (word !== undefined) found.push(word);
      word = undefined;
      i++;
      continue;
    }
    const [text, end] = piece(command, i);
    i = end;
    if (text !== undefined) word = (word ?? "") + text;
  }
  if (word !== undefined) found.push(word);
  return found;
}

// piece reads one quoted part or one character, and says where it ends. A backslash
// before a line break is nothing.
function piece(command: string, at: number): [string | undefined, number] {
  const c = command[at]!;
  if (c === "\\") return command.startsWith("\\\r\n", at) ? [undefined, at + 3] : [command[at + 1] === "\n" ? undefined : (command[at + 1] ?? ""), at + 2];
  if (c === "'") return single(command, at + 1);
  if (c === '"') return double(command, at + 1);
  if (c === "$" && command[at + 1] === "'") return ansi(command, at + 2);
  return [c, at + 1];
}

function single(command: string, from: number): [string, number] {
  const end = command.indexOf("'", from);
  if (end < 0) throw new Error("A quote ' is not closed.");
  return [command.slice(from, end), end + 1];
}

function double(command: string, from: number): [string, number] {
  let text = "";
  for (let i = from; i < command.length; i++) {
    const c = command[i]!;
    if (c === '"') return [text, i + 1];
    if (c === "\\" && '"\\$`\n'.includes(command[i + 1] ?? " ")) {
      i++;
      if (command[i] !== "\n") text += command[i];
    } else text += c;
  }
  throw new Error('A quote " is not closed.');
}

const escapes: Record<string, string> = { n: "\n", r: "\r", t: "\t", "0": "\0" };

// ansi reads $'…', which browsers use when they copy a request as curl.
function ansi(command: string, from: number): [string, number] {
  let text = "";
  for (let i = from; i < command.length; i++) {
    const c = command[i]!;
    if (c === "'") return [text, i + 1];
    if (c !== "\\") {
      text += c;
      continue;
    }
    const code = /^(?:u([0-9a-fA-F]{1,4})|x([0-9a-fA-F]{1,2}))/.exec(command.slice(i + 1, i + 6));
    if (code) {
      text += String.fromCharCode(parseInt(code[1] ?? code[2]!, 16));
      i += code[0].length;
    } else {
      const next = command[++i] ?? "";
      text += escapes[next] ?? next;
    }
  }
  throw new Error("A quote $' is not closed.");
}
