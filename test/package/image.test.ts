import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { BlockList } from 'node:net';
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

/**
 * Bug: each machine opened a store of its own if the addresses of the stores came as credentials. Cause: an empty setting in the file of the
 * unit replaces the same one in `Environment`, and counts as unset.
 */
test('the environment file that deployment.md makes for the unit has no empty setting', () => {
  const [line = ''] = /^sed .*(?= \| install)/m.exec(read('docs/operations/deployment.md')) ?? [];
  const made = execFileSync('sh', ['-c', line], { cwd: ROOT, encoding: 'utf8' });
  expect(made).toMatch(/^DATA_DIR=\/var\/lib\/idempay$/m);
  expect(made).toMatch(/^#DATABASE_URL_FILE=$/m);
  expect(made).not.toMatch(/^[A-Z_]+=\s*$/m);
});

/** Bug: the first start failed if a container got the fixed address of another one, and if two built an image of one name at the same time. */
test('no container of compose.yaml gets the address, or builds the image, of another one, and Redis is no child of a shell', () => {
  const { services, networks } = parse(read('compose.yaml'), { merge: true });
  const range = networks.front.ipam.config[0].ip_range;
  const inRange = new BlockList();
  inRange.addSubnet(range.split('/')[0], Number(range.split('/')[1]));
  expect(inRange.check('172.30.80.129')).toBe(true);
  expect(inRange.check(services['load-balancer'].networks.front.ipv4_address)).toBe(false);
  const built = Object.values<{ build?: string; image?: string }>(services).filter(({ build }) => build !== undefined);
  expect(built.map(({ image }) => image)).toEqual([undefined, undefined]);
  // A shell that is the first process ignores the signal, and a pipe leaves one.
  expect(services.redis.command.at(-1)).toMatch(/^exec redis-server - [^|]*<<END$/m);
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
