import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';

/** A JSON Schema of the draft 2020-12, as OpenAPI 3.1 takes it. */
export type JsonSchema = object;
type Members = Readonly<Record<string, JsonSchema>>;

export const TEXT = { type: 'string' } as const;

/** An object that has all of these members, and may have the optional ones, or any others. */
export function objectWith(members: Members, optional: Members = {}) {
  return { type: 'object', required: Object.keys(members), properties: { ...members, ...optional } };
}

/** An object that has all of these members, and may have the optional ones, but no others. */
export function onlyWith(members: Members, optional?: Members) {
  return { ...objectWith(members, optional), additionalProperties: false };
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
