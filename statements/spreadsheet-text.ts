/** Characters that a spreadsheet takes for the beginning of a formula (OWASP, CSV injection), also in full width. */
const FORMULA = '[=+\\-@\\t\\r\\uff0b\\uff0d\\uff1d\\uff20]';
const AT_BEGINNING = new RegExp(`^${FORMULA}`);
/** After a separator a cell may be in quotes, which a spreadsheet removes. */
const AFTER_SEPARATOR = new RegExp(`([,;\\t|\\r\\n])(?="*${FORMULA})`, 'g');
const PLAIN_DECIMAL = /^-?\d+(\.\d+)?$/;

/**
 * The text of a cell that no spreadsheet runs as a formula, with any of `,`, `;`, tab and `|` as its separator. An apostrophe is put at
 * each place where a cell would begin like a formula. A plain decimal number such as -5.00 stays as it is. The caller quotes the cell.
 */
export function spreadsheetText(text: string): string {
  if (PLAIN_DECIMAL.test(text)) return text;
  const safe = text.replace(AFTER_SEPARATOR, "$1'");
  return AT_BEGINNING.test(text) ? `'${safe}` : safe;
}

/** A line of CSV (RFC 4180) for a spreadsheet. */
export function csvLine(cells: readonly (string | number | null | undefined)[]): string {
  return `${cells.map((cell) => cellOf(String(cell ?? ''))).join(',')}\r\n`;
}

function cellOf(text: string): string {
  const safe = spreadsheetText(text);
  return /[",;|\t\r\n']/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
