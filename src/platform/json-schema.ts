import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';

export type JsonSchema = Readonly<Record<string, unknown>>;

export const TEXT = { type: 'string' } as const;

/** An object that has all of these members. It may have others. */
export function objectWith(members: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return { type: 'object', required: Object.keys(members), properties: members };
}

/** Returns the first way in which a value is not as the schema says. */
export function checkOf(schema: JsonSchema): (value: unknown) => ErrorObject | undefined {
  // Compiled at the first use, because most starts need none; and not checked themselves, because they are ours, and that would cost more.
  let isValid: ValidateFunction | undefined;
  return (value) => {
    isValid ??= new Ajv({ meta: false, validateSchema: false }).compile(schema);
    return isValid(value) ? undefined : isValid.errors?.[0];
  };
}
