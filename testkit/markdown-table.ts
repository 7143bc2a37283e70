/** The columns stand below each other in the text as well. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const textOf = (cell: string) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ');
  const cells = [head, ...rows].map((row) => row.map(textOf));
  const widths = head.map((_, column) => Math.max(3, ...cells.map((row) => row[column]?.length ?? 0)));
  const lineOf = (row: readonly string[]) =>
    `| ${widths.map((width, column) => (row[column] ?? '').padEnd(width)).join(' | ')} |`;
  const [first = '', ...others] = cells.map(lineOf);
  return [first, lineOf(widths.map((width) => '-'.repeat(width))), ...others].join('\n');
}
