import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { fetchKeySet } from '#idempay/access/issuer.js';
import { createTokenCheck } from '#idempay/access/tokens.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const AUDIENCE = 'idempay';
const COOLDOWN_MS = 10_000;
const REFRESH_MS = 60_000;

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;
let pair: KeyPair;
let keySet: { keys: JWK[] };

beforeAll(async () => {
  pair = await generateKeyPair('ES256');
  keySet = { keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'known' }] };
});

/** An issuer that answers as it is told, and the paths that it was asked for. */
async function openIssuer(answer: (path: string, origin: string) => string | number) {
  const asked: string[] = [];
  const listener: RequestListener = ({ url = '' }: IncomingMessage, response) => {
    asked.push(url);
    const said = answer(url, origin);
    if (typeof said === 'number') response.writeHead(said).end();
    else response.end(said);
  };
  const server = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { origin, asked };
}

function checkOf(issuer: string, jwksUrl?: string) {
  const clock = new HandClock();
  const check = createTokenCheck({ issuer, audience: AUDIENCE, jwksUrl }, clock);
  onTestFinished(() => check.close());
  const states = async (kid: string, count = 1) => {
    const token = await new SignJWT({ client_id: 'shop' })
      .setProtectedHeader({ alg: 'ES256', kid })
      .setIssuer(issuer)
      .setAudience(AUDIENCE)
      .setExpirationTime('5m')
      .sign(pair.privateKey);
    const results = await Promise.all(Array.from({ length: count }, () => check.check(token)));
    return [...new Set(results.map(({ state }) => state))];
  };
  return { clock, states };
}

/**
 * Bug: each token of a stranger made the service call an issuer that failed: 200 tokens, 200 calls.
 * Cause: the pause between two calls began with a successful one only.
 * Fix: it begins with each call, and until its end the last answer counts, also a failure.
 */
test.each<[string, string | number]>([
  ['fails', 500],
  ['redirects', 302],
  ['answers with a page', '<html>'],
  ['answers with no set of keys', '{"keys":{}}'],
])('an issuer that %s is asked once in ten seconds, whatever arrives', async (_what, answer) => {
  let said: string | number = answer;
  const { origin, asked } = await openIssuer(() => said);
  const { clock, states } = checkOf('shop', `${origin}/jwks`);
  for (let round = 1; round <= 3; round += 1) {
    expect(await states('known', 100)).toEqual(['unavailable']);
    clock.advance(COOLDOWN_MS - 1);
    expect(await states('unknown', 100)).toEqual(['unavailable']);
    expect(asked).toHaveLength(round);
    clock.advance(1);
  }
  said = JSON.stringify(keySet);
  expect(await states('known')).toEqual(['authenticated']);
  expect(await states('unknown', 100)).toEqual(['invalid']);
  expect(asked).toHaveLength(4);
  said = 500;
  clock.advance(COOLDOWN_MS);
  // The known key stays good; the unknown one may be new, and the issuer cannot be asked.
  expect(await states('known', 100)).toEqual(['authenticated']);
  expect(await states('unknown', 100)).toEqual(['unavailable']);
  expect(await states('unknown', 100)).toEqual(['unavailable']);
  expect(asked).toHaveLength(5);
});

test('a key that the issuer withdrew is refused after a minute, and one that it added is taken after the pause', async () => {
  let keys = keySet.keys;
  const { origin, asked } = await openIssuer(() => JSON.stringify({ keys }));
  const { clock, states } = checkOf('shop', `${origin}/jwks`);
  expect(await states('known')).toEqual(['authenticated']);
  keys = keySet.keys.map((key) => ({ ...key, kid: 'new' }));
  expect(await states('new')).toEqual(['invalid']);
  clock.advance(COOLDOWN_MS);
  expect(await states('new')).toEqual(['authenticated']);
  keys = keySet.keys;
  clock.advance(REFRESH_MS - COOLDOWN_MS);
  await expect.poll(() => states('new')).toEqual(['invalid']);
  expect(asked).toHaveLength(3);
});

test.each([
  ['', ''],
  ['/tenant', '/tenant'],
  ['/', ''],
])('without JWT_JWKS_URL the metadata of an issuer that ends with %j say where its keys are', async (end, path) => {
  const { origin, asked } = await openIssuer((url, at) =>
    url === '/keys' ? JSON.stringify(keySet) : JSON.stringify({ issuer: `${at}${end}`, jwks_uri: `${at}/keys` }),
  );
  const { states } = checkOf(`${origin}${end}`);
  expect(await states('known')).toEqual(['authenticated']);
  expect(asked).toEqual([`${path}/.well-known/openid-configuration`, '/keys']);
});

test.each<[string, (origin: string) => object, RegExp]>([
  [
    'of another issuer',
    (origin) => ({ issuer: `${origin}/`, jwks_uri: `${origin}/keys` }),
    /is that of another issuer/,
  ],
  ['without an address of keys', (issuer) => ({ issuer }), /has no jwks_uri with https/],
  ['with keys over plain HTTP', (issuer) => ({ issuer, jwks_uri: 'http://id.example/' }), /has no jwks_uri with https/],
])('metadata %s are refused', async (_what, metadata, sentence) => {
  const { origin, asked } = await openIssuer((_path, at) => JSON.stringify(metadata(at)));
  await expect(fetchKeySet({ issuer: origin, audience: AUDIENCE, jwksUrl: undefined })).rejects.toThrow(sentence);
  expect(asked).toHaveLength(1);
});

test('a set of keys has at most 256 KiB', async () => {
  const spaces = (bytes: number) => `{"keys":[]${' '.repeat(bytes - 11)}}`;
  const { origin } = await openIssuer((path) => spaces(path === '/large' ? 262_145 : 262_144));
  const settings = { issuer: 'shop', audience: AUDIENCE };
  expect((await fetchKeySet({ ...settings, jwksUrl: `${origin}/jwks` })).keys).toEqual([]);
  await expect(fetchKeySet({ ...settings, jwksUrl: `${origin}/large` })).rejects.toThrow('more than 262144 bytes');
});
