// Number of further claims of each class that fit now.
import {ask} from './ask.js';
import {el, field} from './dom.js';
import {number} from './format.js';
import {DataTable} from './tables.js';

const amounts = ['gpu', 'gpu-core', 'gpu-memory'];

function requests(subject) {
  return Object.entries(subject.requests).map(([key, value]) => `${key.split('/').pop()} ${value}`).join(', ');
}

/** Query: class, gpu, gpu-core, gpu-memory, namespace, as of /forecast. */
export function forecastView(cluster, {query}) {
  const abort = new AbortController();
  const state = el('p', {role: 'status'}, 'Computing.');
  const table = new DataTable({caption: 'Forecast', key: (each) => each.class, empty: '', columns: [
    {title: 'Class', text: (each) => each.class},
    {title: 'Further claims', number: true, text: (each) => number(each.count) + (each.more ? ' or more' : '')},
    {title: 'Size', long: true, text: (each) => `${requests(each.subject)} (${each.of})`},
    {title: 'By model', long: true, text: (each) => Object.entries(each.byModel).map(([model, count]) => `${model}: ${number(count)}`).join(', ')},
    {title: 'Obstacle', long: true, text: (each) => [each.quota, each.subject.notDecided].filter(Boolean).join('; ')},
  ]});
  const classes = el('select', {name: 'class'}, el('option', {value: ''}, 'Every class'));
  const form = el('form', {class: 'tools', on: {submit: (event) => {
    event.preventDefault();
    const next = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value.trim()) next.set(name, value.trim());
    if (`#/forecast?${next}` === location.hash) run();
    else location.hash = `#/forecast?${next}`;
  }}}, field('Class', classes), amounts.map((name) => field(name, el('input', {name, type: 'text', class: 'short', value: query.get(name) ?? ''}))),
                  field('Namespace (its quotas)', el('input', {name: 'namespace', type: 'text', value: query.get('namespace') ?? ''})),
                  el('button', {type: 'submit'}, 'Compute'));
  async function run() {
    state.textContent = 'Computing.';
    try {
      const answer = await ask('forecast', query, abort.signal);
      table.update(answer.forecasts);
      state.textContent = answer.forecasts.length > 0 ? 'As of now. It is not updated by itself.' : 'There are no classes.';
    } catch (error) {
      if (!abort.signal.aborted) state.textContent = error.message;
    }
  }
  table.update([]);
  run();
  return {
    title: 'Forecast',
    element: el('div', {}, el('p', {}, 'How many more claims would fit now, each of the given size, or of the usual size of the class.'), form, state, table.element),
    update() {
      if (classes.options.length > 1 || cluster.classes.length === 0) return;
      classes.append(...cluster.classes.map((each) => el('option', {value: each.class}, each.class)));
      classes.value = query.get('class') ?? '';
    },
    close: () => abort.abort(),
  };
}
