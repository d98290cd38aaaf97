// What-if questions: steps in order, and optionally a claim that is placed after them. The route's query is the query
// of /simulate, so that a question can be sent as a link.
import {ask} from './ask.js';
import {el, field} from './dom.js';
import {whatIfResult} from './what_if_result.js';

const stepNames = ['drain', 'add', 'resize', 'release'];
const amounts = ['gpu', 'gpu-core', 'gpu-memory'];
const suggested = 500;

function input(name, options = {}) {
  return el('input', {name, type: 'text', autocomplete: 'off', spellcheck: 'false', ...options});
}

function list(id, values) {
  return el('datalist', {id}, values.slice(0, suggested).map((value) => el('option', {value})));
}

/** Form whose values go to onSubmit as {name: text}. */
function form(title, fields, action, onSubmit) {
  return el('form', {class: 'what-if-form', on: {submit: (event) => {
    event.preventDefault();
    const values = {};
    for (const [name, value] of new FormData(event.target)) values[name] = value.trim();
    onSubmit(values);
  }}}, el('fieldset', {}, el('legend', {}, title), fields, el('button', {type: 'submit'}, action)));
}

function amountFields() {
  return amounts.map((name) => field(name, input(name, {class: 'short', placeholder: name === 'gpu-memory' ? '8Gi' : ''})));
}

function resizeText(values) {
  return [values.claim, ...amounts.filter((name) => values[name]).map((name) => `${name}=${values[name]}`)].join(',');
}

/** Name for added nodes that no other step uses. */
function newName(query) {
  return `new-${query.getAll('add').length + 1}`;
}

export function whatIfView(cluster, {query}) {
  const abort = new AbortController();
  const result = el('section', {'aria-live': 'polite'}), nodeNames = el('div'), claimNames = el('div'), classNames = el('div');
  const go = (change) => {
    const next = new URLSearchParams(query);
    change(next);
    location.hash = `#/what-if?${next}`;
  };
  const node = (name, label) => field(label, input(name, {list: 'node-names', required: true}));
  const claim = (name, required = true) => field('Claim', input(name, {list: 'claim-names', required}));
  const steps = [...query].map(([name, value], i) => el('li', {}, `${name} ${value} `,
      el('button', {type: 'button', 'aria-label': `Remove ${name} ${value}`, on: {click: () => go((next) => {
        const rest = [...next].filter((_, k) => k !== i);
        for (const key of new Set(next.keys())) next.delete(key);
        for (const [key, text] of rest) next.append(key, text);
      })}}, 'Remove')));
  const forms = el('div', {class: 'forms'},
      form('Drain a node', [node('node', 'Node')], 'Drain', (values) => go((next) => next.append('drain', values.node))),
      form('Add nodes', [node('like', 'Like node'), field('Number', input('count', {class: 'short', value: '3', inputmode: 'numeric', required: true}))], 'Add',
           (values) => go((next) => next.append('add', `${newName(next)},like=${values.like},count=${values.count}`))),
      form('Resize a claim', [claim('claim'), amountFields()], 'Resize', (values) => go((next) => next.append('resize', resizeText(values)))),
      form('Delete a claim', [claim('claim')], 'Delete', (values) => go((next) => next.append('release', values.claim))),
      form('Ask for a new claim', [field('Class', input('class', {list: 'class-names'})), amountFields()], 'Ask', (values) => go((next) => {
        next.delete('claim');
        for (const name of ['class', ...amounts]) {
          next.delete(name);
          if (values[name]) next.set(name, values[name]);
        }
      })),
      form('Ask for an existing claim', [claim('claim')], 'Ask', (values) => go((next) => {
        for (const name of ['class', ...amounts]) next.delete(name);
        next.set('claim', values.claim);
      })));
  async function run() {
    if ([...query].length === 0) return;
    result.replaceChildren(el('p', {}, 'Computing.'));
    const asked = [...query].filter(([name]) => stepNames.includes(name) || ['claim', 'class', 'namespace', ...amounts].includes(name));
    try {
      const answer = await ask('simulate', [...asked, ['top', '5'], ['names', '5']], abort.signal);
      result.replaceChildren(el('h2', {}, 'Result'), ...whatIfResult(answer, cluster.nodes));
    } catch (error) {
      if (!abort.signal.aborted) result.replaceChildren(el('h2', {}, 'Result'), el('p', {class: 'refusal'}, error.message));
    }
  }
  run();
  let filled = false;
  return {
    title: 'What if',
    element: el('div', {},
                el('p', {}, 'Questions are answered on a copy of the cluster. Nothing is reserved, moved or written.'),
                steps.length > 0 ? [el('h2', {}, 'Question'), el('ol', {class: 'steps'}, steps)] : '', result,
                el('h2', {}, steps.length > 0 ? 'Add to the question' : 'Ask'), forms, nodeNames, claimNames, classNames),
    update() {
      if (filled || !cluster.complete) return;
      filled = true;
      nodeNames.replaceChildren(list('node-names', cluster.sortedNodes().map((each) => each.name)));
      claimNames.replaceChildren(list('claim-names', cluster.sortedClaims().map((each) => each.claim)));
      classNames.replaceChildren(list('class-names', cluster.classes.map((each) => each.class)));
    },
    close: () => abort.abort(),
  };
}
