// Search over names of nodes, cards, claims, gangs and classes, and over what claims wait for.
import {claimColumns} from './claims.js';
import {waitsFor} from './cluster.js';
import {el, nodeLink, route} from './dom.js';
import {percent} from './format.js';
import {DataTable} from './tables.js';

/** Route: search/TEXT. All words must occur. */
export function foundView(cluster, {parts}) {
  const words = (parts[0] ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (...texts) => {
    const all = texts.join(' ').toLowerCase();
    return words.length > 0 && words.every((word) => all.includes(word));
  };
  const nodes = new DataTable({caption: 'Nodes found', key: (node) => node.name, page: 20, columns: [
    {title: 'Node', text: (node) => node.name, node: (node) => nodeLink(node.name)},
    {title: 'Cards', number: true, text: (node) => node.sum.cards},
    {title: 'Core', number: true, text: (node) => percent(node.sum.usedCore, node.sum.core)}]});
  const cards = new DataTable({caption: 'Cards found', key: ({card}) => card.name, page: 20, columns: [
    {title: 'Card', text: ({node, card}) => `${node.name}, card ${card.index}`,
      node: ({node, card}) => el('a', {href: route('node', node.name, 'card', card.index)}, `${node.name}, card ${card.index}`)},
    {title: 'Model', text: ({card}) => card.model}, {title: 'UUID', long: true, text: ({card}) => card.uuid}, {title: 'State', text: ({card}) => card.why ?? ''}]});
  const claims = new DataTable({caption: 'Claims found', key: (claim) => claim.claim, page: 50, columns: claimColumns});
  return {
    title: 'Search',
    element: el('div', {}, el('h2', {}, 'Nodes'), nodes.element, el('h2', {}, 'Cards'), cards.element, el('h2', {}, 'Claims'), claims.element),
    update() {
      const all = cluster.sortedNodes();
      nodes.update(all.filter((node) => matches(node.name)));
      cards.update(all.flatMap((node) => node.cards.filter((card) => matches(card.name, card.uuid, card.model, card.why ?? '')).map((card) => ({node, card}))));
      claims.update(cluster.sortedClaims().filter((claim) =>
          matches(claim.claim, claim.class ?? '', claim.gang?.name ?? '', claim.pods.join(' '), claim.node ?? '', waitsFor(claim))));
    },
  };
}
