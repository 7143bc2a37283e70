import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { examineKeySet } from '#idempay/doctor/tokens.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, pay } from '../../testkit/client/http-client.js';
import { embedded, type Stores } from '../../testkit/deployments/deployments.js';

const ISSUER = 'https://id.example';
const AUDIENCE = 'idempay';
const CLAIMS: JWTPayload = { client_id: 'shop', scope: 'openid payments:write payments:read' };
const INVALID = 'The API key or token is unknown, expired, or not for this service. Send a valid one.';
const UNCHECKED = 'The token cannot be checked at the moment, and nothing was begun. Retry in a few seconds.';

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;

/** The issuer's key set, served as it is at the moment. */
let keySet: object;
let issuer: Server;
let jwksUrl: string;
let rsa: KeyPair;
let elliptic: KeyPair;
let stores: Stores;
let url: string;

beforeAll(async () => {
  [rsa, elliptic] = await Promise.all([generateKeyPair('RS256'), generateKeyPair('ES256')]);
  keySet = {
    keys: [
      { ...(await exportJWK(rsa.publicKey)), kid: 'rsa', alg: 'RS256' },
      { ...(await exportJWK(elliptic.publicKey)), kid: 'elliptic' },
    ],
  };
  issuer = createServer((_request, response) => response.end(JSON.stringify(keySet))).listen(0, '127.0.0.1');
  await once(issuer, 'listening');
  jwksUrl = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}/jwks`;
  stores = await embedded.open();
  url = (await stores.serve(settings(jwksUrl))).url;
});
afterAll(async () => {
  issuer.close();
  await stores.close();
});

function settings(from: string) {
  return { AUTH: 'required', JWT_ISSUER: ISSUER, JWT_AUDIENCE: AUDIENCE, JWT_JWKS_URL: from };
}

/** A token that is as it should be, but for what is given. */
function tokenWith(
  claims: JWTPayload,
  {
    kid = 'rsa',
    key = rsa.privateKey,
    alg = 'RS256',
    expiresIn = '5m',
    typ,
  }: { kid?: string; key?: Uint8Array | KeyPair['privateKey']; alg?: string; expiresIn?: string; typ?: unknown } = {},
): Promise<string> {
  return new SignJWT({ ...CLAIMS, ...claims })
    .setProtectedHeader({ alg, kid, ...(typ === undefined ? {} : { typ: typ as string }) })
    .setIssuer(claims.iss ?? ISSUER)
    .setAudience(claims.aud ?? AUDIENCE)
    .setExpirationTime(expiresIn)
    .sign(key);
}

const newKey = (token: string, at = url): Promise<Answer> =>
  ask(`${at}/api/server-generated/generate-key`, { headers: { Authorization: `Bearer ${token}` } });

test.each<[string, (response: ServerResponse) => void, string, RegExp]>([
  ['the keys', (response) => response.end(JSON.stringify(keySet)), 'ok', /^2 public keys, in [\d.]+ ms$/],
  ['secrets only', (response) => response.end('{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}'), 'wrong', /^0 public keys/],
  ['a page', (response) => response.end('<html>'), 'wrong', /JSON/],
  ['an error', (response) => response.writeHead(500).end(), 'wrong', /200 OK/],
  ['a closed connection', (response) => response.destroy(), 'wrong', /fetch failed: /],
])('the doctor judges an issuer that answers with %s', async (_what, answer, verdict, found) => {
  const server = createServer((_request, response) => answer(response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const from = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`;
  const row = await examineKeySet({ issuer: ISSUER, audience: AUDIENCE, jwksUrl: from });
  expect(row).toMatchObject({ what: 'JWT_JWKS_URL', verdict, found: expect.stringMatching(found) });
});

test.each<[string, () => Promise<string>]>([
  ['RS256', () => tokenWith({})],
  ['ES256', () => tokenWith({}, { kid: 'elliptic', key: elliptic.privateKey, alg: 'ES256' })],
  ['scopes as a list', () => tokenWith({ scope: undefined, scp: ['payments:write'] })],
  ['scopes as a text in scp', () => tokenWith({ scope: undefined, scp: 'payments:write' })],
  ['a client named by azp', () => tokenWith({ client_id: undefined, azp: 'shop' })],
  ['a name of 255 characters', () => tokenWith({ client_id: '\u{1f6d2}'.repeat(255) })],
  ['a client named by sub', () => tokenWith({ client_id: undefined, sub: 'shop' })],
  ['the type JWT', () => tokenWith({}, { typ: 'JWT' })],
  ['the type at+jwt', () => tokenWith({}, { typ: 'at+jwt' })],
  ['the whole media type, in any case', () => tokenWith({}, { typ: 'application/AT+JWT' })],
])('a token with %s is taken', async (_what, token) => {
  expect((await newKey(await token())).status).toBe(200);
});

