import type { Random } from '../random.js';
import type { Draft } from './request-fuzzer.js';

/** A client that reads the answer to HEAD does not know its end. */
const CLOSE = 'Connection: close';

/** The request as text with one thing wrong that a client of HTTP never gets wrong; its body is left out. */
export function brokenText({ method, target: path, headers }: Draft, random: Random): string | undefined {
  if (!/^[!-~]{1,2000}$/.test(path)) return undefined;
  const lines = Object.entries(headers)
    .flatMap(([name, value]) => [value].flat().map((text) => `${name}: ${text}`))
    .filter((line) => /^[\x20-\x7e]{1,1000}$/.test(line) && !/^(host|expect|content-|x-large)/i.test(line));
  const good = { start: `${method} ${path} HTTP/1.1`, lines: ['Host: 127.0.0.1', CLOSE, ...lines] };
  // Without a request line nobody knows that it is HEAD, and it is answered as what it is not.
  const startless =
    method === 'HEAD' ? [] : [{ start: `${method}  ${path}` }, { start: `\u0001${method} ${path} HTTP/1.1` }];
  const broken = random.pick<Partial<typeof good>>([
    { start: `${method} ${path} HTTP/2.0` },
    { start: `${method} ${path} HTTP/1.9` },
    { start: `${method} ${path} HTTP/9` },
    ...startless,
    { lines: [CLOSE, ...lines] },
    { lines: ['Host: 127.0.0.1', ...good.lines] },
    { lines: ['Host: a b', CLOSE, ...lines] },
    { lines: [...good.lines, 'no colon'] },
    { lines: [...good.lines, 'X-Space : 1'] },
    { lines: [...good.lines, 'X-Fold: 1', ' 2'] },
    { lines: [...good.lines, 'Transfer-Encoding: gzip'] },
    { lines: [...good.lines, 'Transfer-Encoding: chunked, gzip'] },
    { lines: [...good.lines, 'Transfer-Encoding: gzip, chunked'] },
    { lines: [...good.lines, 'Transfer-Encoding: chunked', 'Content-Length: 3'] },
    { lines: [...good.lines, 'Content-Length: x'] },
    { lines: [...good.lines, `X-Large: ${'x'.repeat(20_000)}`] },
    { lines: [...good.lines, 'Expect: more'] },
  ]);
  const { start, lines: written } = { ...good, ...broken };
  return `${[start, ...written].join('\r\n')}\r\n\r\n`;
}
