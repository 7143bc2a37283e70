import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { exchange, requestText } from '../../testkit/client/raw-http.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** What RFC 9110 and 9112 ask of an origin server and no other suite holds (docs/http.md). */
describeDeployments('an origin server', (deployment) => {
  const shared = shareService(deployment);

  const answerTo = async (text: string): Promise<Answer> => {
    const answer = await exchange(shared.service.port, text);
    if (!answer) throw new Error('the connection was closed without an answer');
    return answer;
  };

  it.each([
    'http://127.0.0.1/api/health/redis',
    'HTTP://another.example:81/api/health/redis?x=1',
    'https://user@example.com/api/health/redis',
  ])('takes a target in absolute form: %s', async (target) => {
    expect((await answerTo(requestText(`GET ${target} HTTP/1.1`, []))).json()).toMatchObject({ status: 'UP' });
  });

  it.each(['http://127.0.0.1', 'http://127.0.0.1/', 'http://127.0.0.1?x=1'])(
    'takes an absolute form without a path for the root: %s',
    async (target) => expectError(await answerTo(requestText(`GET ${target} HTTP/1.1`, [])), 404),
  );

  it('takes version 1.0, with and without Host', async () => {
    for (const host of ['', 'Host: a\r\n', 'Host: \r\n', 'Host: [::1]:80\r\n']) {
      expect((await answerTo(`GET /api/health/redis HTTP/1.0\r\n${host}\r\n`)).status).toBe(200);
    }
  });

  it('ignores empty lines before a request', async () => {
    expect((await answerTo(`\r\n\r\n${requestText('GET /api/health/redis HTTP/1.1', [])}`)).status).toBe(200);
  });

  it('answers a request that asks for another protocol in this one', async () => {
    const lines = ['Connection: Upgrade', 'Upgrade: websocket', 'Range: bytes=0-1'];
    expect((await answerTo(requestText('GET /api/health/redis HTTP/1.1', lines))).status).toBe(200);
  });

  it('dates every answer, also the refusal of what is no HTTP', async () => {
    const texts = [
      requestText('GET /api/health/redis HTTP/1.1', []),
      requestText('GET /nothing HTTP/1.1', []),
      requestText('CONNECT a:1 HTTP/1.1', []),
      requestText('GET / HTTP/1.1', ['Expect: x']),
      'NOISE\r\n\r\n',
    ];
    for (const text of texts) expect((await answerTo(text)).headers.date).toMatch(/^\w{3}, \d\d \w{3} \d{4} .* GMT$/);
  });

  it.each(['OPTIONS * HTTP/1.1', 'TRACE /api/payment HTTP/1.1', 'PROPFIND /api/payment HTTP/1.1'])(
    'refuses %s with the error body and repeats nothing of the request',
    async (line) => {
      const answer = await answerTo(requestText(line, ['X-Secret: told']));
      expectError(answer, answer.status);
      expect([404, 405]).toContain(answer.status);
      expect(JSON.stringify(answer)).not.toContain('told');
    },
  );

  describe('says the reason phrases of RFC 9110 in status line and body', () => {
    it('413', async () => {
      const key = await generateKey(shared.url);
      const body = `{"amount":"1.00","currency":"USD","more":"${'x'.repeat(20_000)}"}`;
      expectError(await pay(shared.url, key, body), 413);
      const head = [`Idempotency-Key: ${key}`, 'Content-Type: application/json', 'Content-Length: 20000'];
      expect(await statusLine(requestText('POST /api/payment HTTP/1.1', head))).toBe('413 Content Too Large');
    });

    it('404', async () => {
      expect(await statusLine(requestText('GET /nothing HTTP/1.1', []))).toBe('404 Not Found');
    });
  });

  it('answers a length for HEAD that is that of GET', async () => {
    for (const path of ['/nothing', '/api/transactions/1', '/api/transactions']) {
      const [get, head] = await Promise.all(['GET', 'HEAD'].map((method) => ask(`${shared.url}${path}`, { method })));
      expect(head?.status).toBe(get?.status);
      expect(head?.headers['content-length']).toBe(get?.headers['content-length']);
    }
  });

  async function statusLine(text: string): Promise<string | undefined> {
    return (await answerTo(text)).statusText;
  }
});
