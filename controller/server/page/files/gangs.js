// Gangs: claims that are bound together, with the state of their members.
import {waitsFor} from './cluster.js';
import {badge, claimLink, el, nodeLink, fill} from './dom.js';
import {counted} from './format.js';

const shownMembers = 32;

function gangSection(gang) {
  const bound = gang.members.filter((claim) => claim.phase === 'Bound').length;
  const missing = gang.size - gang.members.length;
  const state = missing > 0 ? badge(`${counted(missing, 'member')} missing`, 'waiting')
      : bound === gang.members.length ? badge('bound', 'good') : badge('waits', 'waiting');
  const members = gang.members.slice(0, shownMembers).map((claim) => {
    const waits = claim.phase === 'Bound' ? '' : waitsFor(claim);
    return el('li', {}, claimLink(claim.claim), claim.node ? [' on ', nodeLink(claim.node)] : '', waits ? `: ${waits}` : '');
  });
  return el('section', {class: 'card'}, el('h2', {}, `${gang.key} `, state),
            el('p', {}, `${gang.podGroup ? 'At least ' : ''}${counted(gang.size, gang.podGroup ? 'pod' : 'member')}, ` +
                `${gang.members.length} present, ${bound} bound${gang.topology ? `, one value of ${gang.topology}` : ''}`),
            el('ul', {}, members),
            gang.members.length > shownMembers ? el('p', {class: 'muted'}, `and ${gang.members.length - shownMembers} more`) : '');
}

export function gangsView(cluster) {
  const body = el('div');
  return {
    title: 'Gangs',
    element: body,
    update() {
      const gangs = cluster.gangs();
      fill(body, gangs.length === 0 ? [el('p', {}, 'There are no gangs.')] : [el('div', {class: 'cards'}, gangs.map(gangSection))]);
    },
  };
}
