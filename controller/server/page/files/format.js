// Amounts and times as texts. Core in milli-cards, memory in bytes, times in seconds since 1970.

const longest = 240;  // characters of a message in a table
const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(amount) {
  let unit = 0;
  let value = amount;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${Number(value.toFixed(value >= 100 ? 0 : 1))} ${units[unit]}`;
}

export function percent(part, whole) {
  if (!(whole > 0)) return '0 %';
  const value = 100 * part / whole;
  return value > 0 && value < 1 ? '<1 %' : `${Math.round(value)} %`;
}

/** Milli-cards as a share of one card, or as a number of cards. */
export function core(milliCards) {
  return milliCards > 1000 ? `${number(milliCards / 1000)} cards` : `${number(milliCards / 10)} %`;
}

/** A message for a table. */
export function shortened(text) {
  return text.length > longest ? `${text.slice(0, longest)}\u2026` : text;
}

export function number(value) {
  return new Intl.NumberFormat('en', {maximumFractionDigits: 1}).format(value);
}

export function counted(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** How long ago, in the largest unit that fits. */
export function age(since, now = Date.now() / 1000) {
  if (!since) return '';
  const seconds = Math.max(0, Math.round(now - since));
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']])
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${seconds} s`;
}

export function time(at) {
  if (!at) return '';
  return new Intl.DateTimeFormat(undefined, {dateStyle: 'short', timeStyle: 'medium'}).format(new Date(at * 1000));
}
