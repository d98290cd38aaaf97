// Overview: totals, the map, claims that wait, and the table of nodes.
import {ClusterMap} from './cluster_map.js';
import {waitsFor} from './cluster.js';
import {claimLink, el, facts, field, nodeLink, fill, route} from './dom.js';
import {age, bytes, counted, number, percent} from './format.js';
import {DataTable} from './tables.js';

const shownPending = 5;
const filters = {
  all: ['All nodes', () => true],
  free: ['With a free card', (node) => node.cards.some((card) => card.offered && card.claims.length === 0)],
  partly: ['With a shared card', (node) => node.cards.some((card) => card.claims.length > 0 && card.used.core < card.core)],
  idle: ['Without a claim', (node) => node.cards.length > 0 && node.cards.every((card) => card.claims.length === 0)],
  trouble: ['With a card that is not offered', (node) => !node.schedulable || node.sum.notOffered > 0],
};

function legend() {
  const entry = (kind, text) => el('li', {}, el('span', {class: `key ${kind}`}), text);
  return el('ul', {class: 'legend', 'aria-label': 'Legend'}, entry('core', 'core granted'), entry('memory', 'memory granted'),
            entry('use', 'measured use'), entry('track', 'free'), entry('trouble', 'not offered'),
            el('li', {}, 'A line joins cards that NVLink connects, a gap separates NUMA nodes'));
}

function pendingList(cluster) {
  const pending = cluster.sortedClaims().filter((claim) => claim.phase !== 'Bound');
  if (pending.length === 0) return [el('h2', {}, 'Claims that wait'), el('p', {}, 'None.')];
  const items = pending.slice(0, shownPending).map((claim) =>
      el('li', {}, claimLink(claim.claim), ` (${claim.asks || 'alternatives'}, ${age(claim.created)}) `, waitsFor(claim)));
  const rest = pending.length > items.length ? [el('p', {}, el('a', {href: route('claims')}, `All ${number(pending.length)} claims that wait`))] : [];
  return [el('h2', {}, 'Claims that wait'), el('ul', {class: 'pending'}, items), ...rest];
}

function totals(cluster) {
  const all = cluster.totals, phases = cluster.phases();
  return facts([
    ['Nodes', number(cluster.nodes.size)], ['Cards', number(all.cards)], ['Not offered', number(all.notOffered)],
    ['Core granted', percent(all.usedCore, all.core)],
    ['Memory granted', `${bytes(all.usedMemory)} of ${bytes(all.memory)}`],
    ['Claims bound', number(phases.Bound)], ['Claims pending', number(phases.Pending)],
    ['Claims lost', phases.Lost > 0 ? number(phases.Lost) : '']]);
}

export function nodesView(cluster) {
  const point = el('p', {class: 'point', 'aria-hidden': 'true'});
  const map = new ClusterMap((text) => point.replaceChildren(text || '\u00a0'));
  const select = el('select', {on: {change: () => update()}}, Object.entries(filters).map(([key, [title]]) => el('option', {value: key}, title)));
  const table = new DataTable({caption: 'Nodes', key: (node) => node.name, page: 50, columns: [
    {title: 'Node', text: (node) => node.name || '(no node)', node: (node) => nodeLink(node.name) || '(no node)'},
    {title: 'Cards', number: true, text: (node) => node.sum.cards},
    {title: 'Core', number: true, text: (node) => percent(node.sum.usedCore, node.sum.core)},
    {title: 'Memory', number: true, text: (node) => `${bytes(node.sum.usedMemory)} of ${bytes(node.sum.memory)}`},
    {title: 'Models', text: (node) => [...new Set(node.cards.map((card) => card.model))].join(', ')},
    {title: 'State', text: (node) => [node.schedulable ? 'schedulable' : 'not schedulable',
      node.sum.notOffered > 0 ? `${counted(node.sum.notOffered, 'card')} not offered` : ''].filter(Boolean).join(', ')},
  ]});
  const sums = el('div'), pending = el('section');
  function update() {
    fill(sums, totals(cluster));
    const [, accepts] = filters[select.value];
    const nodes = select.value === 'all' ? cluster.sortedNodes() : cluster.sortedNodes().filter(accepts);
    map.update(nodes);
    fill(pending, pendingList(cluster));
    table.update(nodes);
  }
  return {
    title: 'Nodes and cards',
    element: el('div', {}, sums, el('div', {class: 'tools'}, field('Show', select), legend()), map.element, point, pending,
                el('h2', {}, 'Table of nodes'), table.element),
    update, close: () => map.close(),
  };
}
