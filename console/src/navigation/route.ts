import { useEffect, useState } from 'preact/hooks';
import type { Access } from '../access/session.js';

/** The text behind `#`: `#/payment/KEY?tab=x` is the view `payment`, the rest `KEY`, and a query. */
export interface Route {
  readonly view: string;
  /** Decoded; empty: there is none. */
  readonly rest: string;
  readonly query: URLSearchParams;
}

/** The properties that each view is given. */
export interface ViewProperties extends Access {
  readonly route: Route;
}

export function routeOf(hash: string): Route {
  const [path = '', query = ''] = splitOnce(hash.replace(/^#\/?/, ''), '?');
  const [view = '', rest = ''] = splitOnce(path, '/');
  return { view: decoded(view), rest: decoded(rest), query: new URLSearchParams(query) };
}

/** For `href` and `navigate`. Undefined and empty values are left out of the query. */
export function hashOf(view: string, rest = '', query: Readonly<Record<string, string | undefined>> = {}): string {
  const set = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const search = new URLSearchParams(set).toString();
  return `#/${view}${rest === '' ? '' : `/${encodeURIComponent(rest)}`}${search === '' ? '' : `?${search}`}`;
}

/** `replace`: without an entry in the tab's history, for filters that change as they are typed. */
export function navigate(hash: string, { replace = false } = {}): void {
  if (!replace) {
    location.hash = hash;
    return;
  }
  history.replaceState(null, '', hash);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const read = () => setHash(location.hash);
    addEventListener('hashchange', read);
    // It may have changed since the first render.
    read();
    return () => removeEventListener('hashchange', read);
  }, []);
  return routeOf(hash);
}

function splitOnce(text: string, at: string): [string, string] {
  const index = text.indexOf(at);
  return index < 0 ? [text, ''] : [text.slice(0, index), text.slice(index + 1)];
}

/** Typed or pasted addresses may be encoded wrongly: then they are taken as they stand. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
