// ago returns how long before now a time is, in words: "12 s ago". Clocks differ by a
// few seconds.
export function ago(then: number, now: number): string {
  const seconds = Math.round((now - then) / 1000);
  if (seconds < -5) return "in " + span(-seconds);
  return seconds < 1 ? "now" : span(seconds) + " ago";
}

// span returns seconds in the largest unit that fits twice.
export function span(seconds: number): string {
  if (seconds < 120) return Math.round(seconds) + " s";
  if (seconds < 7200) return Math.floor(seconds / 60) + " min";
  if (seconds < 172800) return Math.floor(seconds / 3600) + " h";
  return Math.floor(seconds / 86400) + " days";
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(n: number): string {
  return whole.format(n);
}

// shownRevision returns a revision for people. That of a file is a hash of 48 bits.
export function shownRevision(n: number): string {
  return n < 2 ** 32 ? String(n) : Math.floor(n / 65536).toString(16).padStart(8, "0");
}

// rate returns a number per second with three significant digits below 100.
export function rate(n: number | null | undefined): string {
  if (n === null || n === undefined) return "–";
  if (n === 0) return "0";
  if (n < 0.01) return "< 0.01";
  if (n < 10) return n.toFixed(2);
  if (n < 100) return n.toFixed(1);
  return whole.format(n);
}

// rejected returns the requests that a rule has rejected: by its limit, or as a rule that denies.
export function rejected(rates: { limited: number; denied: number } | undefined): number | undefined {
  return rates && rates.limited + rates.denied;
}

export function millis(n: number | null | undefined): string {
  if (n === null || n === undefined) return "–";
  return (n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : whole.format(n)) + " ms";
}
