import { describe, expect, test } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

describe('the files of the console', () => {
  const shared = shareService(embedded);
  const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    fetch(`${shared.url}${path}`, {
      method,
      redirect: 'manual',
      headers: { 'Accept-Encoding': 'identity', ...headers },
    });
  const namesIn = (page: string) => [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path as string);

  test('are a page without script or style of its own, and what it names', async () => {
    const page = await (await get('/console')).text();
    expect(page).not.toMatch(/<style|style=|<script>|onload=|javascript:|https?:/);
    const names = namesIn(page);
    expect(names.map((name) => /^console\/[\w-]+-[\w-]{8}\.(js|css|svg)$/.test(name))).toEqual(names.map(() => true));
    for (const name of names) {
      const { status, headers } = await get(`/${name}`);
      expect([name, status]).toEqual([name, 200]);
      expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
      expect(headers.get('content-type')).toMatch(/^(text\/(css|javascript); charset=utf-8|image\/svg\+xml)$/);
    }
  });

  test('may ask nobody but this service, and run none of their own text', async () => {
    const policy = (await get('/console')).headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/unsafe|\*|https?:|data:/);
  });

  test.each([
    ['gzip', true],
    ['br, gzip;q=0.5', true],
    ['GZIP', true],
    ['gzip;q=0', false],
    ['gzip; q=0.0, br', false],
    ['identity', false],
    ['x-gzip', false],
  ])('are compressed for a client that says Accept-Encoding: %s: %s', async (accepted, isCompressed) => {
    const { headers } = await get('/console', { 'Accept-Encoding': accepted }, 'HEAD');
    expect(headers.get('content-encoding')).toBe(isCompressed ? 'gzip' : null);
    expect(headers.get('vary')).toBe('Accept-Encoding');
  });

  test('are the same, compressed or not, with tags of their own', async () => {
    const plain = await get('/console');
    const compressed = await get('/console', { 'Accept-Encoding': 'gzip' });
    expect(compressed.headers.get('etag')).not.toBe(plain.headers.get('etag'));
    expect(await compressed.text()).toBe(await plain.text());
    for (const [accepted, answer] of [
      ['identity', plain],
      ['gzip', compressed],
    ] as const) {
      const tag = answer.headers.get('etag') ?? '';
      const again = await get('/console', { 'Accept-Encoding': accepted, 'If-None-Match': tag });
      expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', tag]);
    }
  });

  test('are found from a path with a slash at its end', async () => {
    const { status, headers } = await get('/console/');
    expect([status, headers.get('location'), headers.get('cache-control')]).toEqual([308, '../console', 'no-cache']);
  });

  test.each(['index.html', 'index.html.gz', '..%2fmain.js', 'constructor'])('have none named %s', async (name) => {
    expect((await get(`/console/${name}`)).status).toBe(404);
  });
});
