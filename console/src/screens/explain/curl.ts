import { words } from "./shell";

// CurlRequest is what a curl command says of the request. The command is read, never
// executed.
export interface CurlRequest {
  method: string;
  path: string;
  host: string;
  headers: [name: string, value: string][];
  // notes say what of the command was left out, and why.
  notes: string[];
}

// Options that take a value and change nothing that rules see.
const ignoredWithValue = new Set(
  ("-o --output -m --max-time --connect-timeout --retry --retry-delay --retry-max-time -w --write-out -x --proxy --noproxy --cacert --capath -E --cert --cert-type " +
    "--key --key-type --resolve --connect-to --interface -c --cookie-jar -D --dump-header --limit-rate --ciphers --tls-max -K --config --max-redirs --unix-socket --dns-servers -y --speed-time -Y --speed-limit").split(" "),
);
const ignored = new Set(
  ("-s --silent -S --show-error -k --insecure -L --location -v --verbose -i --include -f --fail --fail-with-body -N --no-buffer --compressed --http1.0 -0 --http1.1 --http2 " +
    "--http2-prior-knowledge --http3 -4 --ipv4 -6 --ipv6 -O --remote-name -J --remote-header-name -g --globoff -# --progress-bar --no-progress-meter -q --disable --path-as-is --tcp-nodelay " +
    "--tlsv1.2 --tlsv1.3 --raw -Z --parallel --retry-connrefused --retry-all-errors --no-keepalive -n --netrc").split(" "),
);
const body = new Set("-d --data --data-raw --data-binary --data-ascii --data-urlencode --json -F --form --form-string".split(" "));
const secret = new Set(["authorization", "proxy-authorization", "cookie"]);
const noSecrets = "FluxGate needs no credentials here. Fill in the user or the API key instead.";

// State is what was read of the command so far.
interface State {
  method?: string;
  urls: string[];
  headers: [string, string][];
  sends?: "body" | "query" | "upload" | "nothing";
  hasBody: boolean;
  notes: string[];
}

// parseCurl reads a curl command, or throws what is wrong with it.
export function parseCurl(command: string): CurlRequest {
  const args = words(command.trim().replace(/^\$\s+/, ""));
  if (!/(^|[\\/])curl(\.exe)?$/.test(args.shift() ?? "")) throw new Error("The command must begin with curl.");
  const state: State = { urls: [], headers: [], hasBody: false, notes: [] };
  while (args.length > 0) {
    const arg = args.shift()!;
    if (/^(\||\|\||&&|;|&|>|>>|<)$/.test(arg)) {
      state.notes.push(`What follows ${arg} was left out.`);
      break;
    }
    if (arg === "--url") state.urls.push(value(arg, args));
    else if (arg.startsWith("--")) option(state, arg, () => value(arg, args));
    else if (arg.startsWith("-") && arg.length > 1) shortOptions(state, arg, args);
    else state.urls.push(arg);
  }
  return requestOf(state);
}

function value(option: string, args: string[]): string {
  const found = args.shift();
  if (found === undefined) throw new Error(`${option} needs a value.`);
  return found;
}

// shortOptions reads options such as -sSL, -XPOST and -H: the rest of the argument is
// the value of the first option that takes one.
function shortOptions(state: State, arg: string, args: string[]): void {
  for (let i = 1; i < arg.length; i++) {
    let taken = false;
    option(state, "-" + arg[i]!, () => {
      taken = true;
      return i + 1 < arg.length ? arg.slice(i + 1) : value("-" + arg[i]!, args);
    });
    if (taken) return;
  }
}

function option(state: State, name: string, take: () => string): void {
  if (ignored.has(name)) return;
  if (ignoredWithValue.has(name)) return void take();
  if (body.has(name)) {
    state.hasBody = true;
    take();
    if (name === "--json") state.headers.push(["Content-Type", "application/json"]);
    return;
  }
  switch (name) {
    case "-X":
    case "--request":
      state.method = take();
      return;
    case "-H":
    case "--header":
      return header(state, take());
    case "-A":
    case "--user-agent":
      return header(state, "User-Agent: " + take());
    case "-e":
    case "--referer":
      return header(state, "Referer: " + take());
    case "-I":
    case "--head":
      state.sends = "nothing";
      return;
    case "-G":
    case "--get":
      state.sends = "query";
      return;
    case "-T":
    case "--upload-file":
      take();
      state.sends = "upload";
      return;
    case "-b":
    case "--cookie":
    case "-u":
    case "--user":
    case "--oauth2-bearer":
    case "--proxy-user":
    case "-U":
      take();
      state.notes.push(`${name} was left out. ${noSecrets}`);
      return;
  }
  state.notes.push(`${name} is not known and was left out. If it takes a value, check the path.`);
}

function header(state: State, line: string): void {
  const colon = line.indexOf(":");
  if (colon < 1) {
    state.notes.push(line.endsWith(";") ? `The empty header ${line.slice(0, -1)} was left out.` : `The header "${line}" has no colon and was left out.`);
    return;
  }
  const name = line.slice(0, colon).trim();
  const text = line.slice(colon + 1).trim();
  if (secret.has(name.toLowerCase())) state.notes.push(`The header ${name} was left out. ${noSecrets}`);
  else if (text === "") state.notes.push(`The header ${name} is not sent by curl and was left out.`);
  else state.headers.push([name, text]);
}

function requestOf(state: State): CurlRequest {
  if (state.urls.length === 0) throw new Error("The command has no URL.");
  const notes = state.notes;
  if (state.urls.length > 1) notes.push(`The command has ${state.urls.length} URLs. Only the first is explained.`);
  const url = /^(?:([A-Za-z][A-Za-z0-9+.-]*):\/\/)?([^/?#]*)([^?#]*)/.exec(state.urls[0]!)!;
  const scheme = url[1]?.toLowerCase() ?? "http";
  if (scheme !== "http" && scheme !== "https") throw new Error(`The URL must be of http or https, not ${scheme}.`);
  let host = url[2]!;
  const at = host.lastIndexOf("@");
  if (at >= 0) {
    host = host.slice(at + 1);
    notes.push(`The credentials in the URL were left out. ${noSecrets}`);
  }
  const headers = state.headers.filter(([name]) => name.toLowerCase() !== "host");
  const named = state.headers.find(([name]) => name.toLowerCase() === "host");
  if (state.hasBody) notes.push("The body was left out: rules do not look at it.");
  return { method: state.method ?? methodOf(state), path: url[3] || "/", host: named?.[1] ?? host, headers, notes };
}

function methodOf(state: State): string {
  if (state.sends === "nothing") return "HEAD";
  if (state.sends === "upload") return "PUT";
  return state.hasBody && state.sends !== "query" ? "POST" : "GET";
}
