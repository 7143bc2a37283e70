import { useEffect, useRef, useState } from 'preact/hooks';
import { ServiceError, sentenceOf } from '../http/service-error.js';
import { Wordmark } from '../parts/wordmark.js';
import './sign-in.css';

/** The characters that the header field may carry (RFC 6750 2.1): anything else would be refused before the service is asked. */
const CREDENTIAL = /^[A-Za-z0-9._~+/-]+=*$/;

interface Properties {
  /** Why the previous session ended, in a sentence. */
  readonly reason: string | undefined;
  /** Rejects with the error of the service. */
  signIn(credential: string): Promise<void>;
}

/** The credential lives in the field until it is sent; the tab keeps it when the service has accepted it. */
export function SignIn({ reason, signIn }: Properties) {
  const field = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState(reason);
  const [isAsking, setAsking] = useState(false);
  useEffect(() => field.current?.focus(), []);

  async function submit(event: SubmitEvent) {
    event.preventDefault();
    const credential = field.current?.value.trim() ?? '';
    if (!CREDENTIAL.test(credential)) {
      setProblem(
        credential === ''
          ? 'Enter an API key or a token.'
          : 'This is not an API key or token: it has characters that these never have.',
      );
      field.current?.focus();
      return;
    }
    setAsking(true);
    try {
      await signIn(credential);
    } catch (error) {
      setProblem(refusalOf(error));
      setAsking(false);
      field.current?.focus();
    }
  }

  return (
    <main class="sign-in">
      <form onSubmit={submit} noValidate>
        <Wordmark />
        <h1>Sign in</h1>
        <label for="credential">API key or token</label>
        <input
          ref={field}
          id="credential"
          type="password"
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          aria-describedby="credential-note"
          aria-invalid={problem !== undefined}
          placeholder="idem_…"
        />
        <p id="problem" role="alert" class="problem">
          {problem}
        </p>
        <button type="submit" class="primary" disabled={isAsking}>
          {isAsking ? 'Asking the service…' : 'Sign in'}
        </button>
        <p id="credential-note" class="note">
          This tab keeps it until you sign out or close the tab. What you see depends on its scopes.
        </p>
      </form>
    </main>
  );
}

function refusalOf(error: unknown): string {
  if (error instanceof ServiceError && error.status === 401) {
    return 'The service does not take this credential. It may be mistyped, revoked or expired.';
  }
  return sentenceOf(error);
}
