import { describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { readSettings } from '#idempay/reference-processor/settings.js';
import { ask } from '../../testkit/client/http-client.js';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';

describe('the settings of the reference processor', () => {
  it('have their defaults when nothing is set, or set to nothing', () => {
    const defaults = { host: '127.0.0.1', port: 8090, chargeLog: './data/charges.ndjson', behaviour: USUAL_BEHAVIOUR };
    expect(readSettings({})).toEqual(defaults);
    expect(readSettings({ PROCESSOR_PORT: '', CHARGE_LOG: ' ', PROCESSOR_DEDUPLICATE: '' })).toEqual(defaults);
  });

  it('are read from the environment, next to variables of the service', () => {
    const place = { PROCESSOR_HOST: '0.0.0.0', PROCESSOR_PORT: '0', CHARGE_LOG: '/tmp/log' };
    const times = { PROCESSOR_LATENCY_MS: '5', PROCESSOR_REPLY_LATENCY_MS: '6' };
    const rates = { PROCESSOR_DECLINE_RATE: '0.1', PROCESSOR_FAIL_RATE: '1', PROCESSOR_LOST_REPLY_RATE: '.5' };
    const pending = { PROCESSOR_PENDING_RATE: '1', PROCESSOR_PENDING_MS: '900000', PROCESSOR_END_WITH: '425' };
    const refunds = { PROCESSOR_REFUND_PENDING_RATE: '0.25' };
    const rest = { PROCESSOR_DEDUPLICATE: 'false', PROCESSOR_REFUSE_WITH: '503' };
    const ofService = { PROCESSOR_URL: 'http://127.0.0.1:8090', PROCESSOR_TIMEOUT_MS: '1000' };
    const expectedRates = { declineRate: 0.1, failRate: 1, lostReplyRate: 0.5 };
    expect(readSettings({ ...place, ...times, ...rates, ...pending, ...refunds, ...rest, ...ofService })).toEqual({
      ...{ host: '0.0.0.0', port: 0, chargeLog: '/tmp/log' },
      behaviour: {
        ...{ latencyMs: 5, replyLatencyMs: 6, ...expectedRates },
        ...{
          pendingRate: 1,
          pendingMs: 900_000,
          refundPendingRate: 0.25,
          endWith: 425,
          deduplicate: false,
          refuseWith: 503,
        },
      },
    });
  });

  it.each([
    ['PROCESSOR_PORT', ['x', '-1', '65536', '1.5']],
    ['PROCESSOR_LATENCY_MS', ['x', '-1', '1.5', '2147483648']],
    ['PROCESSOR_REPLY_LATENCY_MS', ['true', '1e3']],
    ['PROCESSOR_DECLINE_RATE', ['1.1', '-0.1', 'half', 'NaN']],
    ['PROCESSOR_FAIL_RATE', ['2', 'Infinity']],
    ['PROCESSOR_LOST_REPLY_RATE', ['2', 'null']],
    ['PROCESSOR_PENDING_RATE', ['2', 'all']],
    ['PROCESSOR_PENDING_MS', ['0', '-1', '1.5', '31622400001']],
    ['PROCESSOR_REFUND_PENDING_RATE', ['-0.5', 'all']],
    ['PROCESSOR_END_WITH', ['200', '404', 'false']],
    ['PROCESSOR_DEDUPLICATE', ['yes', '1', 'TRUE']],
    ['PROCESSOR_REFUSE_WITH', ['200', '600', 'false']],
  ])('are refused when %s is bad', (name, values) => {
    for (const value of values) {
      const problems = [expect.stringMatching(new RegExp(`^${name} must be .*, not '${value}'$`))];
      const refusal = expect.objectContaining({ name: 'SettingsError', problems });
      expect(() => readSettings({ [name]: value })).toThrow(refusal);
    }
  });

  it('that are bad end the start with exit code 1 and every problem', async () => {
    const environment = { PROCESSOR_PORT: 'here', PROCESSOR_DECLINE_RATE: '2', PROCESSOR_DEDUPLICATE: 'maybe' };
    await expect(startReferenceProcessor({ environment })).rejects.toThrow(
      /"code":1.*PROCESSOR_PORT must.*PROCESSOR_DECLINE_RATE must.*PROCESSOR_DEDUPLICATE must/s,
    );
  });

  it('make the behaviour of the first request, and a port in use ends the start with a sentence', async () => {
    const behaviour = { ...USUAL_BEHAVIOUR, latencyMs: 3, declineRate: 0.5, deduplicate: false, refuseWith: 401 };
    const processor = await startReferenceProcessor({ behaviour });
    try {
      expect((await ask(`${processor.url}/behaviour`)).json()).toEqual(behaviour);
      const second = startReferenceProcessor({ port: processor.port });
      await expect(second).rejects.toThrow(/"code":1.*The port is in use .*PROCESSOR_PORT/s);
    } finally {
      await processor.close();
    }
  });
});
