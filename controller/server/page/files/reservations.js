// Capacity that is held for claims: reserved nodes, and nominations of preemptors.
import {waitsFor} from './cluster.js';
import {claimLink, el, nodeLink} from './dom.js';
import {age, counted} from './format.js';
import {DataTable} from './tables.js';

export function reservationsView(cluster) {
  const claimOf = (item) => cluster.claims.get(item.claim);
  const table = new DataTable({caption: 'Reservations and nominations', key: (item) => `${item.kind} ${item.claim} ${item.node}`,
    empty: 'No capacity is held for a claim.', columns: [
      {title: 'Claim', text: (item) => item.claim, node: (item) => claimLink(item.claim)},
      {title: 'Node', text: (item) => item.node, node: (item) => nodeLink(item.node)},
      {title: 'Kind', text: (item) => item.kind},
      {title: 'Waits for', long: true, text: (item) => (claimOf(item) ? waitsFor(claimOf(item)) : '')},
      {title: 'Age of the claim', narrow: true, text: (item) => age(claimOf(item)?.created)},
    ]});
  return {
    title: 'Reservations',
    element: el('div', {}, el('p', {}, 'Later claims are not placed on a reserved node until the claim is served. ' +
        'A nomination holds the capacity that evictions free.'), table.element),
    update() {
      const nominated = [...cluster.claims.values()].filter((claim) => claim.nominated).map((claim) => ({
        claim: claim.claim, node: claim.nominated.node, kind: `nomination, ${counted(claim.nominated.victims.length, 'eviction')}`}));
      table.update([...cluster.reservations.map((each) => ({...each, kind: 'reserved node'})), ...nominated]);
    },
  };
}
