/** A table whose columns stand below each other also in the text. Numbers are rounded to what a reader compares. */
export function markdownTable(head, rows) {
  const cells = [head, ...rows].map((row) => row.map(shown));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  const line = (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(' | ')} |`;
  const [first, ...rest] = cells.map(line);
  return [first, `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rest].join('\n');
}

function shown(value) {
  if (typeof value !== 'number') return value ?? '';
  if (value === 0) return '0';
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(value < 1 ? 2 : 3)));
}
