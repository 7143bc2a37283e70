import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { createListener } from '#idempay/http/connections/listener.js';
import { createServer, type Features } from '#idempay/http/server.js';
import { generateKey } from '../../testkit/client/http-client.js';
import { openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { DescribedService } from '../../testkit/description/described-service.js';
import { fuzz } from '../../testkit/description/fuzz.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';
import { until } from '../../testkit/time/until.js';

/** A service that can do little: each of its refusals is described too. `FUZZ_REQUESTS` is ten times the count of each. */
const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 2_000) / 10;
/** As in `fuzz.test.ts`. */
const USUAL_SEED = process.env.FUZZ_REQUESTS === undefined ? 2_119_832_827 : undefined;
const CREDENTIALS = { whole: {}, others: [] };
const REFUSALS = [501, 503, 504, 505];

describe('every answer is described', WITHOUT_LIMIT, () => {
  test(`to ${REQUESTS} requests while the service starts`, async () => {
    const silent = pino({ level: 'silent' });
    const listener = createListener(silent);
    const rules = { access: undefined, loopbackOnly: false, trustedNetworks: undefined };
    // The one that will serve when its stores are open. Until then the listener answers.
    const server = createServer(createListener(silent), {} as Features, rules, silent, () => {});
    const port = await listener.listen('127.0.0.1', 0);
    try {
      const described = new DescribedService(JSON.parse(JSON.stringify(server.openApiDocuments().whole)));
      const to = { url: `http://127.0.0.1:${port}`, port };
      const random = seededRandom(seedFrom('FUZZ_SEED', USUAL_SEED));
      const plan = { name: 'starting', requests: REQUESTS, credentials: CREDENTIALS, refusals: REFUSALS, random };
      const { problems, refused, summary } = await fuzz(described, to, plan);
      console.log(summary);
      expect([problems, refused]).toEqual([[], []]);
    } finally {
      listener.server.closeAllConnections();
      await listener.close();
    }
  });

  test.each(['redis', 'postgres'] as const)(`to ${REQUESTS} requests while %s is down`, async (away) => {
    const stores = await openDistributedStores();
    try {
      const service = await stores.serve(stores.wires.environment);
      const described = await DescribedService.at(service.url);
      await generateKey(service.url);
      stores.wires[away].cutOff();
      const random = seededRandom(seedFrom('FUZZ_SEED', USUAL_SEED));
      const plan = {
        name: `without ${away}`,
        requests: REQUESTS,
        credentials: CREDENTIALS,
        refusals: REFUSALS,
        random,
      };
      const { problems, refused, summary } = await fuzz(described, service, plan);
      console.log(summary);
      expect([problems, refused]).toEqual([[], []]);
      stores.wires[away].heal();
      await until('a key', 20_000, () => generateKey(service.url).catch(() => undefined));
    } finally {
      await stores.close();
    }
  });
});
