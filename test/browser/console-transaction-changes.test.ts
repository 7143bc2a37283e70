import type { Route } from 'playwright-core';
import { expect, test } from 'vitest';
import {
  changeStatus,
  deleteTransaction,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { accessibilityProblems, consoles, expectClean } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { givenTransactions, hashOf, rowOf } from '../../testkit/console/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** The browser says of each refused request that it failed. */
const CONFLICT = /the server responded with a status of (412|404)/;

describeDeployments('changing transactions in the console', (deployment) => {
  const shared = shareService(deployment);
  const tabs = consoles();
  const givenMany = (count: number) => givenTransactions(shared.url, count);

  test('changes a status after a confirmation, and says so', async () => {
    const { from, created } = await givenMany(2);
    const [transaction] = created as [Transaction];
    const tab = await tabs.open(shared.url, { hash: hashOf({ from }) });
    const { page } = tab;
    await rowOf(tab, transaction)
      .getByRole('button', { name: /^Status/ })
      .click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('FLAGGED').check();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `transaction-status-${deployment.name}`);
    await dialog.getByRole('button', { name: 'Change to FLAGGED' }).click();
    await page.getByText(`Transaction ${transaction.transactionId} is FLAGGED now.`).waitFor();
    await rowOf(tab, transaction).getByText('FLAGGED', { exact: true }).waitFor();
    expect((await readTransaction(shared.url, transaction.transactionId)).json()).toMatchObject({ status: 'FLAGGED' });

    // Out of a final status nothing leads, so it is asked for twice.
    await rowOf(tab, transaction)
      .getByRole('button', { name: /^Status/ })
      .click();
    await dialog.getByLabel('CANCELLED').check();
    expect(await dialog.getByRole('button', { name: 'Change to CANCELLED' }).isDisabled()).toBe(true);
    await dialog.getByLabel('I know that CANCELLED is final').check();
    await dialog.getByRole('button', { name: 'Change to CANCELLED' }).click();
    await rowOf(tab, transaction).getByText('final', { exact: true }).waitFor();
    expect(
      await rowOf(tab, transaction)
        .getByRole('button', { name: /^Status/ })
        .count(),
    ).toBe(0);
    expectClean(tab, shared.url);
  });

  test('shows what changed behind the page, and lets the operator decide again', async () => {
    const { from, created } = await givenMany(3);
    const [transaction, ending, leaving] = created as [Transaction, Transaction, Transaction];
    const tab = await tabs.open(shared.url, { hash: hashOf({ from }) });
    const { page } = tab;
    const dialog = page.getByRole('dialog');
    const ask = async (of: Transaction, status: string) => {
      await rowOf(tab, of)
        .getByRole('button', { name: /^Status/ })
        .click();
      await dialog.getByLabel(status).check();
    };
    const send = (status: string) => dialog.getByRole('button', { name: `Change to ${status}` }).click();

    await ask(transaction, 'COMPLETED');
    await changeStatus(shared.url, transaction.transactionId, 'BLOCKED');
    await send('COMPLETED');
    await dialog.getByText('It was changed meanwhile, and your request changed nothing.').waitFor();
    const compared = dialog.getByRole('row', { name: /^Status/ });
    expect(await compared.getByRole('cell').allTextContents()).toEqual(['PENDING', 'BLOCKED']);
    expect((await readTransaction(shared.url, transaction.transactionId)).json()).toMatchObject({ status: 'BLOCKED' });
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `transaction-conflict-${deployment.name}`);
    await send('COMPLETED');
    await rowOf(tab, transaction).getByText('COMPLETED', { exact: true }).waitFor();

    await ask(ending, 'FLAGGED');
    await changeStatus(shared.url, ending.transactionId, 'FAILED');
    await send('FLAGGED');
    await dialog.getByText('FAILED is final: the status cannot change any more.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await rowOf(tab, ending).getByText('final', { exact: true }).waitFor();

    await ask(leaving, 'FLAGGED');
    await deleteTransaction(shared.url, leaving.transactionId);
    await send('FLAGGED');
    await page
      .getByText(`Transaction ${leaving.transactionId} is not there any more: somebody else deleted it.`)
      .waitFor();
    expect(await rowOf(tab, leaving).count()).toBe(0);
    expectClean(tab, shared.url, CONFLICT);
  });

  test('deletes what the operator saw, and not what it became', async () => {
    const { from, created } = await givenMany(2);
    const [changed, deleted] = created as [Transaction, Transaction];
    const tab = await tabs.open(shared.url, { hash: hashOf({ from }) });
    const { page } = tab;
    const dialog = page.getByRole('dialog');
    await rowOf(tab, deleted)
      .getByRole('button', { name: /^Delete/ })
      .click();
    expect(await dialog.getByRole('button', { name: 'Delete', exact: true }).isDisabled()).toBe(true);
    await page.keyboard.press('Escape');
    await rowOf(tab, deleted)
      .getByRole('button', { name: /^Delete/ })
      .click();
    await dialog.getByLabel('I want it gone for good').check();
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText(`Transaction ${deleted.transactionId} is deleted.`).waitFor();
    expect((await readTransaction(shared.url, deleted.transactionId)).status).toBe(404);

    await rowOf(tab, changed)
      .getByRole('button', { name: /^Delete/ })
      .click();
    await dialog.getByLabel('I want it gone for good').check();
    await changeStatus(shared.url, changed.transactionId, 'ON_HOLD');
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await dialog.getByText('It was changed meanwhile, and your request changed nothing.').waitFor();
    expect(await dialog.getByLabel('I want it gone for good').isChecked()).toBe(false);
    expect((await readTransaction(shared.url, changed.transactionId)).status).toBe(200);
    expectClean(tab, shared.url, CONFLICT);
  });

  test.each<[string, (route: Route) => Promise<void>]>([
    ['without an answer', (route) => route.abort()],
    ['that a gateway answered', (route) => route.fulfill({ status: 403, contentType: 'text/html', body: '<html>' })],
    ['that a gateway answered 200', (route) => route.fulfill({ contentType: 'text/html', body: '<html>' })],
    [
      'that a gateway answered in the members of the service',
      (route) =>
        route.fulfill({ status: 412, json: { status: 412, error: 'Precondition Failed', message: 'Blocked' } }),
    ],
  ])('says that it is not known what became of a request %s', async (_, answer) => {
    const { from, created } = await givenMany(1);
    const [transaction] = created as [Transaction];
    const tab = await tabs.open(shared.url, { hash: hashOf({ from }) });
    const { page } = tab;
    const dialog = page.getByRole('dialog');
    // The service changes it, and its answer is lost.
    await page.route('**/status', async (route) => {
      await route.fetch();
      await answer(route);
    });
    await rowOf(tab, transaction)
      .getByRole('button', { name: /^Status/ })
      .click();
    await dialog.getByLabel('FLAGGED').check();
    await dialog.getByRole('button', { name: 'Change to FLAGGED' }).click();
    await dialog.getByText('No answer says whether your request changed it').waitFor();
    const compared = dialog.getByRole('row', { name: /^Status/ });
    expect(await compared.getByRole('cell').allTextContents()).toEqual(['PENDING', 'FLAGGED']);
  });
});
