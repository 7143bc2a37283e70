import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { linkPackages } from '../../testkit/linked-packages.js';
import { ROOT } from '../../testkit/programs.js';

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
}

const KUBERNETES = join(ROOT, 'ops', 'kubernetes');
const MONITORING = 'monitoring.coreos.com/';
const read = (file: string) => readFileSync(file, 'utf8');
const manifestsIn = (file: string) => parseAllDocuments(read(file)).map((each) => each.toJS() as Manifest);

/** The files that kustomize takes, from a folder on. */
function filesFrom(folder: string): string[] {
  const file = join(folder, 'kustomization.yaml');
  const { resources = [], components = [] } = parse(read(file));
  return [
    file,
    ...resources.map((name: string) => join(folder, name)),
    ...components.flatMap((name: string) => filesFrom(join(folder, name))),
  ];
}

const files = filesFrom(KUBERNETES).filter((file) => !file.endsWith('kustomization.yaml'));
const secrets = join(KUBERNETES, 'secret.example.yaml');
const manifests = [...files, secrets].flatMap(manifestsIn);
// biome-ignore lint/suspicious/noExplicitAny: each kind has its own form, which the first test checks.
const found = (kind: string, name = 'idempay'): any =>
  manifests.find((each) => each.kind === kind && each.metadata.name === name);

test('the manifests have what Kubernetes and the Prometheus Operator know, and no other member', async () => {
  const moduleOf = ({ apiVersion, kind }: Manifest) =>
    `${apiVersion.startsWith(MONITORING) ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models'}/${apiVersion}/${kind}`;
  const folder = mkdtempSync(join(tmpdir(), 'idempay-manifests-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  linkPackages(folder);
  // The models let members through that they do not know, and their types do not.
  const program = manifests.map(
    (each, index) =>
      `import type { I${each.kind} as Model${index} } from '${moduleOf(each)}';\nexport const manifest${index}: Model${index} = ${JSON.stringify(each)};\n`,
  );
  writeFileSync(join(folder, 'manifests.ts'), program.join(''));
  const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const options = ['--strict', '--noEmit', '--skipLibCheck', '--module', 'esnext', '--moduleResolution', 'bundler'];
  const compiled = spawnSync(process.execPath, [compiler, ...options, '--ignoreConfig', 'manifests.ts'], {
    cwd: folder,
    encoding: 'utf8',
  });
  expect(compiled).toMatchObject({ stdout: '', status: 0 });
  for (const each of manifests) {
    const { [each.kind]: Model } = await import(moduleOf(each));
    expect(() => new Model(each).validate(), each.kind).not.toThrow();
  }
});

test('kustomize is given every manifest but the secrets', () => {
  const all = readdirSync(KUBERNETES, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.yaml'));
  const taken = filesFrom(KUBERNETES).map((file) => relative(KUBERNETES, file));
  expect(all.filter((name) => !taken.includes(name))).toEqual([relative(KUBERNETES, secrets)]);
  expect(taken.filter((name) => !all.includes(name))).toEqual([]);
});

test('the manifests name each other, their secrets and the port of the service', () => {
  const { template } = found('Deployment').spec;
  const labels = template.metadata.labels;
  const [container] = template.spec.containers;
  const service = found('Service');
  for (const selector of [
    service.spec.selector,
    found('PodDisruptionBudget').spec.selector.matchLabels,
    found('NetworkPolicy').spec.podSelector.matchLabels,
    found('Deployment').spec.selector.matchLabels,
  ])
    expect(labels).toMatchObject(selector);
  expect(container.ports).toEqual([{ name: service.spec.ports[0].targetPort, containerPort: 8080 }]);
  expect(found('NetworkPolicy').spec.ingress[0].ports).toEqual([{ port: 8080 }]);

  const [endpoint] = found('ServiceMonitor').spec.endpoints;
  expect(service.metadata.labels).toMatchObject(found('ServiceMonitor').spec.selector.matchLabels);
  expect(endpoint.port).toBe(service.spec.ports[0].name);
  const { name, key } = endpoint.authorization.credentials;
  expect(Object.keys(found('Secret', name).stringData)).toEqual([key]);
  expect(found('Secret', container.envFrom[0].secretRef.name)).toBeDefined();
  expect(found('Secret', template.spec.volumes[0].secret.secretName)).toBeDefined();

  const { kind, name: scaled } = found('HorizontalPodAutoscaler').spec.scaleTargetRef;
  expect(found(kind, scaled)).toBeDefined();
  expect(found('Deployment').spec).not.toHaveProperty('replicas');
  expect(found('Ingress').spec.ingressClassName).toBe('nginx');
  const { backend } = found('Ingress').spec.rules[0].http.paths[0];
  expect(backend.service).toEqual({ name: service.metadata.name, port: { name: service.spec.ports[0].name } });
  expect(dirname(container.env.find((each: { name: string }) => each.name === 'API_KEYS_FILE').value)).toBe(
    container.volumeMounts[0].mountPath,
  );
});
