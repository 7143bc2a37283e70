import { listElements } from './list-elements.js';

const JSON_TYPE = 'application/json';
export const PROBLEM_TYPE = 'application/problem+json';

/** RFC 9110 12.4.2. */
const WEIGHT = /^\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*$/i;

/**
 * True if errors are asked for as RFC 9457 (rule P20): `application/problem+json` is named, and has more weight than `application/json`. If
 * both weigh the same, the body of spec 2.5 stays. Malformed elements are ignored.
 */
export function prefersProblem(header: string | undefined): boolean {
  if (header === undefined || !header.toLowerCase().includes(PROBLEM_TYPE)) return false;
  const weights = new Map<string, number>();
  for (const element of listElements(header)) {
    const [range = '', ...parameters] = element.split(';');
    const weight = weightIn(parameters);
    const name = range.trim().toLowerCase();
    // If a media type is named twice, its first weight counts.
    if (weight !== undefined && !weights.has(name)) weights.set(name, weight);
  }
  const problem = weights.get(PROBLEM_TYPE);
  if (problem === undefined) return false;
  return problem > (weights.get(JSON_TYPE) ?? weights.get('application/*') ?? weights.get('*/*') ?? 0);
}

/** 1 if none is given; undefined if it is malformed. */
function weightIn(parameters: readonly string[]): number | undefined {
  const weight = parameters.find((parameter) => /^\s*q\s*=/i.test(parameter));
  if (weight === undefined) return 1;
  const [, value] = WEIGHT.exec(weight) ?? [];
  return value === undefined ? undefined : Number(value);
}
