import { count } from "./format";

// Amounts of what rules count, as people write and read them. Rules have money in millionths, and
// a measure that is named like a currency is money: see internal/amount.

const currencies = new Set(Intl.supportedValuesOf("currency"));
const places = 6;

export function currencyOf(measure: string | undefined): string | undefined {
  const code = measure?.toUpperCase();
  return code !== undefined && currencies.has(code) ? code : undefined;
}

function decimalsOf(currency: string): number {
  return new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions().maximumFractionDigits ?? 2;
}

// amountOf returns a number of a measure for people: "$12.40", "12.4k" of tokens. It is rounded
// down, and costs are rounded up.
export function amountOf(n: number, measure: string | undefined, roundingMode: "floor" | "ceil" = "floor"): string {
  if (n < 0) return "-" + amountOf(-n, measure, "ceil");
  const currency = currencyOf(measure);
  if (currency !== undefined) {
    const least = decimalsOf(currency);
    const most = n < 10 ** places ? Math.min(places, Math.max(least, places + 3 - String(n).length)) : least;
    const format = new Intl.NumberFormat("en", { style: "currency", currency, minimumFractionDigits: least, maximumFractionDigits: most, roundingMode });
    return format.format(decimal(n, places) as `${number}`).replace("\u00a0", " ");
  }
  if (measure === "tokens" && n >= 10_000) {
    return new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3, roundingMode }).format(n).replace("K", "k");
  }
  return count(n);
}

// decimal returns n / 10^places exactly.
function decimal(n: number, places: number): string {
  const digits = String(n).padStart(places + 1, "0");
  return places === 0 ? digits : `${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

// written returns a number of a measure as rules are written: 500 USD, or the number itself.
export function written(n: number, measure: string | undefined): string | number {
  const currency = currencyOf(measure);
  if (currency === undefined || !Number.isSafeInteger(n) || n < 0) return n;
  const decimals = decimalsOf(currency);
  if (n % 10 ** (places - decimals) !== 0) return n;
  return (n % 10 ** places === 0 ? String(n / 10 ** places) : decimal(n / 10 ** (places - decimals), decimals)) + " " + currency;
}

// parsed returns the number that a text such as 500 USD stands for, or the text for the server to
// refuse.
export function parsed(text: string, measure: string | undefined): number | string {
  const currency = currencyOf(measure);
  const [, whole, part = "", code] = /^(\d+)(?:\.(\d+))? ([a-z]{3})$/i.exec(text.trim()) ?? [];
  if (currency === undefined || whole === undefined || code?.toUpperCase() !== currency || part.length > decimalsOf(currency)) return text;
  const n = Number(whole + part.padEnd(places, "0"));
  return Number.isSafeInteger(n) ? n : text;
}
