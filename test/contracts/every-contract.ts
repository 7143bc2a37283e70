import { describe } from 'vitest';
import { type OpenPorts, sharePorts } from '../../testkit/protocol/ports.js';
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
  describe(deployment, () => {
    const ports = sharePorts(open);
    describeKeyStoreContract(ports, open);
    describeKeyWatchContract(ports);
    describeLedgerContract(ports);
    describeLedgerRecoveryContract(ports);
    describeLedgerResolutionContract(ports);
    describeLedgerUnsentContract(ports);
    describePaymentHistoryContract(ports);
    describeTransactionStoreContract(ports, open);
    describeTransactionListContract(ports);
    describeTransactionCacheContract(ports, open);
    describeKeyValueStoreReportContract(ports, open);
    describeLedgerRetentionContract(open);
  });
}
