/**
 * The credential of this tab, so that a reload or a shared link that is opened in it does not ask for it again. The browser forgets it with the
 * tab. It is named by the address of the console, because another service may be on the same host behind another path.
 */
const nameOf = () => `idempay credential ${new URL('.', document.baseURI).pathname}`;

export const keptCredential = (): string | undefined => inStorage((storage) => storage.getItem(nameOf())) ?? undefined;

export const keepCredential = (credential: string) => inStorage((storage) => storage.setItem(nameOf(), credential));

export const forgetCredential = () => inStorage((storage) => storage.removeItem(nameOf()));

/** A browser that stores nothing for this page throws: then the credential lives in memory only. */
function inStorage<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(sessionStorage);
  } catch {
    return undefined;
  }
}
