// Map of all nodes and cards on one canvas. The canvas is as large as its viewport and draws only the visible nodes, so
// that its cost does not depend on the size of the cluster. The table of nodes below has the same content as text.
import {el, route} from './dom.js';
import {bytes, percent} from './format.js';

const gap = 8, padding = 8, titleHeight = 20;
const barHeight = 9, barPitch = 13, groupGap = 5;   // one line for each card
const columnHeight = 26, compactCell = 112;         // compact: one column for each card
const detailedCell = 270, detailedLimit = 64;       // at most so many nodes are shown with one line for each card
const fastLinks = ['nvswitch', 'nvlink'];
const colourNames = ['surface', 'text', 'muted', 'track', 'track-line', 'core', 'memory', 'trouble', 'use'];

function linked(card, next) {
  return fastLinks.some((type) => card.links?.[type]?.includes(next.index));
}

export class ClusterMap {
  #nodes = [];
  #rows = [];
  #frame = 0;
  #colours = null;

  /** onPoint(text): describes the card under the pointer. */
  constructor(onPoint) {
    this.onPoint = onPoint;
    this.canvas = el('canvas', {'aria-hidden': 'true'});
    this.space = el('div', {class: 'map-space'}, this.canvas);
    this.element = el('div', {class: 'map', role: 'region', tabindex: '0',
      'aria-label': 'Map of nodes and cards; the table of nodes has the same content'}, this.space);
    this.element.addEventListener('scroll', () => this.#schedule());
    this.canvas.addEventListener('pointermove', (event) => this.#point(event));
    this.canvas.addEventListener('pointerleave', () => this.onPoint(''));
    this.canvas.addEventListener('click', (event) => this.#open(event));
    this.resized = new ResizeObserver(() => this.update(this.#nodes));
    this.resized.observe(this.element);
    this.dark = matchMedia('(prefers-color-scheme: dark)');
    this.recolour = () => {
      this.#colours = null;
      this.#schedule();
    };
    this.dark.addEventListener('change', this.recolour);
  }

  close() {
    this.resized.disconnect();
    this.dark.removeEventListener('change', this.recolour);
    cancelAnimationFrame(this.#frame);
  }

  /** Shows these nodes, at once. */
  update(nodes) {
    this.#nodes = nodes;
    this.#layOut();
    this.#draw();
  }

  #schedule() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #layOut() {
    this.width = this.element.clientWidth;
    this.compact = this.#nodes.length > detailedLimit;
    const least = this.compact ? compactCell : detailedCell;
    this.columns = Math.max(1, Math.floor((this.width + gap) / (least + gap)));
    this.cell = (this.width - gap * (this.columns - 1)) / this.columns;
    this.#rows = [];
    let top = 0;
    for (let i = 0; i < this.#nodes.length; i += this.columns) {
      let height = 0;
      for (let n = i; n < Math.min(i + this.columns, this.#nodes.length); ++n)
        height = Math.max(height, this.#heightOf(this.#nodes[n]));
      this.#rows.push({top, height, from: i});
      top += height + gap;
    }
    this.space.style.setProperty('height', `${Math.max(0, top - gap)}px`);
  }

  #heightOf(node) {
    if (this.compact) return titleHeight + columnHeight + padding;
    let height = titleHeight + padding + barPitch * Math.max(1, node.cards.length);
    for (let i = 1; i < node.cards.length; ++i)
      if (node.cards[i].numa !== node.cards[i - 1].numa) height += groupGap;
    return height;
  }

  /** Number of the first row whose end is below `y`. */
  #rowAt(y) {
    let low = 0, high = this.#rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#rows[middle].top + this.#rows[middle].height < y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #draw() {
    const scale = devicePixelRatio || 1;
    this.canvas.style.setProperty('height', '0');  // the old height must not keep the map larger than its content
    const height = this.element.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.setProperty('height', `${height}px`);
    if (!this.#colours) {
      const style = getComputedStyle(this.element);
      this.#colours = Object.fromEntries(colourNames.map((name) => [name, style.getPropertyValue(`--${name}`)]));
    }
    const context = this.canvas.getContext('2d');
    context.scale(scale, scale);
    context.clearRect(0, 0, this.width, height);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const scroll = this.element.scrollTop;
    for (let r = this.#rowAt(scroll); r < this.#rows.length && this.#rows[r].top < scroll + height; ++r) {
      const row = this.#rows[r];
      for (let c = 0; c < this.columns && row.from + c < this.#nodes.length; ++c)
        this.#drawNode(context, this.#nodes[row.from + c], c * (this.cell + gap), row.top - scroll, row.height);
    }
  }

  #drawNode(context, node, x, y, height) {
    const colours = this.#colours;
    context.fillStyle = colours.surface;
    context.fillRect(x, y, this.cell, height);
    const share = percent(node.sum.usedCore, node.sum.core);
    context.fillStyle = node.schedulable ? colours.text : colours.muted;
    const text = node.cards.length === 0 ? 'no cards' : share;
    context.textAlign = 'right';
    context.fillText(text, x + this.cell - padding, y + titleHeight / 2 + 2);
    context.textAlign = 'left';
    const name = (node.name || '(no node)') + (node.schedulable ? '' : ' (closed)');
    context.fillText(this.#fitted(name, this.cell - 2 * padding - 7 * text.length - 6), x + padding, y + titleHeight / 2 + 2);
    if (this.compact) this.#drawColumns(context, node, x, y);
    else this.#drawLines(context, node, x, y);
  }

  #fitted(text, width) {
    const max = Math.floor(width / 6.6);
    return text.length <= max ? text : `${text.slice(0, Math.max(1, max - 1))}\u2026`;
  }

  /** One line for each card: index, core, memory. A gap separates NUMA nodes, a bracket joins linked cards. */
  #drawLines(context, node, x, y) {
    const left = x + padding + 26;
    const width = (this.cell - 2 * padding - 26 - 6) / 2;
    let top = y + titleHeight + 2;
    node.cards.forEach((card, i) => {
      if (i > 0 && card.numa !== node.cards[i - 1].numa) top += groupGap;
      context.fillStyle = card.offered ? this.#colours.muted : this.#colours.trouble;
      context.fillText(card.offered ? String(card.index) : `${card.index} !`, x + padding, top + barHeight / 2 + 0.5);
      this.#drawBar(context, left, top, width, barHeight, card, 'core');
      this.#drawBar(context, left + width + 6, top, width, barHeight, card, 'memory');
      const next = node.cards[i + 1];
      if (next && linked(card, next)) {
        context.fillStyle = this.#colours.muted;
        context.fillRect(left - 5, top + barHeight / 2, 1.5, barPitch + (card.numa !== next.numa ? groupGap : 0));
      }
      top += barPitch;
    });
  }

  /** Compact: one column for each card, core on the left and memory on the right. */
  #drawColumns(context, node, x, y) {
    const count = Math.max(1, node.cards.length);
    const pitch = Math.min(14, (this.cell - 2 * padding) / count);
    const top = y + titleHeight;
    node.cards.forEach((card, i) => {
      const left = x + padding + i * pitch;
      const width = Math.max(1, (pitch - 3) / 2);
      this.#drawColumn(context, left, top, width, card, 'core');
      this.#drawColumn(context, left + width, top, width, card, 'memory');
      const next = node.cards[i + 1];
      if (next && linked(card, next)) {
        context.fillStyle = this.#colours.muted;
        context.fillRect(left + width, top + columnHeight + 2, pitch, 1.5);
      }
    });
  }

  #drawColumn(context, x, y, width, card, kind) {
    const filled = columnHeight * Math.min(1, card[kind] > 0 ? card.used[kind] / card[kind] : 0);
    context.fillStyle = card.offered ? this.#colours.track : this.#colours.trouble;
    context.fillRect(x, y, width, columnHeight);
    context.fillStyle = this.#colours[kind];
    context.fillRect(x, y + columnHeight - filled, width, filled);
  }

  #drawBar(context, x, y, width, height, card, kind) {
    const whole = card[kind];
    context.fillStyle = this.#colours.track;
    context.fillRect(x, y, width, height);
    let at = x;
    for (const allocation of card.claims) {
      const part = whole > 0 ? width * Math.min(1, allocation[kind] / whole) : 0;
      context.fillStyle = this.#colours[kind];
      context.fillRect(at, y, Math.max(0, Math.min(part, x + width - at) - 1), height);
      at = Math.min(at + part, x + width);
    }
    const used = kind === 'core' ? card.usage?.smPercent / 100 : card.usage?.memory / whole;
    if (used > 0) {
      context.fillStyle = this.#colours.use;
      context.fillRect(x, y + height - 2.5, width * Math.min(1, used), 2.5);
    }
    context.strokeStyle = card.offered ? this.#colours['track-line'] : this.#colours.trouble;
    context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  }

  #nodeAt(event) {
    const y = event.offsetY + this.element.scrollTop;
    const row = this.#rows[this.#rowAt(y)];
    const column = Math.floor(event.offsetX / (this.cell + gap));
    if (!row || y < row.top || column >= this.columns || event.offsetX - column * (this.cell + gap) > this.cell) return null;
    return this.#nodes[row.from + column] ?? null;
  }

  #point(event) {
    const node = this.#nodeAt(event);
    this.canvas.style.setProperty('cursor', node ? 'pointer' : 'default');
    this.onPoint(node ? nodeText(node) : '');
  }

  #open(event) {
    const node = this.#nodeAt(event);
    if (node) location.hash = route('node', node.name);
  }
}

function nodeText(node) {
  const sum = node.sum;
  const wrong = sum.notOffered > 0 ? `, ${sum.notOffered} not offered` : '';
  return `${node.name || '(no node)'}: ${sum.cards} cards${wrong}, core ${percent(sum.usedCore, sum.core)}, ` +
      `memory ${bytes(sum.usedMemory)} of ${bytes(sum.memory)}`;
}
