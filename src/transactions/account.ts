const MAX_CODE_POINTS = 64;
const CONTROL_CHARACTER = /\p{Cc}/u;

/** Whether any account can equal the text; stores need not be asked for what they never took. */
export function canBeAccount(text: string): boolean {
  return accountProblem('account', text) === undefined;
}

/** Undefined for an account reference (decisions T3), else the sentence that says what is wrong. */
export function accountProblem(member: string, account: string): string | undefined {
  if (!account.isWellFormed() || CONTROL_CHARACTER.test(account)) {
    return `'${member}' must be well-formed Unicode without control characters.`;
  }
  const length = [...account].length;
  if (length < 1 || length > MAX_CODE_POINTS) return `'${member}' must have 1 to ${MAX_CODE_POINTS} characters.`;
  return undefined;
}
