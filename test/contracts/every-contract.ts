import type { OpenPorts } from '../../testkit/protocol/ports.js';
import { describeKeyStoreContract } from './key-store-contract.js';
import { describeKeyValueStoreReportContract } from './key-value-store-report-contract.js';
import { describeKeyWatchContract } from './key-watch-contract.js';
import { describeLedgerContract } from './ledger-contract.js';
import { describeLedgerRecoveryContract } from './ledger-recovery-contract.js';
import { describeLedgerResolutionContract } from './ledger-resolution-contract.js';
import { describeLedgerRetentionContract } from './ledger-retention-contract.js';
import { describeLedgerUnsentContract } from './ledger-unsent-contract.js';
import { describePaymentHistoryContract } from './payment-history-contract.js';
import { describeTransactionCacheContract } from './transaction-cache-contract.js';
import { describeTransactionListContract } from './transaction-list-contract.js';
import { describeTransactionStoreContract } from './transaction-store-contract.js';

/** All that a deployment must keep; each runs them in one line. */
export function describeEveryContract(deployment: string, open: OpenPorts): void {
  for (const describeContract of [
    describeKeyStoreContract,
    describeKeyWatchContract,
    describeLedgerContract,
    describeLedgerRecoveryContract,
    describeLedgerResolutionContract,
    describeLedgerRetentionContract,
    describeLedgerUnsentContract,
    describePaymentHistoryContract,
    describeTransactionStoreContract,
    describeTransactionListContract,
    describeTransactionCacheContract,
    describeKeyValueStoreReportContract,
  ]) {
    describeContract(deployment, open);
  }
}
