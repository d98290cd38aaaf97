// Measured use against the grant, for each claim on each card; the largest unused share first.
import {claimLink, el, route} from './dom.js';
import {bytes, core, percent} from './format.js';
import {DataTable} from './tables.js';

function unused({card, allocation}) {
  const {usage} = allocation;
  const ofCore = usage?.smPercent === undefined ? 0 : allocation.core / card.core - usage.smPercent / 100;
  const ofMemory = usage?.memory === undefined ? 0 : (allocation.memory - usage.memory) / card.memory;
  return Math.max(ofCore, ofMemory);
}

export function usageView(cluster) {
  const table = new DataTable({caption: 'Use against grant', key: ({card, allocation}) => `${card.name} ${allocation.device} ${allocation.claim}`,
    empty: 'No claim has a card.', columns: [
      {title: 'Claim', text: ({allocation}) => allocation.claim, node: ({allocation}) => claimLink(allocation.claim)},
      {title: 'Card', text: ({node, card}) => `${node.name}, card ${card.index}`,
        node: ({node, card}) => el('a', {href: route('node', node.name, 'card', card.index)}, `${node.name}, card ${card.index}`)},
      {title: 'Core granted', number: true, text: ({allocation}) => core(allocation.core)},
      {title: 'Core used', number: true, text: ({allocation}) => (allocation.usage?.smPercent === undefined ? 'unknown' : `${allocation.usage.smPercent} %`)},
      {title: 'Memory granted', number: true, text: ({allocation}) => bytes(allocation.memory)},
      {title: 'Memory used', number: true, text: ({allocation}) => (allocation.usage?.memory === undefined ? 'unknown'
          : `${bytes(allocation.usage.memory)} (${percent(allocation.usage.memory, allocation.memory)})`)},
    ]});
  return {
    title: 'Use against grant',
    element: el('div', {}, el('p', {}, 'Use as the agents report it. The share of a claim without a report is unknown.'), table.element),
    update() {
      const all = [...cluster.allocations().values()].flat().filter(({allocation}) => !allocation.adminAccess);
      for (const entry of all) entry.unused = unused(entry);
      table.update(all.sort((a, b) => b.unused - a.unused || (a.allocation.claim < b.allocation.claim ? -1 : 1)));
    },
  };
}
