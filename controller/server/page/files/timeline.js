// Timeline of claims from their objects: creation and transitions of conditions. Claims that are gone are not shown.
import {el, claimLink, field, fill} from './dom.js';
import {age, shortened, time} from './format.js';
import {DataTable} from './tables.js';

const spans = [[900, '15 minutes'], [3600, '1 hour'], [21600, '6 hours'], [86400, '1 day'], [604800, '7 days']];
const shownLanes = 40, shownEvents = 500;
const refresh = 2_000;  // ms; sorting all transitions of a large cluster takes long

function boundSince(claim) {
  const bound = claim.conditions.find((each) => each.type === 'Bound');
  return bound?.status === 'True' ? bound.since : 0;
}

function lane(claim, from, now) {
  const at = (moment) => 100 * Math.min(1, Math.max(0, (moment - from) / (now - from)));
  const bound = boundSince(claim);
  const waitedUntil = bound || now;
  const part = (kind, begin, end) => (end > begin
      ? el('span', {class: `lane-part ${kind}`, style: {left: `${at(begin)}%`, width: `${Math.max(0.4, at(end) - at(begin))}%`}}) : null);
  const text = bound ? `pending for ${age(claim.created, bound)}, bound since ${time(bound)}` : `pending for ${age(claim.created)}`;
  return el('li', {}, el('span', {class: 'lane-name'}, claimLink(claim.claim)),
            el('span', {class: 'lane', role: 'img', 'aria-label': text},
               part('waiting', Math.max(from, claim.created), waitedUntil), bound ? part('good', Math.max(from, bound), now) : null));
}

function eventsOf(cluster) {
  const events = [];
  for (const claim of cluster.claims.values()) {
    events.push({at: claim.created, claim: claim.claim, what: 'created', message: ''});
    for (const each of claim.conditions)
      events.push({at: each.since, claim: claim.claim, what: `${each.type} ${each.status}`, reason: each.reason, message: each.message});
  }
  return events.sort((a, b) => b.at - a.at || (a.claim < b.claim ? -1 : 1)).slice(0, shownEvents);
}

export function timelineView(cluster) {
  const select = el('select', {on: {change: () => update(true)}}, spans.map(([seconds, title]) => el('option', {value: seconds}, title)));
  select.value = 3600;
  const lanes = el('div');
  const table = new DataTable({caption: 'Transitions', key: (event) => `${event.claim} ${event.what} ${event.at}`, page: 50, columns: [
    {title: 'Time', narrow: true, text: (event) => time(event.at)},
    {title: 'Claim', text: (event) => event.claim, node: (event) => claimLink(event.claim)},
    {title: 'Transition', narrow: true, text: (event) => event.what},
    {title: 'Reason', text: (event) => event.reason ?? ''},
    {title: 'Message', long: true, text: (event) => shortened(event.message)},
  ]});
  let last = -refresh, timer = 0;
  function update(atOnce = false) {
    const left = last + refresh - performance.now();
    if (!atOnce && left > 0) {
      timer ||= setTimeout(() => update(), left);
      return;
    }
    clearTimeout(timer);
    timer = 0;
    last = performance.now();
    const now = Date.now() / 1000, from = now - Number(select.value);
    const active = [...cluster.claims.values()].filter((claim) => claim.created >= from || boundSince(claim) >= from || claim.phase !== 'Bound')
                       .sort((a, b) => b.created - a.created);
    fill(lanes, active.length === 0 ? [el('p', {}, 'No claim was created or bound in this time.')] : [
      el('ul', {class: 'lanes'}, active.slice(0, shownLanes).map((claim) => lane(claim, from, now))),
      el('p', {class: 'axis', 'aria-hidden': 'true'}, el('span', {}, time(from)), el('span', {}, 'now')),
      active.length > shownLanes ? el('p', {class: 'note'}, `The newest ${shownLanes} of ${active.length} claims`) : ''].filter(Boolean));
    table.update(eventsOf(cluster));
  }
  return {
    title: 'Timeline',
    element: el('div', {}, el('div', {class: 'tools'}, field('Last', select), el('ul', {class: 'legend', 'aria-label': 'Legend'},
        el('li', {}, el('span', {class: 'key waiting'}), 'pending'), el('li', {}, el('span', {class: 'key good'}), 'bound'))), lanes, el('h2', {}, 'Transitions'), table.element),
    update: () => update(), close: () => clearTimeout(timer),
  };
}
