/** The exports for the page and the commands. A module that is loaded at every start of the command takes the one file that it needs. */
export { type DecimalMark, totalTexts } from './amounts.js';
export { type Columns, MEMBERS, type Member, problemOfColumns, repeatedMembers } from './columns.js';
export type { ComparisonResult } from './comparison.js';
export { dayAfter, isDay, lastDayOf, todayUtc } from './days.js';
export { type Difference, type Group, KINDS, type Kind, LISTED_KINDS, type SettledPayment } from './differences.js';
export { DIFFERENCE_CSV_HEADER, differenceCsvLine } from './differences-file.js';
export { exportedPayments } from './exported-payments.js';
export { currencyOfAmounts, DELIMITERS, readHead, type StatementFormat, type StatementHead } from './format.js';
export { GROUPS, type GroupName, shownGroups } from './groups.js';
export { isWholeKey } from './ids.js';
export { firstLines } from './lines.js';
export { PAYMENT_CSV_HEADER, type PaymentRow, paymentCsvLine } from './payment-table.js';
export {
  agreementOf,
  type DayOffset,
  type OurPayments,
  type Progress,
  type Reconciliation,
  reconcile,
} from './reconcile.js';
export type { PaymentNames } from './refunds.js';
export type { Reading, StatementRow } from './row.js';
export type { StatementFile } from './statement.js';
export { StatementError } from './statement-error.js';
export { clipped } from './texts.js';
