import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it, onTestFinished } from 'vitest';
import { expectImported, importAndKill } from '../../testkit/client/imports.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

/** `IMPORT_ROWS=1000000` takes some minutes on each deployment. */
const ROWS = Number(process.env.IMPORT_ROWS ?? 100_000);
const KILLS = 5;

describeDeployments('a long import', (deployment) => {
  it(`of ${ROWS} rows, killed ${KILLS} times with its service, creates each row once`, WITHOUT_LIMIT, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'idempay-import-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const settings = { PORT: String(await freePort()) };
    let service = await stores.start(settings);
    const file = join(folder, 'rows.csv');
    await importAndKill(service.url, file, {
      rows: ROWS,
      kills: KILLS,
      async disturb() {
        await service.kill();
        service = await stores.start(settings);
      },
    });
    await expectImported(service.url, file, ROWS);
  });
});
