/**
 * Bug: the console told an operator that nothing was recorded when a gateway answered by itself after the service had recorded it.
 * Cause: it judged by the status, and took `message` of whatever JSON came.
 * Fix: only what is surely the service's own counts (rule P23); after everything else it is not known what became of the request.
 */
import { describe, expect, test } from 'vitest';
import { publicErrors } from '#idempay/http/errors/catalogue.js';
import { errorOf, ServiceError, Unreachable } from '../../../console/src/http/service-error.js';
import { json, page, refusal } from '../../../testkit/client-library/scripted-fetch.js';

describe('an answer to the console', () => {
  test('is a refusal only by the service’s own hand, and proves that nothing was done by its sentence', async () => {
    const own = await errorOf(refusal(412, publicErrors.preconditionFailed('payment').message));
    expect(own).toMatchObject({ status: 412, isProven: true });
    const replaced = await errorOf(refusal(412, 'Response blocked'));
    expect(replaced).toMatchObject({ status: 412, isProven: false });
    const body = { status: 412, error: 'Precondition Failed', message: 'Response blocked' };
    for (const answer of [page(412), page(403), json(body, 412), page(502)]) {
      const error = await errorOf(answer);
      expect(error).toBeInstanceOf(Unreachable);
      expect(error).not.toBeInstanceOf(ServiceError);
      expect(error.message).toContain("not the service's own");
    }
  });
});
