// Creates elements. Texts become text nodes only, so that names and messages never become HTML.

/** attributes: `on` = {event: listener}, `style` = {property: value}; all others are attributes; null and false omit one. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on')
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === 'style')
      for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else
      element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ''));
  return element;
}

/** Route with its parts and query encoded: route('claim', 'ns', 'name'). */
export function route(...parts) {
  return '#/' + parts.map(encodeURIComponent).join('/');
}

export function nodeLink(name) {
  return name ? el('a', {href: route('node', name)}, name) : '';
}

export function claimLink(name) {
  return name ? el('a', {href: route('claim', ...name.split('/'))}, name) : '';
}

export function badge(text, kind) {
  return el('span', {class: `badge ${kind}`}, text);
}

/** Cell of a table of class `stack`, which shows the title before it on phones. */
export function cell(title, content, kind = null) {
  return el('td', {'data-title': title, class: kind}, content);
}

/** Definition list of [term, text or node] pairs; pairs without a value are left out. */
export function facts(pairs) {
  const list = el('dl', {class: 'facts'});
  for (const [term, value] of pairs)
    if (value !== '' && value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0))
      list.append(el('div', {}, el('dt', {}, term), el('dd', {}, value)));
  return list;
}

/** Puts a separator between nodes. */
export function joined(nodes, separator = ', ') {
  return nodes.flatMap((node, i) => (i === 0 ? [node] : [separator, node]));
}

function morph(old, next) {
  if (old.isEqualNode(next)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== next.nodeName) {
    old.replaceWith(next);
    return;
  }
  for (const {name} of [...old.attributes])
    if (!next.hasAttribute(name)) old.removeAttribute(name);
  for (const {name, value} of next.attributes)
    if (name === 'style') old.style.cssText = next.style.cssText;  // as an attribute, the policy would block it
    else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morphChildren(old, [...next.childNodes]);
}

function morphChildren(host, nodes) {
  nodes.forEach((node, i) => {
    if (host.childNodes[i]) morph(host.childNodes[i], node);
    else host.append(node);
  });
  while (host.childNodes.length > nodes.length) host.lastChild.remove();
}

/** Changes the content of the host to this one, and keeps the elements that do not change, so that focus and selection
    stay. The content has no listeners. */
export function fill(host, content) {
  morphChildren(host, [...el('div', {}, content).childNodes]);
}

/** Labelled field of a form. */
export function field(label, input) {
  return el('label', {class: 'field'}, el('span', {}, label), input);
}
