// Starts the page: the stream, the routes, the search and the token form.
import {setToken} from './ask.js';
import {Cluster} from './cluster.js';
import {el, field, route} from './dom.js';
import {parseRoute} from './router.js';
import {LiveStream} from './stream.js';
import {claimView} from './claim.js';
import {claimsView} from './claims.js';
import {forecastView} from './forecast.js';
import {foundView} from './found.js';
import {gangsView} from './gangs.js';
import {nodeView} from './node.js';
import {nodesView} from './nodes.js';
import {quotasView} from './quotas.js';
import {reservationsView} from './reservations.js';
import {timelineView} from './timeline.js';
import {usageView} from './usage.js';
import {whatIfView} from './what_if.js';

// A view is a function (cluster, route) that returns {title, element, update(), close()}.
const views = {
  nodes: nodesView, node: nodeView, claims: claimsView, claim: claimView, quotas: quotasView, gangs: gangsView,
  reservations: reservationsView, use: usageView, 'what-if': whatIfView, forecast: forecastView, timeline: timelineView,
  search: foundView,
};
const menu = [['nodes', 'Nodes'], ['claims', 'Claims'], ['quotas', 'Quotas'], ['gangs', 'Gangs'],
  ['reservations', 'Reservations'], ['use', 'Use'], ['what-if', 'What if'], ['forecast', 'Forecast'], ['timeline', 'Timeline']];
const parents = {node: 'nodes', claim: 'claims'};
const hiddenLimit = 60_000;  // ms after which a hidden page ends its stream
const ageInterval = 15_000;  // ms between updates of ages without a change
const measured = 200;        // entries of performance.measure('update') that are kept

const cluster = new Cluster();
const main = document.getElementById('main');
const live = document.getElementById('live');
const search = document.getElementById('search');
let view = null, frame = 0, since = 0, hidden = 0, denied = false;

function setLive(text, kind) {
  if (live.textContent !== text) live.textContent = text;
  live.className = kind;
}

function afterPaint(then) {
  requestAnimationFrame(() => setTimeout(then));
}

/** Updates the view once for all events that arrive before the next frame. received: time of the event. */
function schedule(received) {
  if (frame) return;
  since = received;
  frame = requestAnimationFrame(() => {
    frame = 0;
    view?.update();
    const start = since, {complete} = cluster, cards = cluster.totals.cards;
    afterPaint(() => {
      if (performance.getEntriesByName('update').length >= measured) performance.clearMeasures('update');
      performance.measure('update', {start, detail: {cards}});
      if (complete && performance.getEntriesByName('painted').length === 0) performance.mark('painted', {detail: {cards}});
    });
  });
}

/** Scrolls the menu, which is wider than a phone, to the link. */
function reveal(link) {
  const bar = link.closest('nav'), at = link.offsetLeft - bar.offsetLeft;
  if (at < bar.scrollLeft || at + link.offsetWidth > bar.scrollLeft + bar.clientWidth) bar.scrollLeft = at + (link.offsetWidth - bar.clientWidth) / 2;
}

function show() {
  const to = parseRoute(location.hash);
  if (!to || denied) return;
  view?.close?.();
  const make = views[to.view];
  view = make ? make(cluster, to) : {title: 'Not found', element: el('p', {}, 'There is no such view.'), update() {}};
  const heading = el('h1', {tabindex: '-1'}, view.title);
  // Before the element with the focus goes, such as a link of the last view.
  const hasFocus = document.activeElement !== search && document.activeElement !== document.body;
  main.replaceChildren(heading, view.element);
  document.title = `${view.title} - Elastic GPU`;
  if (to.view === 'search' && search.value !== to.parts[0]) search.value = to.parts[0] ?? '';
  if (to.view !== 'search' && document.activeElement !== search) search.value = '';
  for (const link of document.querySelectorAll('#views a'))
    link.toggleAttribute('aria-current', link.getAttribute('href') === route(parents[to.view] ?? to.view));
  for (const link of document.querySelectorAll('#views a[aria-current]')) {
    link.setAttribute('aria-current', 'page');
    reveal(link);
  }
  view.update();
  if (hasFocus) heading.focus({preventScroll: true});
  scrollTo(0, 0);
}

function askForToken(why) {
  denied = true;
  view?.close?.();
  view = null;
  setLive('Not signed in', 'retry');
  const input = el('input', {type: 'password', autocomplete: 'off', required: true, spellcheck: 'false'});
  const form = el('form', {class: 'token', on: {submit: (event) => {
    event.preventDefault();
    setToken(input.value);
    denied = false;
    setLive('Connecting', '');
    main.replaceChildren();
    stream.open();
    show();
  }}}, field('Bearer token', input), el('button', {type: 'submit'}, 'Sign in'));
  main.replaceChildren(
      el('h1', {tabindex: '-1'}, 'Sign in'),
      el('p', {}, 'The controller shows the cluster to users and service accounts with the right to get elasticgpus of ' +
          'elasticgpu.io. The token stays in this tab and is forgotten when it closes.'),
      el('p', {}, 'A token of a service account: ', el('code', {}, 'kubectl create token NAME')),
      el('p', {class: 'refusal', role: 'alert'}, why), form);
  input.focus();
}

const stream = new LiveStream(
    (name, data) => {
      const received = performance.now();
      cluster.apply(name, data);
      if (name === 'complete') setLive('Live', 'live');
      schedule(received);
    },
    (state, text) => {
      if (state === 'denied') askForToken(text);
      else setLive(`Not connected: ${text}`, 'retry');
    });

document.getElementById('views').append(...menu.map(([name, title]) => el('li', {}, el('a', {href: route(name)}, title))));
document.getElementById('search-form').addEventListener('submit', (event) => event.preventDefault());
search.addEventListener('input', () => {
  const text = search.value.trim();
  const hash = text ? route('search', text) : route('nodes');
  if (parseRoute(location.hash)?.view === 'search') history.replaceState(null, '', hash);
  else history.pushState(null, '', hash);
  show();
});
addEventListener('keydown', (event) => {
  const typing = event.target.closest?.('input, select, textarea');
  if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    search.focus();
    search.select();
  }
  if (event.key === 'Escape' && event.target === search) main.focus();
});
addEventListener('hashchange', show);
document.addEventListener('visibilitychange', () => {
  clearTimeout(hidden);
  if (document.hidden) {
    hidden = setTimeout(() => {
      stream.close();
      setLive('Paused', 'retry');
      hidden = 0;
    }, hiddenLimit);
  } else if (live.textContent === 'Paused') {
    setLive('Connecting', '');
    stream.open();
  }
});
setInterval(() => {
  if (!document.hidden && cluster.complete) view?.update();
}, ageInterval);
show();
stream.open();
