// Routes in the fragment: #/node/NAME, #/claim/NAMESPACE/NAME, #/what-if?drain=NODE. Other fragments are ignored.

/** Returns {view, parts, query}, or null if the fragment is not a route. */
export function parseRoute(hash) {
  if (hash === '' || hash === '#') return {view: 'nodes', parts: [], query: new URLSearchParams()};
  if (!hash.startsWith('#/')) return null;
  const [path, query = ''] = hash.slice(2).split(/\?(.*)/s);
  let parts;
  try {
    parts = path.split('/').map(decodeURIComponent);
  } catch {
    return {view: 'unknown', parts: [], query: new URLSearchParams()};
  }
  return {view: parts.shift() || 'nodes', parts, query: new URLSearchParams(query)};
}
