// All claims, those that wait first, each with what it waits for.
import {waitsFor} from './cluster.js';
import {badge, claimLink, el, field, nodeLink} from './dom.js';
import {age, shortened} from './format.js';
import {DataTable} from './tables.js';

export function phaseBadge(claim) {
  const kinds = {Bound: 'good', Pending: 'waiting', Lost: 'trouble'};
  return badge(claim.deleting ? `${claim.phase}, deleting` : claim.phase, kinds[claim.phase] ?? 'waiting');
}

/** Columns for a table of claims. */
export const claimColumns = [
  {title: 'Claim', text: (claim) => claim.claim, node: (claim) => claimLink(claim.claim)},
  {title: 'Phase', text: (claim) => claim.phase + (claim.deleting ? ' deleting' : ''), node: phaseBadge},
  {title: 'Asks for', text: (claim) => claim.asks || (claim.alternatives ?? []).join(' or ') || (claim.adminAccess ? 'admin access' : '')},
  {title: 'Class', text: (claim) => claim.class},
  {title: 'Node', text: (claim) => (claim.endpoint ? 'remote' : claim.node), node: (claim) => (claim.endpoint ? 'remote' : nodeLink(claim.node))},
  {title: 'Waits for, or trouble', long: true, text: (claim) => shortened(waitsFor(claim))},
  {title: 'Age', narrow: true, text: (claim) => age(claim.created)},
];

/** Query: phase, namespace. */
export function claimsView(cluster, {query}) {
  const phase = el('select', {on: {change: () => update()}},
                   ['All phases', 'Pending', 'Bound', 'Lost'].map((each, i) => el('option', {value: i === 0 ? '' : each}, each)));
  phase.value = query.get('phase') ?? '';
  const namespace = el('input', {type: 'text', value: query.get('namespace') ?? '', spellcheck: 'false', on: {input: () => update()}});
  const table = new DataTable({caption: 'Claims', key: (claim) => claim.claim, columns: claimColumns});
  function update() {
    const wanted = namespace.value.trim();
    table.update(cluster.sortedClaims().filter((claim) =>
        (!phase.value || claim.phase === phase.value) && (!wanted || claim.claim.startsWith(`${wanted}/`))));
  }
  return {
    title: 'Claims',
    element: el('div', {}, el('div', {class: 'tools'}, field('Phase', phase), field('Namespace', namespace)), table.element),
    update,
  };
}
