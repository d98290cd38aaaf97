// Reads /events. EventSource cannot send a token, therefore fetch() and a parser of server-sent events.
import {refusalText, requestHeaders} from './ask.js';

const silence = 30_000;  // ms without a byte: the connection is dead, because the server sends a heartbeat
const firstDelay = 1_000, longestDelay = 15_000;

/** Splits a text into events; keeps an incomplete one for the next text. */
export class EventParser {
  #rest = '';
  #searched = 0;

  /** Calls each(name, data) for every complete event. */
  add(text, each) {
    this.#rest += text;
    for (;;) {
      const end = this.#rest.indexOf('\n\n', Math.max(0, this.#searched - 1));
      if (end < 0) break;
      let name = 'message', data = '';
      for (const line of this.#rest.slice(0, end).split('\n')) {
        if (line.startsWith('event: ')) name = line.slice(7);
        if (line.startsWith('data: ')) data += line.slice(6);
      }
      this.#rest = this.#rest.slice(end + 2);
      this.#searched = 0;
      if (data) each(name, data);
    }
    this.#searched = this.#rest.length;
  }
}

/** Keeps one stream open until close(). onState(state, text): "live" | "retry" | "denied". */
export class LiveStream {
  #abort = null;
  #delay = firstDelay;
  #retry = 0;

  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
  }

  open() {
    this.close();
    this.#delay = firstDelay;
    this.#run();
  }

  close() {
    clearTimeout(this.#retry);
    this.#abort?.abort();
    this.#abort = null;
  }

  async #run() {
    const abort = new AbortController();
    this.#abort = abort;
    let why = 'the connection ended';
    try {
      const response = await fetch('events', {headers: requestHeaders(), cache: 'no-store', signal: abort.signal});
      if (response.status === 401 || response.status === 403) {
        const text = await refusalText(response);
        if (this.#abort === abort) this.onState('denied', text);
        return;
      }
      if (!response.ok) throw new Error(await refusalText(response));
      this.#delay = firstDelay;
      if (await this.#read(response.body, abort)) return;
    } catch (error) {
      why = error.message;
    }
    if (this.#abort !== abort) return;
    this.onState('retry', why);
    this.#retry = setTimeout(() => this.#run(), this.#delay);
    this.#delay = Math.min(2 * this.#delay, longestDelay);
  }

  /** Returns true if the server ended the stream because the caller is no longer allowed. */
  async #read(body, abort) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    let denied = false;
    for (;;) {
      const watchdog = setTimeout(() => abort.abort(), silence);
      const {done, value} = await reader.read().finally(() => clearTimeout(watchdog));
      if (done || this.#abort !== abort) break;
      parser.add(value, (name, data) => {
        if (name === 'denied') denied = true;
        else this.onEvent(name, data);
      });
    }
    if (denied && this.#abort === abort) this.onState('denied', 'The token is no longer accepted.');
    return denied || this.#abort !== abort;
  }
}
