// Shows an answer of /simulate.
import {badge, cell, claimLink, el, joined, nodeLink} from './dom.js';
import {bytes, core, counted, percent} from './format.js';

function place(decision, link) {
  if (!decision?.fits) return badge('no place', 'trouble');
  return [link(decision.node), `, ${counted(decision.cards.length, 'card')}`];
}

/** where: makes the label unique on the page. */
function placedTable(title, placed, link, where = '') {
  if (!placed?.length) return '';
  const lines = placed.map((each) => el('tr', {}, el('th', {scope: 'row'}, claimLink(each.claim)), cell('From', link(each.from)),
      cell('To', place(each.to, link)), cell('Reason', each.why ?? '', 'long')));
  return el('div', {class: 'scroll', role: 'region', 'aria-label': `${title} ${where}`.trim(), tabindex: '0'},
            el('table', {class: 'stack'}, el('caption', {}, `${title} (${placed.length})`),
               el('thead', {}, el('tr', {}, ['Claim', 'From', 'To', 'Reason'].map((head) => el('th', {scope: 'col'}, head)))),
               el('tbody', {}, lines)));
}

function resized(report) {
  if (!report) return '';
  if (report.inPlace) return el('p', {}, badge('fits', 'good'), ` ${report.claim} grows in place on `, nodeLink(report.node));
  const why = report.refused || report.why || '';
  return el('p', {}, badge('does not fit in place', 'trouble'), ` ${report.claim}: ${why} ${report.smallestChange ?? ''} `,
            report.elsewhere?.fits ? ['It would fit on ', nodeLink(report.elsewhere.node), '.'] : '');
}

function step(report, link) {
  const left = (report.moved ?? []).filter((each) => !each.to.fits).length;
  return el('section', {class: 'step'}, el('h3', {}, report.step),
            report.nodes?.length ? el('p', {}, 'Nodes: ', joined(report.nodes.map(link))) : '',
            report.moved?.length ? el('p', {}, left > 0 ? badge(`${counted(left, 'claim')} without a place`, 'trouble') : badge('every claim has a place', 'good')) : '',
            placedTable('Moved claims', report.moved, link, report.step), resized(report.resized),
            report.released ? el('p', {}, 'Released: ', claimLink(report.released.claim)) : '',
            report.created ? placedTable('Created claim', [report.created], link, report.step) : '',
            placedTable('Pending claims that fit now', report.bound, link, report.step),
            el('p', {class: 'muted'}, `${counted(report.waiting, 'claim')} still pending after this step.`));
}

function ranking(answer, link) {
  if (!answer.ranking?.length) return '';
  const lines = answer.ranking.map((each) => el('tr', {}, el('th', {scope: 'row'}, link(each.node)),
      el('td', {class: 'number'}, percent(each.fill, 1000)), el('td', {class: 'number'}, percent(each.fillAfter, 1000))));
  return el('div', {class: 'scroll', role: 'region', 'aria-label': 'Best nodes', tabindex: '0'},
            el('table', {}, el('caption', {}, 'Best nodes'),
               el('thead', {}, el('tr', {}, ['Node', 'Full now', 'Full then'].map((head, i) => el('th', {scope: 'col', class: i > 0 ? 'number' : null}, head)))), el('tbody', {}, lines)));
}

function subject(answer, link) {
  if (!answer.subject) return '';
  const {decision} = answer, name = answer.subject.claim ?? 'The claim';
  const cards = decision.cards.map((card) => el('li', {}, `${card.name}: ${core(card.granted.core)}, ${bytes(card.granted.memory)}`));
  const victims = answer.preemption?.possible ? el('p', {}, `It would fit on ${answer.preemption.node} after the eviction of `,
      joined(answer.preemption.victims.map((each) => el('b', {}, each.holder || each.device))), '.') : '';
  return el('section', {class: 'step'}, el('h3', {}, `${name} after these steps`),
            el('p', {}, decision.fits ? [badge('fits', 'good'), ' on ', link(decision.node)] : [badge('does not fit', 'trouble'), ` ${answer.text}`]),
            cards.length > 0 ? el('ul', {}, cards) : '', victims,
            decision.fits || !answer.remedies?.length ? '' : el('ul', {}, answer.remedies.map((each) => el('li', {}, each.text))),
            answer.subject.note ? el('p', {class: 'muted'}, answer.subject.note) : '', ranking(answer, link));
}

/** Elements that show the answer. nodes: those of the cluster; added nodes have no view to link to. */
export function whatIfResult(answer, nodes) {
  const link = (name) => (nodes.has(name) ? nodeLink(name) : name ?? '');
  const before = answer.before?.length ? placedTable('Pending claims that fit without any step', answer.before, link) : '';
  return [before, ...(answer.steps ?? []).map((report) => step(report, link)), subject(answer, link)].filter(Boolean);
}
