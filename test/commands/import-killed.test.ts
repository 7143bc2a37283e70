import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { expectImported, importAndKill } from '../../testkit/client/imports.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { freePort } from '../../testkit/servers/server-process.js';

/** `IMPORT_ROWS=1000000` takes some minutes. */
const ROWS = Number(process.env.IMPORT_ROWS ?? 100_000);
const KILLS = 5;
const DEADLINE_MS = 60_000 + ROWS;

describeDeployments('a long import', (deployment) => {
  it(
    `of ${ROWS} rows, killed ${KILLS} times beside a service that is killed too, creates each row once`,
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'idempay-import-'));
      const stores = await deployment.open();
      try {
        const service = await stores.start();
        await importAndKill(service.url, join(folder, 'rows.csv'), { rows: ROWS, kills: KILLS });
        await expectImported(service.url, join(folder, 'rows.csv'), ROWS);
        expect(await service.stop()).toMatchObject({ code: 0 });
      } finally {
        await stores.close();
        rmSync(folder, { recursive: true });
      }
    },
    DEADLINE_MS,
  );
});
