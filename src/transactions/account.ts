import { codePointsIn, isPrinted } from '../platform/printed-text.js';

const MAX_CODE_POINTS = 64;

/** True if any account can equal the text; stores need not be asked for text that they never took. */
export function canBeAccount(text: string): boolean {
  return accountProblem('account', text) === undefined;
}

/** Undefined for an account reference (rule T3), else the sentence that says what is wrong. */
export function accountProblem(member: string, account: string): string | undefined {
  if (!isPrinted(account)) {
    return `'${member}' must be well-formed Unicode without control characters.`;
  }
  const length = codePointsIn(account);
  if (length < 1 || length > MAX_CODE_POINTS) return `'${member}' must have 1 to ${MAX_CODE_POINTS} characters.`;
  return undefined;
}
