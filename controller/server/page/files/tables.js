// Tables that keep unchanged rows, so that an update costs only what changes, and focus stays.
import {el} from './dom.js';
import {number} from './format.js';

export class DataTable {
  #rows = new Map();
  #limit;

  /**
   * columns: [{title, text(item), node(item)?, long?, narrow?, number?}]. A cell is made again only if its text changes;
   * node() makes other content than the text. On phones a row becomes a block: the first cell, then the others with
   * their titles, and each long one on lines of its own. narrow: never divided into lines. key(item) is unique.
   */
  constructor({caption, columns, key, page = 100, empty = 'None.'}) {
    Object.assign(this, {columns, key, page, empty});
    this.#limit = page;
    this.body = el('tbody');
    const heads = columns.map((column) => el('th', {scope: 'col', class: classOf(column)}, column.title));
    this.table = el('table', {class: 'stack'}, el('caption', {class: 'hidden'}, caption), el('thead', {}, el('tr', {}, heads)), this.body);
    this.note = el('p', {class: 'note'});
    this.more = el('button', {type: 'button', on: {click: () => this.#showMore()}}, 'Show more');
    this.element = el('div', {}, el('div', {class: 'scroll', role: 'region', 'aria-label': caption, tabindex: '0'}, this.table),
                      this.note, this.more);
    this.items = [];
  }

  update(items) {
    this.items = items;
    const shown = items.slice(0, this.#limit);
    const rows = new Map();
    let before = this.body.firstChild;
    for (const item of shown) {
      const key = this.key(item);
      const row = this.#rows.get(key) ?? {line: el('tr'), texts: []};
      this.#fill(row, item);
      rows.set(key, row);
      if (row.line === before) before = before.nextSibling;
      else this.body.insertBefore(row.line, before);
    }
    while (before) {
      const next = before.nextSibling;
      before.remove();
      before = next;
    }
    this.#rows = rows;
    this.table.hidden = items.length === 0;
    this.more.hidden = items.length <= shown.length;
    const note = items.length === 0 ? this.empty : items.length > shown.length ? `${number(shown.length)} of ${number(items.length)}` : '';
    if (this.note.textContent !== note) this.note.textContent = note;
  }

  #fill(row, item) {
    this.columns.forEach((column, i) => {
      const text = String(column.text(item) ?? '');
      if (row.texts[i] === text) return;
      const cell = row.line.cells[i] ?? row.line.appendChild(this.#cell(column, i));
      cell.replaceChildren(column.node ? column.node(item) : text);
      row.texts[i] = text;
    });
  }

  #cell(column, i) {
    return i === 0 ? el('th', {scope: 'row', class: classOf(column)}) : el('td', {'data-title': column.title, class: classOf(column)});
  }

  #showMore() {
    const first = this.#limit;
    this.#limit += Math.max(this.page, this.#limit);
    this.update(this.items);
    this.body.rows[first]?.querySelector('a, button')?.focus();
  }
}

function classOf(column) {
  return ['long', 'narrow', 'number'].filter((kind) => column[kind]).join(' ') || null;
}
