import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { expectCompleted, expectReplay } from '../../testkit/client/payment-answers.js';
import { GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import { requestText } from '../../testkit/client/raw-http.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { pause, until } from '../../testkit/time/until.js';

const PROCESSOR_DELAY_MS = 1_500;
/** The payment is under way by then, on a busy machine too, and its answer is not due yet. */
const STRAY_AFTER_MS = 500;
const DEADLINE_MS = 15_000;

/**
 * Bug: a client whose payment was under way got a 400 for it when stray bytes followed it on its connection. Cause: what
 * the parser refused was answered on the socket at once, before the answer that was due there. Fix: the refusal follows
 * the answers that the connection still owes to whole requests.
 */
describeDeployments('bytes after a whole payment, while it is under way', (deployment) => {
  const shared = shareService(deployment, { PROCESSOR_DELAY_MS: String(PROCESSOR_DELAY_MS) });

  it.concurrent.each([
    ['noise', 'NOISE\r\n\r\n', 400],
    ['one line end too many and a letter', '\r\n\r\nx\r\n\r\n', 400],
    ['a header section that is too long', requestText('GET / HTTP/1.1', [`X-Long: ${'a'.repeat(40_000)}`]), 431],
    ['CONNECT', requestText('CONNECT example.com:443 HTTP/1.1', []), 405],
  ])('leave it its answer, which comes first: %s', async (_what, stray, status) => {
    const key = await generateKey(shared.url);
    const received = await sendWithStray(key, stray);
    expect(received.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 200', `HTTP/1.1 ${status}`]);

    const answer = await until('the payment', DEADLINE_MS, async () => {
      const status = await paymentStatus(shared.url, key);
      return status.status === 200 && status;
    });
    expectReplay(await pay(shared.url, key), expectCompleted(answer));
  });

  /** All that the service sends on the connection until it closes it, or until the payment is surely done. */
  function sendWithStray(key: string, stray: string): Promise<string> {
    return new Promise((resolve) => {
      const socket = connect(shared.service.port, '127.0.0.1');
      let received = '';
      socket.setEncoding('latin1');
      socket.on('data', (chunk: string) => {
        received += chunk;
        if (received.includes('\r\n\r\n')) socket.end();
      });
      // A service that closes while we still send resets the connection.
      socket.on('error', () => {});
      socket.on('close', () => resolve(received));
      const headers = [
        `Idempotency-Key: ${key}`,
        'Content-Type: application/json',
        `Content-Length: ${GOOD_BODY.length}`,
      ];
      socket.write(requestText('POST /api/payment HTTP/1.1', headers, GOOD_BODY));
      pause(STRAY_AFTER_MS).then(() => socket.write(stray));
      setTimeout(() => socket.destroy(), DEADLINE_MS).unref();
    });
  }
});
