import { expect, test } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { runCommand } from '../../testkit/processes/command.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';

const NO_PAYMENT = '0190f3a2-0000-7000-8000-000000000000';
const shared = shareService(embedded);

/** Most commands of the tests run in the process of the test, which is right only as long as this holds. */
test.each([
  ['help', ['pay', '--help']],
  ['an argument that is not known', ['srve']],
  ['a mistake as JSON', ['pay', '--amount', '1', '--json']],
  ['a payment that the service refuses', ['pay', '--amount', '1.001', '--currency', 'EUR', '--reference', 'order-1']],
  ['what is not found', ['status', NO_PAYMENT]],
  ['an empty list', ['payments', 'list']],
  ['a question without a terminal', ['transactions', 'delete', '1']],
  [
    'a change without a service',
    ['payments', 'cancel', NO_PAYMENT, '--yes', '--url', 'http://127.0.0.1:1', '--deadline', '1'],
  ],
])(
  'a command in the process of the test ends and prints as a process of its own does: %s',
  async (_what, parameters) => {
    const [here, ofItsOwn] = await Promise.all([
      runCommandHere(shared.url, parameters),
      runCommand(shared.url, parameters),
    ]);
    expect(here).toEqual(ofItsOwn);
  },
);
