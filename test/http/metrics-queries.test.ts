import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PAYMENT_OUTCOMES, REFUSAL_REASONS } from '#idempay/http/requests/measures.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { readSamples, type Sample } from '../../testkit/client/metrics.js';
import { givenTransaction, listTransactions, readTransaction } from '../../testkit/client/transactions.js';
import { DEPLOYMENTS, embedded } from '../../testkit/deployments/deployments.js';
import { startWebhookReceiver, writeEndpointFile } from '../../testkit/servers/webhook-receiver.js';
import { until } from '../../testkit/time/until.js';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const ALERTS = read('ops/prometheus/alerts.yml');
const ALERT_TESTS = read('ops/prometheus/alerts.test.yml');
const DASHBOARD = read('ops/grafana/dashboards/idempay.json');
const RUNBOOK = read('docs/operations/operations.md');
const alertNames = [...ALERTS.matchAll(/alert: (\w+)/g)].map(([, name = '']) => name);

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}
const { panels } = JSON.parse(DASHBOARD) as { panels: readonly Panel[] };
const QUERIES: [string, string][] = [
  ...[...ALERTS.matchAll(/expr: (.*)/g)].map(([, expr = '']): [string, string] => [expr, 'an alert']),
  ...panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }): [string, string] => [expr, `panel "${title}"`]),
  ),
];
const SELECTOR = /\b(idempay_\w+)(?:\{([^}]*)\})?/g;
const MATCHER = /(\w+)(=~|!~|!=|=)"([^"]*)"/g;
const GROUPING = /\bby \(([^)]*)\)/g;
/** Given by the collector, or by what happens. */
const ANY_VALUE = ['instance', 'job', 'status'];
const SEEN_DEADLINE_MS = 10_000;

describe('what is asked of the metrics', () => {
  let samples: Sample[] = [];
  const families = new Set<string>();
  const helpOf = new Map<string, string>();
  const opened: { close(): Promise<unknown> }[] = [];

  beforeAll(async () => {
    const receiver = await startWebhookReceiver();
    const file = await writeEndpointFile([receiver.endpoint]);
    opened.push(receiver, { close: file.remove });
    // On a topology too: some series are of the embedded deployment only.
    for (const deployment of new Set([embedded, ...DEPLOYMENTS])) {
      const stores = await deployment.open();
      opened.push(stores);
      const { url } = await stores.serve({ WEBHOOKS_FILE: file.path });
      await pay(url, await generateKey(url));
      await readTransaction(url, (await givenTransaction(url)).transactionId);
      await listTransactions(url);
      for (const path of ['/livez', '/readyz', '/metrics', '/api/health/redis']) await ask(`${url}${path}`);
      const text = await until('the backlog and the webhook to be seen', SEEN_DEADLINE_MS, async () => {
        const shown = (await ask(`${url}/metrics`)).text;
        return (
          [/^idempay_recovery_backlog_payments /m, /^idempay_webhook_behind_seconds/m].every((seen) =>
            seen.test(shown),
          ) && shown
        );
      });
      samples = [...samples, ...readSamples(text)];
      for (const [, name = ''] of text.matchAll(/^# TYPE (\w+) /gm)) families.add(name);
      for (const [, name = '', help = ''] of text.matchAll(/^# HELP (\w+) (.*)$/gm)) helpOf.set(name, help);
    }
  });
  afterAll(() => Promise.all(opened.map((stores) => stores.close())));

  test.each(QUERIES)('%s (%s) selects series that exist', (query) => {
    const known = new Set(['le', ...ANY_VALUE]);
    for (const [, name = '', matchers = ''] of query.matchAll(SELECTOR)) {
      const family = samples.filter((sample) => sample.name === name);
      expect(family, name).not.toEqual([]);
      for (const label of family.flatMap(({ labels }) => Object.keys(labels))) known.add(label);
      expectValues(name, matchers, family);
    }
    const grouping = [...query.matchAll(GROUPING)].flatMap(([, labels = '']) => labels.split(','));
    for (const label of grouping) expect(known).toContain(label.trim());
  });

  test('every series has a sentence in /metrics that explains it', () => {
    const unexplained = [...families].filter((name) => !/^[A-Z1].+ .+[.]$/.test(helpOf.get(name) ?? ''));
    expect(unexplained).toEqual([]);
    expect(families.size).toBeGreaterThan(20);
  });

  test.each(alertNames)('%s has a section of the runbook and a test of its own', (name) => {
    const [, rule = ''] = ALERTS.split(`alert: ${name}\n`);
    expect(rule.split('- alert:')[0]).toContain(`runbook: docs/operations/operations.md#${name.toLowerCase()}\n`);
    const [, section = ''] = RUNBOOK.split(`## ${name}\n`);
    for (const part of ['**It means**', '**Look at**', '**Do**']) expect(section.split('\n## ')[0]).toContain(part);
    expect(ALERT_TESTS).toContain(`alertname: ${name}\n`);
  });
});

test.each([
  ['idempay_payments_total{outcome}', PAYMENT_OUTCOMES],
  ['idempay_requests_refused_total{reason}', REFUSAL_REASONS],
])('the runbook has a row for each value of %s', (series, values) => {
  const [, explained = ''] = RUNBOOK.split(`\`${series}\``);
  const [table = ''] = /(^[|].*\n)+/m.exec(explained) ?? [];
  const named = table.split('\n').flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)]);
  expect(named.map(([, value]) => value).sort()).toEqual([...values].sort());
});

/** At least one of the series has each value that is asked for, or left out. */
function expectValues(name: string, matchers: string, family: readonly Sample[]): void {
  for (const [, label = '', operator, value = ''] of matchers.matchAll(MATCHER)) {
    if (ANY_VALUE.includes(label)) continue;
    const there = family.map(({ labels }) => labels[label]);
    for (const one of operator?.endsWith('~') ? value.split('|') : [value])
      expect(there, `${name}: ${label}`).toContain(one);
  }
}
