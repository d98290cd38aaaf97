// One claim: where it stands, what it waits for, and what would help.
import {ask} from './ask.js';
import {coreBar, grantText, memoryBar, slotBar, useText} from './card_bars.js';
import {waitsFor} from './cluster.js';
import {badge, cell, el, facts, joined, nodeLink, fill, route} from './dom.js';
import {age, counted, time} from './format.js';
import {phaseBadge} from './claims.js';

function conditions(claim) {
  if (claim.conditions.length === 0) return '';
  const lines = claim.conditions.map((each) => el('tr', {}, el('th', {scope: 'row'}, each.type), cell('Status', each.status),
      cell('Reason', each.reason), cell('Message', each.message, 'long'), cell('Since', time(each.since), 'narrow')));
  const heads = ['Condition', 'Status', 'Reason', 'Message', 'Since'].map((title) => el('th', {scope: 'col'}, title));
  return [el('h2', {}, 'Conditions'),
    el('div', {class: 'scroll', role: 'region', 'aria-label': 'Conditions', tabindex: '0'},
       el('table', {class: 'stack'}, el('caption', {class: 'hidden'}, 'Conditions'), el('thead', {}, el('tr', {}, heads)),
          el('tbody', {}, lines)))];
}

function cards(allocations, name) {
  if (allocations.length === 0) return '';
  return [el('h2', {}, 'Cards'), el('div', {class: 'cards'}, allocations.map(({node, card, allocation}) =>
      el('section', {class: 'card'},
         el('h3', {}, el('a', {href: route('node', node.name, 'card', card.index)}, `${node.name}, card ${card.index}`)),
         el('p', {}, `Granted: ${grantText(allocation)}`, allocation.usage ? `; uses ${useText(allocation.usage)}` : ''),
         el('div', {class: 'amount'}, el('span', {}, 'Core of the card'), coreBar(card, name)),
         el('div', {class: 'amount'}, el('span', {}, 'Memory of the card'), memoryBar(card, name)),
         card.mig ? el('div', {class: 'amount'}, el('span', {}, 'MIG slots'), slotBar(card, name)) : '')))];
}

function texts(object) {
  return Object.entries(object ?? {}).map(([key, value]) => `${key} ${value}`).join(', ');
}

/** What keeps the claim from using more than its share. */
function isolationText(isolation) {
  if (!isolation) return '';
  const limits = ['memory', 'compute'].filter((kind) => isolation[kind]).map((kind) =>
      `${kind} ${isolation[kind] === 'None' ? 'not enforced' : isolation[kind].toLowerCase()}`);
  return `${isolation.mode}: ${limits.join(', ')}`;
}

function summary(claim) {
  const gang = claim.gang;
  return facts([
    ['Phase', phaseBadge(claim)], ['Class', claim.class ?? ''],
    ['Asks for', claim.asks || (claim.alternatives ?? []).join(' or ')], ['Granted', texts(claim.granted)],
    ['Alternative', claim.alternative ?? ''], ['Models', (claim.models ?? []).join(', ')],
    ['Node', nodeLink(claim.node)], ['Use', claim.use ?? ''], ['Isolation', isolationText(claim.isolation)],
    ['Remote GPU', claim.endpoint ?? ''],
    ['Pods', claim.pods.join(', ')], ['Priority', claim.priority ? String(claim.priority) : ''],
    ['Gang', gang ? el('a', {href: route('gangs')}, `${gang.name} (${counted(gang.size, 'member')})`) : ''],
    ['Nominated node', claim.nominated ? [nodeLink(claim.nominated.node), `, after ${counted(claim.nominated.victims.length, 'eviction')}`] : ''],
    ['Age', age(claim.created)]]);
}

/** What would help, as /explain answers. */
function explanation(answer) {
  const out = [el('h2', {}, 'What would help')];
  if (answer.subject?.notDecided) return [...out, el('p', {}, answer.subject.notDecided)];
  out.push(el('p', {}, answer.text));
  if (answer.subject?.note) out.push(el('p', {class: 'muted'}, answer.subject.note));
  if (answer.remedies?.length > 0) out.push(el('ul', {}, answer.remedies.map((each) => el('li', {}, each.text))));
  const lines = (answer.stages ?? []).map((stage) => el('tr', {}, el('th', {scope: 'row'}, stage.stage),
      el('td', {class: 'number'}, String(stage.before)), el('td', {class: 'number'}, String(stage.after)),
      el('td', {}, stage.reasons.map((each) => `${each.count}: ${each.reason}`).join('; '))));
  if (lines.length > 0)
    out.push(el('div', {class: 'scroll', role: 'region', 'aria-label': 'Stages of the decision', tabindex: '0'},
                el('table', {}, el('caption', {class: 'hidden'}, 'Stages of the decision'),
                   el('thead', {}, el('tr', {}, ['Stage', 'Before', 'After', 'Left out'].map((title, i) => el('th', {scope: 'col', class: i === 1 || i === 2 ? 'number' : null}, title)))),
                   el('tbody', {}, lines))));
  return out;
}

/** Route: claim/NAMESPACE/NAME. */
export function claimView(cluster, {parts}) {
  const name = parts.join('/');
  const body = el('div'), help = el('section');
  const abort = new AbortController();
  let asked = '';
  async function explain(claim) {
    const waits = claim.phase === 'Pending' ? waitsFor(claim) : '';
    if (waits === asked) return;
    asked = waits;
    if (!waits) {
      help.replaceChildren();
      return;
    }
    try {
      const answer = await ask('explain', {claim: name, names: 3}, abort.signal);
      fill(help, explanation(answer));
    } catch (error) {
      if (!abort.signal.aborted) help.replaceChildren(el('p', {class: 'refusal'}, error.message));
    }
  }
  return {
    title: `Claim ${name}`,
    element: el('div', {}, body, help),
    update() {
      const claim = cluster.claims.get(name);
      if (!claim) {
        fill(body, [el('p', {}, cluster.complete ? 'There is no such claim.' : 'Loading.')]);
        return;
      }
      const waits = waitsFor(claim);
      const query = new URLSearchParams(claim.phase === 'Bound' ? {release: name} : {claim: name});
      fill(body, [
        waits ? el('p', {class: 'waits'}, badge(claim.phase === 'Bound' ? 'trouble' : 'waits', claim.phase === 'Bound' ? 'trouble' : 'waiting'), ` ${waits}`) : '',
        summary(claim),
        el('p', {}, joined([
          el('a', {href: `#/what-if?${query}`}, claim.phase === 'Bound' ? 'What if this claim is deleted?' : 'What if capacity is added for it?'),
          el('a', {href: route('timeline')}, 'Timeline')], ' \u00b7 ')),
        ...[cards(cluster.allocations().get(name) ?? [], name), conditions(claim)].flat().filter(Boolean)].filter(Boolean));
      explain(claim);
    },
    close: () => abort.abort(),
  };
}
