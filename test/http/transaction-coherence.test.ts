import { expect, it } from 'vitest';
import {
  changeStatus,
  deleteTransaction,
  givenTransaction,
  MOVABLE_STATUSES,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { alongside, inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const TRANSACTIONS = 4;
const WRITES_PER_TRANSACTION = 30;
const READERS = 8;
const READS_PER_WRITE = 10;

describeDeployments('a read by id', (deployment) => {
  const shared = shareService(deployment);

  it('that starts after a change was acknowledged never shows an older status', async () => {
    const subjects = await inParallel(TRANSACTIONS, TRANSACTIONS, async () => ({
      id: (await givenTransaction(shared.url)).transactionId,
      // The n-th write sets the n-th status of an endless round; 0 is the status it was created with.
      begun: 0,
      acknowledged: 0,
      reads: 0,
    }));
    const statusOf = (write: number) => MOVABLE_STATUSES[write % MOVABLE_STATUSES.length] as string;

    const read = async (subject: (typeof subjects)[number]) => {
      const oldest = subject.acknowledged;
      const { status } = (await readTransaction(shared.url, subject.id)).json<Transaction>();
      const newest = subject.begun;
      subject.reads++;
      const allowed = Array.from({ length: newest - oldest + 1 }, (_, n) => statusOf(oldest + n));
      expect(allowed, `the statuses of writes ${oldest} to ${newest}`).toContain(status);
    };
    const write = async (subject: (typeof subjects)[number]) => {
      subject.begun++;
      const answer = await changeStatus(shared.url, subject.id, statusOf(subject.begun));
      expect(answer.status).toBe(200);
      subject.acknowledged = subject.begun;
      await read(subject);
    };

    await alongside(
      READERS,
      (loop) => read(subjects[loop % TRANSACTIONS] as (typeof subjects)[number]),
      async () => {
        await inParallel(TRANSACTIONS, TRANSACTIONS, async (n) => {
          const subject = subjects[n] as (typeof subjects)[number];
          for (let count = 1; count <= WRITES_PER_TRANSACTION; count++) {
            await write(subject);
            const enough = count * READS_PER_WRITE;
            await until('readers keep up with the writer', 20_000, () => subject.reads >= enough);
          }
        });
      },
    );
    const reads = subjects.reduce((sum, subject) => sum + subject.reads, 0);
    expect(reads).toBeGreaterThanOrEqual(TRANSACTIONS * WRITES_PER_TRANSACTION * READS_PER_WRITE);
  });

  it('that starts after a delete was acknowledged never finds the transaction', async () => {
    await inParallel(20, 4, async () => {
      const { transactionId } = await givenTransaction(shared.url);
      let begun = false;
      let acknowledged = false;
      let before = 0;
      let after = 0;
      const read = async () => {
        const wasGone = acknowledged;
        const { status } = await readTransaction(shared.url, transactionId);
        if (wasGone) expect(status).toBe(404);
        else if (!begun) expect(status).toBe(200);
        if (wasGone) after++;
        else before++;
      };
      await alongside(3, read, async () => {
        await until('reads before the delete', 20_000, () => before >= 6);
        begun = true;
        expect((await deleteTransaction(shared.url, transactionId)).status).toBe(204);
        acknowledged = true;
        await until('reads after the delete', 20_000, () => after >= 6);
      });
    });
  });

  it('that many start at once on an uncached id is right for each of them, and the next one hits', async () => {
    for (let round = 0; round < 10; round++) {
      const created = await givenTransaction(shared.url);
      const reads = await Promise.all(
        Array.from({ length: 20 }, () => readTransaction(shared.url, created.transactionId)),
      );
      for (const answer of reads) expect(answer.json()).toEqual(created);
      const next = await readTransaction(shared.url, created.transactionId);
      expect(next.headers['cache-status']).toBe('transactionCache; hit');
    }
  });

  it('that races a change on an uncached id leaves nothing old behind', async () => {
    for (let round = 0; round < 25; round++) {
      const { transactionId } = await givenTransaction(shared.url);
      const [changed] = await Promise.all([
        changeStatus(shared.url, transactionId, 'FLAGGED'),
        ...Array.from({ length: 8 }, () => readTransaction(shared.url, transactionId)),
      ]);
      expect(changed.status).toBe(200);
      expect((await readTransaction(shared.url, transactionId)).text).toBe(changed.text);
    }
  });
});
