import { Badge } from './badge.js';
import './parts.css';

/** Characters that show nothing or turn the text around; a joiner between emoji is none of them. */
const HIDDEN = /[^\P{Cf}\u200d]|[\p{Zl}\p{Zp}]|^\s|\s$|\s\s/gu;

/**
 * An account as it is kept: isolated from the direction of the text next to it, with every space, and with a word if it hides something.
 */
export function Account({ account, href }: { account: string; href?: string }) {
  const text = <bdi class="account">{account}</bdi>;
  return (
    <>
      {href === undefined ? text : <a href={href}>{text}</a>}
      {account.search(HIDDEN) >= 0 && (
        <span title={escaped(account)}>
          {' '}
          <Badge tone="warn">hidden characters</Badge>
        </span>
      )}
    </>
  );
}

function escaped(text: string): string {
  return text.replace(HIDDEN, (found) =>
    [...found].map((character) => `\\u{${character.codePointAt(0)?.toString(16)}}`).join(''),
  );
}
