import { createHash } from 'node:crypto';
import { ANSWER_SCHEMAS } from '../../dist/http/openapi/answer-schemas.js';
import { BODY_SCHEMAS } from '../../dist/http/openapi/body-schemas.js';

/** Those of `components.schemas`. */
export function descriptionSchemas() {
  return JSON.parse(JSON.stringify({ ...ANSWER_SCHEMAS, ...BODY_SCHEMAS }));
}

export function digestOf(schemas) {
  return createHash('sha256').update(JSON.stringify(schemas)).digest('hex');
}
