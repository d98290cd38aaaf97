// Bars of one card as elements: the granted parts, and the measured use as a line below.
import {el} from './dom.js';
import {bytes, core, percent} from './format.js';

const mediaSlot = 8;  // stands for the media engines

/** parts: granted amounts in order. used: measured amount, or undefined. label: for people who do not see the bar. */
function bar(kind, label, whole, parts, used, marked) {
  const share = (amount) => `${Math.min(100, whole > 0 ? 100 * amount / whole : 0)}%`;
  const granted = parts.filter((part) => part.amount > 0).map((part) =>
      el('span', {class: marked && part.claim === marked ? 'part marked' : 'part', style: {width: share(part.amount)}}));
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
  if (allocation.adminAccess) return 'admin access';
  const amounts = `${core(allocation.core)}, ${bytes(allocation.memory)}`;
  return allocation.slots ? `${allocation.profile || 'MIG instances'} in ${slotNames(allocation.slots)}: ${amounts}` : amounts;
}

function slotNames(slots) {
  const memory = slots.filter((slot) => slot !== mediaSlot);
  const parts = memory.length > 0 ? [`${memory.length === 1 ? 'slot' : 'slots'} ${memory.join(', ')}`] : [];
  return [...parts, ...(slots.includes(mediaSlot) ? ['the media engines'] : [])].join(' and ');
}

/** Slots of a card in MIG mode; those of one claim have no gap between them. */
export function slotBar(card, marked) {
  const owner = new Map(card.claims.flatMap((each) => (each.slots ?? []).map((slot) => [slot, each])));
  const slots = [...Array(card.mig.slots).keys(), ...(card.mig.media ? [mediaSlot] : [])];
  const cells = slots.map((slot) => {
    const by = owner.get(slot);
    const joins = by && slot !== mediaSlot && owner.get(slot + 1) === by && slot + 1 < card.mig.slots;
    const kinds = ['slot', by ? 'used' : '', joins ? 'joins' : '', by && marked && by.claim === marked ? 'marked' : ''];
    return el('span', {class: kinds.filter(Boolean).join(' ')}, slot === mediaSlot ? 'media' : String(slot));
  });
  const used = card.claims.filter((each) => each.slots).map((each) => `${each.claim || each.device} has ${slotNames(each.slots)}`);
  return el('div', {class: 'slots', role: 'img', 'aria-label': `MIG slots: ${used.join('; ') || 'all free'}`}, cells);
}

export function useText(usage) {
  if (!usage) return '';
  const parts = [];
  if (usage.smPercent !== undefined) parts.push(`${usage.smPercent} %`);
  if (usage.memory !== undefined) parts.push(bytes(usage.memory));
  return parts.join(', ');
}
