// Identity is a caller as the fields of a request. The API writes it in words, such
// as "user alice" or "ip 192.0.2.1, path /api/orders".
export interface Identity {
  userId?: string;
  ip?: string;
  method?: string;
  path?: string;
}

const fields: Record<string, keyof Identity> = { user: "userId", ip: "ip", method: "method", path: "path" };

// parseIdentity returns the fields of an identity, or undefined if it has a part that
// is no field, was cut, has characters that were replaced, or is in quotes, because it
// could be read in two ways: a user id may have a comma.
export function parseIdentity(text: string | undefined): Identity | undefined {
  if (!text || text === "everyone" || text === "anonymous" || text.endsWith("…") || text.includes("\ufffd")) return undefined;
  const found: Identity = {};
  for (const part of text.split(", ")) {
    const space = part.indexOf(" ");
    const name = fields[part.slice(0, space)];
    const value = part.slice(space + 1);
    if (space < 1 || !name || found[name] !== undefined || value.startsWith('"')) return undefined;
    found[name] = value;
  }
  return found;
}
