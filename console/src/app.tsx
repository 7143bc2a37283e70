import { useCallback, useEffect, useState } from 'preact/hooks';
import { forgetCredential, keepCredential, keptCredential } from './access/kept-credential.js';
import { type Access, openAccess } from './access/session.js';
import { SignIn } from './access/sign-in.js';
import { Frame } from './frame.js';
import { ServiceError, sentenceOf } from './http/service-error.js';
import { ErrorState, LoadingState } from './parts/states.js';

type Stage =
  | { readonly name: 'opening' }
  | { readonly name: 'unreachable'; readonly sentence: string }
  | { readonly name: 'signed out'; readonly reason: string | undefined }
  | { readonly name: 'signed in'; readonly access: Access };

/**
 * A service without credentials needs no sign-in; otherwise the sign-in form is shown until a credential is accepted. The tab keeps an accepted
 * credential until the service refuses it or somebody signs out; while the service cannot be reached, it stays kept.
 */
export function App() {
  const [stage, setStage] = useState<Stage>({ name: 'opening' });
  const signOut = useCallback((reason?: string) => {
    forgetCredential();
    setStage({ name: 'signed out', reason });
  }, []);
  const expired = useCallback(
    (sentence: string) => signOut(`The service no longer takes your credential: sign in again. It says: ${sentence}`),
    [signOut],
  );

  const open = useCallback(async () => {
    setStage({ name: 'opening' });
    const kept = keptCredential();
    try {
      setStage({ name: 'signed in', access: await openAccess(kept, expired) });
    } catch (error) {
      if (!(error instanceof ServiceError && error.status === 401))
        setStage({ name: 'unreachable', sentence: sentenceOf(error) });
      else if (kept === undefined) signOut();
      else expired(error.message);
    }
  }, [expired, signOut]);
  useEffect(() => void open(), [open]);

  switch (stage.name) {
    case 'opening':
      return <LoadingState what="the console" />;
    case 'unreachable':
      return (
        <main class="alone">
          <ErrorState sentence={stage.sentence} action={{ label: 'Try again', run: open }} />
        </main>
      );
    case 'signed out':
      return (
        <SignIn
          key={stage.reason}
          reason={stage.reason}
          signIn={async (credential) => {
            const access = await openAccess(credential, expired);
            keepCredential(credential);
            setStage({ name: 'signed in', access });
          }}
        />
      );
    case 'signed in':
      return <Frame access={stage.access} signOut={() => signOut()} />;
  }
}
