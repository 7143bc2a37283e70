import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask } from '../../testkit/client/http-client.js';
import { exchange, requestText } from '../../testkit/client/raw-http.js';
import { givenTransaction, readTransaction, type Transaction } from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' };

describeDeployments('requests that few clients send', (deployment) => {
  const shared = shareService(deployment);

  /**
   * Bug: CONNECT got no answer. Cause: Node hands it to no route, and closes the connection when nobody listens for it.
   * Fix: the server listens, and answers as to every method that is not served.
   */
  describe('CONNECT', () => {
    it.each(['example.com:443', '127.0.0.1:80', '/api/payment'])('is 405 with the error body: %s', async (target) => {
      const answer = await exchange(shared.service.port, requestText(`CONNECT ${target} HTTP/1.1`, []));
      if (!answer) throw new Error('the connection was closed without an answer');
      expectError(answer, 405);
      expect(answer.headers.allow).toBe('DELETE, GET, HEAD, POST, PUT');
    });

    it('does not disturb other requests', async () => {
      await exchange(shared.service.port, requestText('CONNECT example.com:443 HTTP/1.1', []));
      expect((await ask(`${shared.url}/api/health/redis`)).status).toBe(200);
    });
  });

  /**
   * Bug: a path that ends in a slash was told off for its transaction id. Cause: the router finds the id's route with an
   * empty id. Fix: an empty id names nothing.
   */
  describe('a transaction path without an id', () => {
    it('is 404 as any unknown path', async () => {
      expectError(await ask(`${shared.url}/api/transactions/`), 404);
      expectError(await ask(`${shared.url}/api/transactions/`, { method: 'DELETE' }), 404);
      expectError(await ask(`${shared.url}/api/transactions/?from=A`), 404);
      expectError(await ask(`${shared.url}/api/transactions//status?newStatus=FLAGGED`, { method: 'PUT' }), 404);
    });
  });

  /**
   * Bug: a status change by query was refused with 415 when the client named a type for the body that it did not send, as
   * clients for forms do. Cause: the type was judged by its name alone. Fix: a body that is empty is none, whatever its type.
   */
  describe('a status change by query', () => {
    it.each([
      ['a form of no bytes', { ...FORM, 'Content-Length': '0' }],
      ['a form in no chunks', { ...FORM, 'Transfer-Encoding': 'chunked' }],
      ['a text of no bytes', { 'Content-Type': 'text/plain', 'Content-Length': '0' }],
      ['a type and nothing else', FORM],
    ])('is taken with %s', async (_what, headers) => {
      const { transactionId } = await givenTransaction(shared.url);
      const url = `${shared.url}/api/transactions/${transactionId}/status?newStatus=FLAGGED`;
      const answer = await ask(url, { method: 'PUT', headers });
      expect(answer.status, answer.text).toBe(200);
      expect(answer.json<Transaction>().status).toBe('FLAGGED');
      expect((await readTransaction(shared.url, transactionId)).json<Transaction>().status).toBe('FLAGGED');
    });

    it('is still refused with 415 when the form holds something', async () => {
      const { transactionId, status } = await givenTransaction(shared.url);
      const url = `${shared.url}/api/transactions/${transactionId}/status?newStatus=FLAGGED`;
      expectError(await ask(url, { method: 'PUT', headers: FORM, body: 'newStatus=FLAGGED' }), 415);
      expect((await readTransaction(shared.url, transactionId)).json<Transaction>().status).toBe(status);
    });
  });
});
