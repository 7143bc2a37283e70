import { expect, onTestFinished, test } from 'vitest';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { claimAttempt, completed, givenClaim, givenSettled, newKey } from '../../testkit/protocol/payment-attempts.js';
import { statesAtOnce } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts, OpenPorts } from '../../testkit/protocol/ports.js';

const CLAIMS = 20;

/**
 * Guarantees of every Ledger on simulated payments and others (rule P14): one kind of them is claimed in a store, the kind of the first
 * claim; names of other processors may be any number. Each test has stores of its own.
 */
export function ledgerProcessorsContract(open: OpenPorts): void {
  async function openPorts(): Promise<ContractPorts> {
    const ports = await open();
    onTestFinished(() => ports.close());
    return ports;
  }

  test.each([
    ['simulated', 'https://a.example?no-user'],
    ['https://a.example?no-user', 'simulated'],
  ])('after a payment of %s none of %s is claimed, and nothing is written', async (first, other) => {
    const { ledger } = await openPorts();
    await givenClaim(ledger, { processor: first });
    const key = newKey();
    for (let time = 0; time < 2; time += 1) {
      const claim = ledger.claim(claimAttempt({ key, processor: other }));
      await expect(claim).rejects.toThrow(StoreUnavailable);
    }
    expect(await ledger.find(key)).toEqual({ state: 'absent' });
    await givenClaim(ledger, { processor: first });
  });

  test('payments of two processors are claimed next to each other', async () => {
    const { ledger } = await openPorts();
    await givenClaim(ledger, { processor: 'https://a.example?no-user' });
    await givenClaim(ledger, { processor: 'https://b.example?no-user' });
    await givenClaim(ledger, { processor: 'https://a.example?no-user' });
  });

  test('of first claims of both kinds at once those of one kind are claimed, and all of them', async () => {
    const { ledger } = await openPorts();
    const processors = ['simulated', 'https://a.example?no-user'] as const;
    const states = processors.map((processor) =>
      statesAtOnce(CLAIMS, () =>
        ledger.claim(claimAttempt({ processor })).catch((fault: Error) => ({ state: fault.name })),
      ),
    );
    const found = await Promise.all(states);
    expect(found).toContainEqual({ claimed: CLAIMS });
    expect(found).toContainEqual({ [StoreUnavailable.name]: CLAIMS });
  });

  test('completed payments are counted by their processors, and no others', async () => {
    const { ledger, paymentHistory } = await openPorts();
    expect(await paymentHistory.countPaid()).toEqual({ byProcessor: new Map(), isPart: false });
    for (const [processor, paid] of [
      ['https://a.example?no-user', 2],
      ['https://b.example?no-user', 1],
    ] as const) {
      await givenClaim(ledger, { processor });
      const claims = Array.from({ length: paid }, () => givenClaim(ledger, { processor }));
      for (const claim of await Promise.all(claims)) await givenSettled(ledger, claim, { outcome: completed(claim) });
    }
    const byProcessor = new Map([
      ['https://a.example?no-user', 2],
      ['https://b.example?no-user', 1],
    ]);
    expect(await paymentHistory.countPaid()).toEqual({ byProcessor, isPart: false });
  });
}
