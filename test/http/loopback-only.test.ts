import { describe, expect, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask } from '../../testkit/client/http-client.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const MESSAGE =
  'Without AUTH the service answers to the names of its own machine only, such as localhost. Ask for it by one of them, or set AUTH.';

describe('a service on a loopback HOST without AUTH', () => {
  const shared = shareService(embedded);

  test.each(['localhost', 'localhost:8080', '127.0.0.1:1', '[::1]:8080', 'SHOP.LOCALHOST'])(
    'serves %s',
    async (host) => {
      expect((await ask(`${shared.url}/api/health/redis`, { headers: { Host: host } })).status).toBe(200);
    },
  );

  test.each(['shop.example', 'shop.example:8080', '10.0.0.1', '127.0.0.1.example', 'localhost.example'])(
    'refuses %s, which a web page may have made mean this machine',
    async (host) => {
      expectError(await ask(`${shared.url}/api/payment`, { method: 'POST', headers: { Host: host } }), 421, MESSAGE);
      expectError(await ask(`${shared.url}/nothing`, { headers: { Host: host } }), 421, MESSAGE);
    },
  );
});
