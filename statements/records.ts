import { recognisedCount } from './columns.js';
import type { Line } from './lines.js';
import { clipped } from './texts.js';

interface Place {
  /** The number of its first line. */
  readonly line: number;
  /** How many lines it has. */
  readonly lines: number;
}

/** One record of a statement: its fields in the order of the columns, or what is wrong with it. */
export type StatementRecord =
  | (Place & { readonly fields: readonly string[] })
  | (Place & { readonly problem: string; readonly text: string })
  /** The line has nothing, or is before the header. */
  | (Place & { readonly skipped: true });

export interface RecordReader {
  /** The records that end with this line. */
  add(line: Line): StatementRecord[];
  /** The records that were still open when the file ended. */
  end(): StatementRecord[];
}

/** A JSON string, or a number outside of one. A string that is not closed matches too: else it would be tried again from each of its quotes. */
const STRING_OR_NUMBER = /("(?:[^"\\]|\\.)*"?)|-?\d[\d.eE+-]*/gs;

/** One JSON object for each line. Numbers stay text: `0.1` must not pass through a binary fraction. */
export function createNdjsonRecords(names: readonly string[]): RecordReader {
  const known = new Set(names);
  /** Members that count and that no line at the beginning has, such as the `status` of the first decline. */
  const late = (members: Readonly<Record<string, unknown>>) =>
    Object.keys(members).find((name) => !known.has(name) && recognisedCount([name]) > 0);
  return {
    add({ number, text }) {
      const place = { line: number, lines: 1 };
      if (text.trim() === '') return [{ ...place, skipped: true }];
      const members = objectIn(text);
      if (!members) return [{ ...place, problem: 'It is not one whole JSON object.', text }];
      const name = late(members);
      if (name !== undefined) {
        const problem = `It has “${clipped(name)}”, which none of the first lines has. Let the first line have all members.`;
        return [{ ...place, problem, text }];
      }
      return [{ ...place, fields: names.map((name) => textOf(members[name])) }];
    },
    end: () => [],
  };
}

/** The object of a line, its numbers as text, which can be read in one way only. Undefined if the line is no object. */
export function objectIn(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(
      line.replace(STRING_OR_NUMBER, (token, string) => (string ? token : `"${unambiguous(token)}"`)),
    );
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? Object.assign(Object.create(null), value) : undefined;
  } catch {
    return undefined;
  }
}

/** The point of a JSON number is never a thousands separator: with a fourth decimal nobody can take it for one. */
function unambiguous(number: string): string {
  return /^-?\d{1,3}\.\d{3}$/.test(number) ? `${number}0` : number;
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
