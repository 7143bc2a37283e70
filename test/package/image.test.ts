import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { ROOT } from '../../testkit/programs.js';

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');

/** Bug: an image had versions that no test had run with, because its last step installed ranges and its bases were names that move. */
test('the image has the versions of the lock file, and every image is named by its digest', () => {
  expect(read('Dockerfile')).not.toMatch(/npm (install|i|add|update) /);
  const images = [...`${read('Dockerfile')}\n${read('compose.yaml')}`.matchAll(/^(?:FROM| +image:) (\S+)/gm)].map(
    ([, image = '']) => image,
  );
  expect(images.length).toBeGreaterThan(2);
  for (const image of images) expect(image).toMatch(/:\S+@sha256:[0-9a-f]{64}$/);
});

const HARDENED = ['read_only: true', 'cap_drop: [ALL]', 'no-new-privileges:true'];

test('every container of compose.yaml is hardened, and has the secrets of its own only', () => {
  const [head = '', services = ''] = read('compose.yaml').split(/^services:$/m);
  for (const line of HARDENED) expect(head.split('x-service:')[0]).toContain(line);
  const containers =
    services
      .split(/^networks:$/m)[0]
      ?.split(/^ {2}(?=[a-z])/m)
      .slice(1) ?? [];
  expect(containers).toHaveLength(8);
  for (const container of containers) expect(container).toMatch(/<<: \*hardened|\*service/);
  expect(head.match(/ops\/secrets\/[a-z]*/g)).toEqual(['ops/secrets/idempay']);
  expect(services.match(/ops\/secrets\/[a-z]*/g)).toEqual(['ops/secrets/prometheus', 'ops/secrets/alertmanager']);
  for (const store of ['redis', 'postgres'])
    expect(containers.find((each) => each.startsWith(`${store}:`))).toMatch(/_PASSWORD:\?set/);
});

test('the containers of compose.yaml have networks that are there, and Prometheus reaches the Alertmanager that it names', () => {
  const { services, networks } = parse(read('compose.yaml'), { merge: true });
  const networksOf = (name: string): string[] =>
    [services[name].networks].flatMap((each) => (each[0] ? each : Object.keys(each)));
  for (const name of Object.keys(services))
    for (const network of networksOf(name)) expect(Object.keys(networks), name).toContain(network);
  const { alerting } = parse(read('ops/prometheus/prometheus.yml'));
  const [target] = alerting.alertmanagers[0].static_configs[0].targets;
  expect(target).toBe('alertmanager:9093');
  expect(networksOf('prometheus').filter((network) => networksOf('alertmanager').includes(network))).toEqual([
    'alerts',
  ]);
  const { route, receivers } = parse(read('ops/alertmanager/alertmanager.yml'));
  expect(receivers.map(({ name }: { name: string }) => name)).toEqual([route.receiver]);
});
