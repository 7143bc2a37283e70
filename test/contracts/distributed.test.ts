import { openDistributedPorts } from '../support/ports.js';
import { describeKeyStoreContract } from './key-store-contract.js';
import { describeKeyValueStoreReportContract } from './key-value-store-report-contract.js';
import { describeLedgerContract } from './ledger-contract.js';
import { describeLedgerRecoveryContract } from './ledger-recovery-contract.js';
import { describeTransactionCacheContract } from './transaction-cache-contract.js';
import { describeTransactionListContract } from './transaction-list-contract.js';
import { describeTransactionStoreContract } from './transaction-store-contract.js';

for (const describeContract of [
  describeKeyStoreContract,
  describeLedgerContract,
  describeLedgerRecoveryContract,
  describeTransactionStoreContract,
  describeTransactionListContract,
  describeTransactionCacheContract,
  describeKeyValueStoreReportContract,
]) {
  describeContract('distributed', openDistributedPorts);
}
