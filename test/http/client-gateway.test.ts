import { expect, test } from 'vitest';
import { isTried } from '../../testkit/cases.js';
import { OWN_ANSWERS, STATUSES } from '../../testkit/client-library/answering-gateway.js';
import { faultsOfCall, GATEWAY_OPERATIONS } from '../../testkit/client-library/gateway-calls.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const WIDTH = 8;
/** An operation meets one answer of each status, a different one in turn; unit/client/gateway has all of each status. */
const ANSWERS_OF_A_STATUS = OWN_ANSWERS.length / STATUSES.length;

describeOneDeployment('the client through a gateway that answers by itself', (deployment) => {
  const service = shareService(deployment);

  test.each(GATEWAY_OPERATIONS.map(({ name }) => name))(
    'never ends a call with an error that says that nothing was done: %s',
    async (name) => {
      const place = GATEWAY_OPERATIONS.findIndex((each) => each.name === name);
      const operation = GATEWAY_OPERATIONS[place] as (typeof GATEWAY_OPERATIONS)[number];
      const at = { baseUrl: service.url, fetch: (url: string, init?: RequestInit) => fetch(url, init) };
      const tried = [...STATUSES.keys()].filter((index) => isTried(index + place));
      const faults = await inParallel(tried.length, WIDTH, async (nth) => {
        const index = tried[nth] as number;
        const turn = (index * 5 + place) % ANSWERS_OF_A_STATUS;
        const own = OWN_ANSWERS[index * ANSWERS_OF_A_STATUS + turn] as (typeof OWN_ANSWERS)[number];
        return faultsOfCall(operation, own, at, { account: `account-${place}-${index}` });
      });
      expect(faults.flat()).toEqual([]);
    },
  );
});
