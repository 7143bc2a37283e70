import { NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';

export const session: RouteDescription = {
  operationId: 'getSession',
  tag: 'Console',
  summary: 'The caller, its scopes, and the process that answered',
  text: 'With any scope. Without `AUTH=required` everybody has all of them.',
  answers: {
    200: {
      text: 'The session.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/Session' },
        examples: {
          operator: {
            client: 'key:operator',
            access: 'required',
            scopes: ['operations', 'metrics'],
            version: '0.1.0',
            deployment: 'embedded',
            instance: '6f1d7c1e-0d5c-4b8e-9b53-1d8f3c1f7a10',
            processor: { name: 'simulated', movesMoney: false },
            recovery: { dedupSeconds: 72_000, keyTtlSeconds: 86_400 },
          },
        },
      },
    },
  },
  asksNoStore: true,
};