test.each<[string, () => Promise<string>]>([
  ['that has expired', () => tokenWith({}, { expiresIn: '-1m' })],
  [
    'that never expires',
    async () =>
      new SignJWT({ ...CLAIMS, iss: ISSUER, aud: AUDIENCE })
        .setProtectedHeader({ alg: 'RS256', kid: 'rsa' })
        .sign(rsa.privateKey),
  ],
  ['that is not valid yet', () => tokenWith({ nbf: Math.floor(Date.now() / 1000) + 600 })],
  ['of another issuer', () => tokenWith({ iss: 'https://other.example' })],
  ['for another audience', () => tokenWith({ aud: 'another service' })],
  ['of nobody', () => tokenWith({ client_id: undefined })],
  ['that says that a user signed out', () => tokenWith({}, { typ: 'logout+jwt' })],
  ['of an empty type', () => tokenWith({}, { typ: '' })],
  ['whose type is no text', () => tokenWith({}, { typ: 1 })],
  ['of a client that a store would take for another one', () => tokenWith({ client_id: 'shop\0' })],
  ['of a client whose name is no text', () => tokenWith({ client_id: '\ud800' })],
  ['of a client with a name that is too long', () => tokenWith({ client_id: 's'.repeat(256) })],
  [
    'with alg none',
    async () => new UnsecuredJWT(CLAIMS).setIssuer(ISSUER).setAudience(AUDIENCE).setExpirationTime('5m').encode(),
  ],
  [
    'signed with the public key as a symmetric one',
    async () => tokenWith({}, { alg: 'HS256', key: new TextEncoder().encode(await exportSPKI(rsa.publicKey)) }),
  ],
  [
    'signed with another key under a known id',
    async () => tokenWith({}, { key: (await generateKeyPair('RS256')).privateKey }),
  ],
  ['with a key id that the issuer does not know', () => tokenWith({}, { kid: 'unknown' })],
  [
    'that was changed',
    async () => (await tokenWith({})).replace(/\.[^.]+\./, `.${Buffer.from('{"sub":"x"}').toString('base64url')}.`),
  ],
  ['that is none', async () => 'abc.def.ghi'],
])('a token %s is refused', async (_what, token) => {
  const answer = await newKey(await token());
  expectError(answer, 401, INVALID);
  expect(answer.headers['www-authenticate']).toBe('Bearer error="invalid_token"');
});

test('scopes of other services give nothing', async () => {
  expectError(await newKey(await tokenWith({ scope: 'payments:admin payments' })), 403);
});

test('the client of a token owns its keys, and no client of another name does', async () => {
  const key = (await newKey(await tokenWith({}))).json<string>();
  const payWith = async (claims: JWTPayload) =>
    pay(url, key, undefined, { headers: { Authorization: `Bearer ${await tokenWith(claims)}` } });
  expectError(await payWith({ client_id: 'rival' }), 400, 'Invalid or missing Idempotency-Key.');
  expect((await payWith({})).status).toBe(200);
});

/**
 * Bug: a user could see and pay with the keys of the application whose name it had as its subject.
 * Cause: `client_id`, `azp` and `sub` all became the client `jwt:<id>`.
 * Fix: a subject becomes `jwt-sub:<sub>`.
 */
test('a subject is not the application of the same name', async () => {
  const clientOf = async (claims: JWTPayload) => {
    const headers = { Authorization: `Bearer ${await tokenWith({ client_id: undefined, ...claims })}` };
    return (await ask(`${url}/api/session`, { headers })).json<{ client: string }>().client;
  };
  expect(await clientOf({ client_id: 'shop', azp: 'other', sub: 'user' })).toBe('jwt:shop');
  expect(await clientOf({ azp: 'shop', sub: 'user' })).toBe('jwt:shop');
  expect(await clientOf({ sub: 'shop' })).toBe('jwt-sub:shop');
  const key = (await newKey(await tokenWith({}))).json<string>();
  const subject = `Bearer ${await tokenWith({ client_id: undefined, sub: 'shop' })}`;
  expectError(await pay(url, key, undefined, { headers: { Authorization: subject } }), 400);
});

test('an issuer that is down makes a token 503, and a key that is known stays good', async () => {
  const [known, unknown] = [await tokenWith({}), await tokenWith({}, { kid: 'unknown' })];
  const away = await embedded.open();
  const server = createServer((_request, response) => response.end(JSON.stringify(keySet))).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const service = await away.serve(settings(`http://127.0.0.1:${port}/jwks`));
    expect((await newKey(known, service.url)).status).toBe(200);
    server.closeAllConnections();
    server.close();
    expect((await newKey(known, service.url)).status).toBe(200);
    // While the key set is fresh its word counts; after that the issuer would have to be asked.
    expect((await newKey(unknown, service.url)).status).toBe(401);
    await service.stop();
    const later = await away.serve(settings(`http://127.0.0.1:${port}/jwks`));
    expectError(await newKey(known, later.url), 503, UNCHECKED);
  } finally {
    server.close();
    await away.close();
  }
});

test('a key set that is none makes a token 503', async () => {
  const token = await tokenWith({});
  const stores = await embedded.open();
  const broken = createServer((_request, response) => response.end('<html>')).listen(0, '127.0.0.1');
  try {
    await once(broken, 'listening');
    const service = await stores.serve(settings(`http://127.0.0.1:${(broken.address() as AddressInfo).port}/`));
    expectError(await newKey(token, service.url), 503, UNCHECKED);
  } finally {
    broken.close();
    await stores.close();
  }
});
