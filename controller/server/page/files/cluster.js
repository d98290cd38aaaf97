// State of the cluster as the stream reports it. Views read it and never change it.

const byName = new Intl.Collator('en', {numeric: true}).compare;
const trueIfWrong = ['AccessLost', 'IsolationBypassed'];  // types of conditions
const totalKeys = ['cards', 'core', 'usedCore', 'memory', 'usedMemory', 'notOffered'];

function sumOf(node) {
  const sum = {cards: node.cards.length, core: 0, usedCore: 0, memory: 0, usedMemory: 0, notOffered: 0};
  for (const card of node.cards) {
    sum.core += card.core;
    sum.usedCore += card.used.core;
    sum.memory += card.memory;
    sum.usedMemory += card.used.memory;
    if (!card.offered) ++sum.notOffered;
  }
  return sum;
}

/** The False condition that says what a claim waits for; null if none does. */
export function obstacle(claim) {
  for (const type of ['Accepted', 'Bound'])
    for (const condition of claim.conditions)
      if (condition.type === type && condition.status === 'False') return condition;
  return null;
}

/** What a claim waits for, or what is wrong with it, as one text. */
export function waitsFor(claim) {
  const found = obstacle(claim);
  if (found) return found.message ? `${found.reason}: ${found.message}` : found.reason;
  if (claim.phase === 'Bound') {
    const wrong = claim.conditions.find((each) => each.status === (trueIfWrong.includes(each.type) ? 'True' : 'False'));
    return wrong ? `${wrong.reason}: ${wrong.message}` : '';
  }
  return claim.conditions.length === 0 ? 'not seen by the controller yet' : '';
}

export class Cluster {
  nodes = new Map();
  claims = new Map();
  quotas = new Map();
  classes = [];
  reservations = [];
  complete = false;
  totals = Object.fromEntries(totalKeys.map((key) => [key, 0]));
  #order = null;
  #listeners = new Set();

  /** Calls the listener after each event. Returns a function that ends this. */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  apply(name, data) {
    const content = JSON.parse(data);
    this[`_${name}`]?.(content);
    for (const listener of this.#listeners) listener(name);
  }

  /** Nodes by name. */
  sortedNodes() {
    this.#order ??= [...this.nodes.keys()].sort(byName);
    return this.#order.map((name) => this.nodes.get(name));
  }

  /** Claims: pending ones first, the oldest first, then by name. */
  sortedClaims() {
    const rank = (claim) => (claim.phase === 'Bound' ? 2 : claim.phase === 'Lost' ? 0 : 1);
    return [...this.claims.values()].sort(
        (a, b) => rank(a) - rank(b) || (rank(a) === 2 ? 0 : a.created - b.created) || (a.claim < b.claim ? -1 : 1));
  }

  phases() {
    const count = {Pending: 0, Bound: 0, Lost: 0};
    for (const claim of this.claims.values()) count[claim.phase] = (count[claim.phase] ?? 0) + 1;
    return count;
  }

  /** Allocations of each claim: claim name to [{node, card, allocation}]. */
  allocations() {
    const found = new Map();
    for (const node of this.nodes.values())
      for (const card of node.cards)
        for (const allocation of card.claims) {
          const list = found.get(allocation.claim);
          const entry = {node, card, allocation};
          if (list) list.push(entry);
          else found.set(allocation.claim, [entry]);
        }
    return found;
  }

  /** Gangs: key to {namespace, name, size, topology, podGroup, members}. */
  gangs() {
    const found = new Map();
    for (const claim of this.claims.values()) {
      if (!claim.gang) continue;
      const namespace = claim.claim.split('/')[0];
      const key = `${namespace}/${claim.gang.podGroup ? 'PodGroup ' : ''}${claim.gang.name}`;
      if (!found.has(key)) found.set(key, {...claim.gang, key, namespace, members: []});
      found.get(key).members.push(claim);
    }
    return [...found.values()].sort((a, b) => byName(a.key, b.key));
  }

  _start() {
    this.nodes.clear();
    this.claims.clear();
    this.quotas.clear();
    this.classes = [];
    this.reservations = [];
    this.complete = false;
    for (const key of totalKeys) this.totals[key] = 0;
    this.#order = null;
  }

  _complete() {
    this.complete = true;
  }

  _nodes({nodes, gone}) {
    for (const node of nodes) {
      node.sum = sumOf(node);
      this.#count(this.nodes.get(node.name), -1);
      this.#count(node, 1);
      if (!this.nodes.has(node.name)) this.#order = null;
      this.nodes.set(node.name, node);
    }
    for (const name of gone) {
      this.#count(this.nodes.get(name), -1);
      if (this.nodes.delete(name)) this.#order = null;
    }
  }

  #count(node, by) {
    if (node)
      for (const key of totalKeys) this.totals[key] += by * node.sum[key];
  }

  _claims({claims, gone}) {
    for (const claim of claims) this.claims.set(claim.claim, claim);
    for (const name of gone) this.claims.delete(name);
  }

  _quotas({quotas, gone}) {
    for (const quota of quotas) this.quotas.set(quota.quota, quota);
    for (const name of gone) this.quotas.delete(name);
  }

  _classes({classes}) {
    this.classes = classes;
  }

  _reservations({reservations}) {
    this.reservations = reservations;
  }
}
