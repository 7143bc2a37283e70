/** https://www.sqlite.org/fileformat2.html#b_tree_pages and the record format there. */
const TABLE_LEAF = 0x0d;
const CELLS_AT = 3;
const FIRST_CELL_AT = 8;
const INTEGER_BYTES = [0, 1, 2, 3, 4, 6, 8] as const;
const FIRST_TEXT = 13;

/** The columns of the only row of a table, from its page; undefined where this is no such page. Of the types that a row has. */
export function readLeafRow(page: Buffer): (string | number | null)[] | undefined {
  if (page[0] !== TABLE_LEAF || page.readUInt16BE(CELLS_AT) !== 1) return undefined;
  let at = page.readUInt16BE(FIRST_CELL_AT);

  /** Seven bits of each byte, the highest first. Longer ones are not in our rows. */
  function readVarint(): number {
    let value = 0;
    for (;;) {
      const byte = page[at++] ?? 0;
      value = value * 128 + (byte & 0x7f);
      if (byte < 0x80) return value;
    }
  }

  readVarint(); // the length of the row
  readVarint(); // its rowid
  const headerAt = at;
  const headerEnd = headerAt + readVarint();
  const types: number[] = [];
  while (at < headerEnd) types.push(readVarint());
  return types.map((type) => {
    if (type === 0) return null;
    if (type === 8 || type === 9) return type - 8;
    const bytes = type >= FIRST_TEXT ? (type - FIRST_TEXT) / 2 : (INTEGER_BYTES[type] ?? 0);
    const value = page.subarray(at, at + bytes);
    at += bytes;
    if (type >= FIRST_TEXT) return value.toString('utf8');
    return bytes === 8 ? Number(value.readBigInt64BE()) : value.readIntBE(0, bytes);
  });
}
