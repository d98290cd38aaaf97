// One node: its cards by NUMA node, their claims, and how they are connected.
import {coreBar, grantText, memoryBar, slotBar, useText} from './card_bars.js';
import {badge, claimLink, el, facts, fill} from './dom.js';
import {bytes, number, percent} from './format.js';

function claimsOf(card) {
  if (card.claims.length === 0) return el('p', {class: 'muted'}, 'No claims.');
  return el('ul', {class: 'holders'}, card.claims.map((each) => {
    const use = useText(each.usage);
    return el('li', {}, claimLink(each.claim) || each.device, ` ${grantText(each)}`,
              each.phase && each.phase !== 'Bound' ? `, ${each.phase}` : '', use ? `, uses ${use}` : '');
  }));
}

/** What the card can be used for, if not for everything. */
function modeLine(card) {
  if (card.isolation) return el('p', {class: 'muted'}, `Isolation mode of its claims: ${card.isolation}`);
  return card.mig ? el('p', {class: 'muted'}, 'In MIG mode: only for MIG instances') : '';
}

function cardSection(card, marked) {
  return el('section', {class: marked ? 'card marked' : 'card', id: `card-${card.index}`},
            el('h3', {}, `Card ${card.index} `, card.offered ? '' : badge('not offered', 'trouble')),
            card.why ? el('p', {class: 'refusal'}, card.why) : '',
            el('p', {class: 'muted'}, `${card.model}, ${card.uuid}`), modeLine(card),
            el('div', {class: 'amount'}, el('span', {}, `Core ${percent(card.used.core, card.core)}`), coreBar(card)),
            el('div', {class: 'amount'}, el('span', {}, `Memory ${bytes(card.used.memory)} of ${bytes(card.memory)}`), memoryBar(card)),
            card.mig ? el('div', {class: 'amount'}, el('span', {}, 'MIG slots'), slotBar(card)) : '',
            card.usage ? el('p', {class: 'muted'}, `In use: ${useText(card.usage) || 'unknown'}`) : '', claimsOf(card));
}

function links(cards) {
  if (!cards.some((card) => card.links)) return '';
  const typeOf = (card, peer) => Object.keys(card.links ?? {}).filter((type) => card.links[type].includes(peer.index)).join(', ');
  const types = new Set(cards.flatMap((card) => cards.filter((peer) => peer !== card).map((peer) => typeOf(card, peer))));
  if (types.size === 1) return [el('h2', {}, 'Links between cards'), el('p', {}, `Each card is connected to each other card: ${[...types][0]}.`)];
  const head = el('tr', {}, el('td', {}), cards.map((card) => el('th', {scope: 'col'}, String(card.index))));
  const lines = cards.map((card) => el('tr', {}, el('th', {scope: 'row'}, String(card.index)),
      cards.map((peer) => el('td', {}, peer === card ? '\u2013' : typeOf(card, peer)))));
  return [el('h2', {}, 'Links between cards'),
    el('div', {class: 'scroll', role: 'region', 'aria-label': 'Links between cards', tabindex: '0'},
       el('table', {class: 'links'}, el('caption', {class: 'hidden'}, 'Links between cards, by index'), el('thead', {}, head), el('tbody', {}, lines)))];
}

function groups(cards, marked) {
  const byNuma = new Map();
  for (const card of cards) byNuma.set(card.numa ?? -1, [...(byNuma.get(card.numa ?? -1) ?? []), card]);
  return [...byNuma].map(([numa, list]) => [
    el('h2', {}, numa >= 0 ? `NUMA node ${numa}` : 'Cards'),
    el('div', {class: 'cards'}, list.map((card) => cardSection(card, String(card.index) === marked)))]);
}

/** Route: node/NAME, or node/NAME/card/INDEX. */
export function nodeView(cluster, {parts}) {
  const [name, , index] = parts;
  const body = el('div');
  let scrolled = index === undefined;
  return {
    title: `Node ${name}`,
    element: body,
    update() {
      const node = cluster.nodes.get(name);
      if (!node) {
        fill(body, [el('p', {}, cluster.complete ? 'There is no such node.' : 'Loading.')]);
        return;
      }
      const sum = node.sum;
      const query = new URLSearchParams({drain: name});
      fill(body, [
        facts([['Cards', number(sum.cards)], ['Core granted', percent(sum.usedCore, sum.core)],
          ['Memory granted', `${bytes(sum.usedMemory)} of ${bytes(sum.memory)}`],
          ['State', node.schedulable ? 'schedulable' : 'not schedulable']]),
        el('p', {}, el('a', {href: `#/what-if?${query}`}, 'What if this node is drained?')),
        ...groups(node.cards, index).flat(), ...[links(node.cards)].flat().filter(Boolean)]);
      if (!scrolled) body.querySelector('.card.marked')?.scrollIntoView({block: 'center'});
      scrolled = true;
    },
  };
}
