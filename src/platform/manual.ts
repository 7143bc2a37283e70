import { createRequire } from 'node:module';

interface Manifest {
  readonly version: string;
  /** Filled in by the publisher; a package that is made without an address has none. */
  readonly repository?: { readonly url: string };
}

const manifest: Manifest = createRequire(import.meta.url)('#idempay/package.json');

/** Where to read a page of the repository, such as `docs/reference/processor.md`: its address, or its path if package.json has no address. */
export function pageAt(path: string): string {
  return addressOf(manifest, path) ?? path;
}

/** The address of a file as it is in this version, by the form that GitHub and GitLab have. Undefined if the repository has none. */
export function addressOf({ version, repository }: Manifest, path: string): string | undefined {
  const address = repository?.url.replace(/^git\+|\.git$/g, '');
  return address && `${address}/blob/v${version}/${path}`;
}
