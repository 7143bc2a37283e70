import { UsageError } from '../usage.js';

/** From `--metadata NAME=VALUE`. A value may have `=` and may be empty; limits are the service's. Throws UsageError. */
export function metadataIn(texts: readonly string[] | undefined): Readonly<Record<string, string>> | undefined {
  if (texts === undefined) return undefined;
  const members = new Map<string, string>();
  for (const text of texts) {
    const [, name, value] = /^([^=]+)=(.*)$/su.exec(text) ?? [];
    if (name === undefined || value === undefined) {
      throw new UsageError(`--metadata takes NAME=VALUE, such as cart=8812, and not '${text}'.`);
    }
    if (members.has(name)) throw new UsageError(`--metadata has the name '${name}' more than once.`);
    members.set(name, value);
  }
  return Object.fromEntries(members);
}
