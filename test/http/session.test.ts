import { randomUUID } from 'node:crypto';
import { expect, it, onTestFinished } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';

describeOneDeployment('the session', (deployment) => {
  const shared = shareService(deployment);
  const processorOf = async (url: string) => (await ask(`${url}/api/session`)).json<{ processor: unknown }>().processor;

  async function servedWith(processorUrl: string): Promise<string> {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    return (await stores.serve({ PROCESSOR_URL: processorUrl, PROCESSOR_ACCOUNT: 'test' })).url;
  }

  it('says that the simulated processor moves no money', async () => {
    expect(await processorOf(shared.url)).toEqual({ name: 'simulated', movesMoney: false });
  });

  it('says so of the reference processor, which it asks before anybody has paid', async () => {
    const processor = await serveReferenceProcessor();
    onTestFinished(() => processor.close());
    const url = await servedWith(processor.url);
    expect(await processorOf(url)).toMatchObject({ movesMoney: false });
    expect(await processor.chargesOf(randomUUID())).toEqual([]);
  });

  it('says that another processor moves money once it has answered', async () => {
    const { port } = await startHttpServer((response, { method }) =>
      method === 'GET' ? response.writeHead(404).end('{}') : response.writeHead(201).end('{"status":"succeeded"}'),
    );
    const url = await servedWith(`http://127.0.0.1:${port}`);
    expect(await processorOf(url)).toMatchObject({ movesMoney: true });
    expect((await pay(url, await generateKey(url))).status).toBe(200);
    expect(await processorOf(url)).toMatchObject({ movesMoney: true });
  });

  it('does not know it of a processor that is down', async () => {
    const { port } = await startHttpServer((response) => response.destroy());
    expect(await processorOf(await servedWith(`http://127.0.0.1:${port}`))).toMatchObject({ movesMoney: null });
  });
});
