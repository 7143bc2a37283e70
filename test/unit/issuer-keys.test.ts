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
  const lines: string[] = [];
  const log = {
    error: (sentence: string) => void lines.push(`error: ${sentence}`),
    info: (sentence: string) => void lines.push(`info: ${sentence}`),
  };
  const check = createTokenCheck({ issuer, audience: AUDIENCE, jwksUrl }, clock, log);
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
  return { clock, states, lines };
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

/**
 * Bug: the keys of an issuer could not be renewed for hours, and no line of the log said so.
 * Cause: the background question dropped its failure, and a token's 503 named no reason.
 * Fix: the first failure, each hour of it, and its end are logged.
 */
test('an issuer that fails is logged at once, then every hour, and when it answers again', async () => {
  let said: string | number = 500;
  const { origin, asked } = await openIssuer(() => said);
  const { clock, states, lines } = checkOf('shop', `${origin}/jwks?api-key=secret`);
  const failure = (time: string, effect: string) =>
    `error: the keys of the token issuer cannot be fetched${time}: ${origin}/jwks answered 500, not 200 OK. ${effect}.`;
  expect(await states('known', 100)).toEqual(['unavailable']);
  clock.advance(COOLDOWN_MS);
  expect(await states('known', 100)).toEqual(['unavailable']);
  expect(lines.splice(0)).toEqual([failure('', 'Every token gets 503')]);

  said = JSON.stringify(keySet);
  clock.advance(COOLDOWN_MS);
  expect(await states('known')).toEqual(['authenticated']);
  expect(lines.splice(0)).toEqual(['info: the keys of the token issuer are fetched again']);

  said = 500;
  const refresh = async () => {
    const before = asked.length;
    clock.advance(REFRESH_MS);
    await expect.poll(() => asked.length).toBe(before + 1);
    // The answer has been read as soon as a token that has to wait for it is judged.
    await states('unknown');
  };
  for (let minute = 0; minute < 61; minute += 1) await refresh();
  const effect = 'Tokens with a known key are accepted, also if the issuer has withdrawn it since; the others get 503';
  expect(lines.splice(0)).toEqual([failure('', effect), failure(' for 60 minutes', effect)]);
  expect(await states('known')).toEqual(['authenticated']);
  said = JSON.stringify(keySet);
  await refresh();
  expect(lines).toEqual([
    'info: the keys of the token issuer are fetched again, after they could not be for 61 minutes',
  ]);
});

test('a key of the issuer that cannot be used is logged once in an hour', async () => {
  const keys = [{ kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA', kid: 'broken' }, ...keySet.keys];
  const { origin } = await openIssuer(() => JSON.stringify({ keys }));
  const { clock, states, lines } = checkOf('shop', `${origin}/jwks`);
  expect(await states('broken', 10)).toEqual(['unavailable']);
  expect(await states('known')).toEqual(['authenticated']);
  expect(lines).toEqual([
    expect.stringMatching(/^error: the key "broken" of the token issuer cannot be used: .+ Its tokens get 503\.$/),
  ]);
  clock.advance(60 * REFRESH_MS);
  expect(await states('broken')).toEqual(['unavailable']);
  expect(lines).toHaveLength(2);
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
