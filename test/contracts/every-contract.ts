import { describe } from 'vitest';
import { type OpenPorts, sharePorts } from '../../testkit/protocol/ports.js';
import { keyStoreContract } from './key-store-contract.js';
import { keyValueStoreReportContract } from './key-value-store-report-contract.js';
import { ledgerContentContract } from './ledger-content-contract.js';
import { ledgerContract } from './ledger-contract.js';
import { ledgerPendingContract } from './ledger-pending-contract.js';
import { ledgerProcessorsContract } from './ledger-processors-contract.js';
import { ledgerRecoveryContract } from './ledger-recovery-contract.js';
import { ledgerRetentionContract } from './ledger-retention-contract.js';
import { ledgerTurnsContract } from './ledger-turns-contract.js';
import { paymentHistoryContract } from './payment-history-contract.js';
import { paymentLifeContract } from './payment-life-contract.js';
import { refundLedgerContract } from './refund-ledger-contract.js';
import { settlementsContract } from './settlements-contract.js';
import { transactionCacheContract } from './transaction-cache-contract.js';
import { transactionCreationContract } from './transaction-creation-contract.js';
import { transactionListContract } from './transaction-list-contract.js';
import { transactionSearchContract } from './transaction-search-contract.js';
import { transactionStoreContract } from './transaction-store-contract.js';

const CONTRACTS = {
  'key store': keyStoreContract,
  ledger: ledgerContract,
  'ledger content': ledgerContentContract,
  'ledger pending': ledgerPendingContract,
  'ledger recovery': ledgerRecoveryContract,
  'payment history': paymentHistoryContract,
  'payment life': paymentLifeContract,
  'transaction store': transactionStoreContract,
  'transaction list': transactionListContract,
  'transaction search': transactionSearchContract,
  'transaction creation': transactionCreationContract,
  'transaction cache': transactionCacheContract,
  'key-value store report': keyValueStoreReportContract,
};

const OF_DAYS = {
  'ledger turns': ledgerTurnsContract,
  'ledger retention': ledgerRetentionContract,
  'refund ledger': refundLedgerContract,
  settlements: settlementsContract,
};

/** All that a deployment must keep; each runs them in one line. */
export function describeEveryContract(deployment: string, open: OpenPorts): void {
  describe(deployment, async () => {
    const ports = await sharePorts(open);
    for (const [name, contract] of Object.entries(CONTRACTS))
      describe(`the ${name} contract`, () => contract(ports, open));
    describe('the ledger processors contract', () => ledgerProcessorsContract(open));
    // On ports of their own: their time goes on by days. They are opened here, because the hooks of a suite whose tests are all left out by
    // `--testNamePattern` do not run, and its servers would stay.
    for (const [name, contract] of Object.entries(OF_DAYS)) {
      const own = await sharePorts(open);
      describe(`the ${name} contract`, () => contract(own));
    }
  });
}
