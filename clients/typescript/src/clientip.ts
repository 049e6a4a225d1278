/** An address: its bits, those of IPv4 as ::ffff:0:0/96, and how it is spelled. */
interface Address {
  bits: bigint;
  text: string;
}

/** More entries of a chain are not read. */
const maxEntries = 32;

const octet = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const ipv4 = new RegExp(`^(${octet}(?:\\.${octet}){3})(?::\\d{1,5})?$`);
const ipv6 = /^(?:\[([\da-f:.]+)(?:%[^\]]+)?\](?::\d{1,5})?|([\da-f.]*:[\da-f.]*:[\da-f:.]*)(?:%.+)?)$/i;

/** Reads an address without its port and zone. Spellings that programs read differently are none: octal, hexadecimal and shortened IPv4. */
function address(text: string): Address | undefined {
  if (text.length > 128) return undefined;
  const four = ipv4.exec(text)?.[1];
  const [, inside, bare] = ipv6.exec(text) ?? [];
  const host = four === undefined ? inside ?? bare : `::ffff:${four}`;
  if (host === undefined) return undefined;
  let spelled: string;
  try {
    spelled = new URL(`http://[${host}]`).hostname.slice(1, -1); // in hexadecimal groups, shortened
  } catch {
    return undefined;
  }
  const [head, tail] = spelled.split("::").map((part) => (part === "" ? [] : part.split(":")));
  const zeros = tail === undefined ? [] : Array<string>(8 - head!.length - tail.length).fill("0");
  const bits = BigInt(`0x${[...head!, ...zeros, ...(tail ?? [])].map((group) => group.padStart(4, "0")).join("")}`);
  if (bits === 0n || bits === 0xffff_0000_0000n) return undefined; // :: and 0.0.0.0 are no hosts
  return { bits, text: four ?? spelled };
}

/** Reads an address or a network, as its first bits and how many follow. The widest are those of one owner, as for the middleware for Go. */
function network(text: string): [first: bigint, rest: bigint] {
  const [, host, length] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const base = host === undefined || /[[\]%]/.test(host) ? undefined : address(host);
  const [bits, widest] = host?.includes(":") ? [128, 7] : [32, 8];
  const prefix = Number(length ?? bits);
  const rest = BigInt(bits - Math.min(prefix, bits));
  if (base === undefined || prefix < widest || prefix > bits || (base.bits >> rest) << rest !== base.bits) {
    throw new TypeError("trustedProxies must be addresses, or networks of at least /8 (IPv6: /7), such as 10.1.0.0/16");
  }
  return [base.bits >> rest, rest];
}

/**
 * The client behind trusted proxies: the chain of X-Forwarded-For is read from the right, which the nearest proxy wrote, to the first
 * address that is not trusted. An entry that is no address ends it at the proxy that wrote the entry.
 */
export function clientBehind(proxies: readonly string[]): (peer: string | undefined, lines: readonly string[]) => string | undefined {
  const networks = proxies.map(network);
  const trusted = ({ bits }: Address) => networks.some(([first, rest]) => bits >> rest === first);
  return (peer, lines) => {
    let client = address(peer ?? "");
    if (client === undefined) return peer;
    const entries = lines.join().split(",").slice(-maxEntries);
    while (lines.length > 0 && entries.length > 0 && trusted(client)) {
      const before = address(entries.pop()!.trim());
      if (before === undefined) break;
      client = before;
    }
    return client.text;
  };
}
