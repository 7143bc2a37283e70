export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const textOf = (cell: string) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ');
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.map(textOf).join(' | ')} |`).join('\n');
}
