// Requests to the operations endpoint. The token is kept in this variable only, never in storage or in a URL.

let token = '';

export function setToken(text) {
  token = text.trim();
}

export function requestHeaders() {
  return token ? {Authorization: `Bearer ${token}`} : {};
}

/** Text of a refusal: a Kubernetes Status or plain text. */
export async function refusalText(response) {
  const text = await response.text();
  try {
    const message = JSON.parse(text).message;
    if (message) return message;
  } catch {
    // plain text
  }
  return text.trim() || `status ${response.status}`;
}

/** Returns the JSON answer. query: URLSearchParams or pairs. Throws an Error with the endpoint's message. */
export async function ask(path, query, signal) {
  const text = new URLSearchParams(query).toString();
  const response = await fetch(text ? `${path}?${text}` : path, {headers: requestHeaders(), cache: 'no-store', signal});
  if (!response.ok) throw new Error(await refusalText(response));
  return response.json();
}
