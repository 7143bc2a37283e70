import { createHash } from 'node:crypto';
import { SCHEMAS } from '../../dist/http/openapi/schemas.js';

/** The schemas in `components.schemas`. */
export function descriptionSchemas() {
  return JSON.parse(JSON.stringify(SCHEMAS));
}

export function digestOf(schemas) {
  return createHash('sha256').update(JSON.stringify(schemas)).digest('hex');
}
