import type { JsonSchema } from '../../platform/json-schema.js';

/** Parts that schemas of several resources have in common. */

/** Neither a control character nor half of a surrogate pair. Means the same with and without the flag `u`, which some validators leave out. */
export const PRINTED = '(?:[^\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])';
export const NOT_ALL_ZEROS = '(?=.*[1-9])';
export const AT_MOST_15_DIGITS = '(?=(?:\\D*\\d){1,15}\\D*$)';

export const moment = { type: 'string', format: 'date-time', examples: ['2026-11-20T13:00:00.000Z'] };

/** The same, or null. */
export function orNull({ type, ...rest }: { type: string; [keyword: string]: unknown }) {
  return { ...rest, type: [type, 'null'] };
}

/** With every member required and no other, as each answer has it. */
export function whole(
  properties: Readonly<Record<string, JsonSchema>>,
  description?: string,
  optional: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  return {
    type: 'object',
    ...(description !== undefined && { description }),
    required: Object.keys(properties),
    properties: { ...properties, ...optional },
    additionalProperties: false,
  };
}
