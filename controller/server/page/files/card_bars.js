// Bars of one card as elements: the granted parts, and the measured use as a line below.
import {el} from './dom.js';
import {bytes, core, percent} from './format.js';

/** parts: granted amounts in order. used: measured amount, or undefined. label: for people who do not see the bar. */
function bar(kind, label, whole, parts, used, marked) {
  const share = (amount) => `${Math.min(100, whole > 0 ? 100 * amount / whole : 0)}%`;
  const granted = parts.filter((part) => part.amount > 0).map((part) =>
      el('span', {class: part.claim === marked ? 'part marked' : 'part', style: {width: share(part.amount)}}));
  const use = used === undefined ? null : el('span', {class: 'use', style: {width: share(used)}});
  return el('div', {class: `bar ${kind}`, role: 'img', 'aria-label': label}, granted, use);
}

export function coreBar(card, marked) {
  const percentOfUse = card.usage?.smPercent;
  const label = `core: ${percent(card.used.core, card.core)} granted` +
      (percentOfUse === undefined ? '' : `, ${percentOfUse} % in use`);
  return bar('core', label, card.core, card.claims.map((each) => ({claim: each.claim, amount: each.core})),
             percentOfUse === undefined ? undefined : card.core * percentOfUse / 100, marked);
}

export function memoryBar(card, marked) {
  const used = card.usage?.memory;
  const label = `memory: ${bytes(card.used.memory)} of ${bytes(card.memory)} granted` +
      (used === undefined ? '' : `, ${bytes(used)} in use`);
  return bar('memory', label, card.memory, card.claims.map((each) => ({claim: each.claim, amount: each.memory})), used, marked);
}

/** Bar of a share, such as that of a quota. */
export function shareBar(kind, label, part, whole) {
  return bar(kind, label, whole, [{amount: part}], undefined);
}

export function grantText(allocation) {
  return allocation.adminAccess ? 'admin access' : `${core(allocation.core)}, ${bytes(allocation.memory)}`;
}

export function useText(usage) {
  if (!usage) return '';
  const parts = [];
  if (usage.smPercent !== undefined) parts.push(`${usage.smPercent} %`);
  if (usage.memory !== undefined) parts.push(bytes(usage.memory));
  return parts.join(', ');
}
