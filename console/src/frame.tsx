import { useEffect, useRef } from 'preact/hooks';
import type { Access } from './access/session.js';
import { hashOf, navigate, useRoute } from './navigation/route.js';
import { firstView, isAllowed, ShownView } from './navigation/shown-view.js';
import { VIEWS } from './navigation/views.js';
import { Wordmark } from './parts/wordmark.js';
import { ThemeSwitch } from './theme/theme-switch.js';
import './frame.css';

/** The frame around every view: the navigation, the service and the client. */
export function Frame({ access, signOut }: { access: Access; signOut(): void }) {
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  const { session } = access;
  const view = VIEWS.find(({ name }) => name === route.view);
  const marked = view?.within ?? view?.name;

  useEffect(() => {
    if (route.view === '') navigate(hashOf(firstView(access).name), { replace: true });
  }, [route.view, access]);
  useEffect(() => {
    document.title = view ? `${view.label} · Idempay` : 'Idempay console';
    // Moves a screen reader to the new view; at the first view the page itself was just announced.
    if (!isFirst.current) main.current?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [view]);

  return (
    <div class="frame">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header class="bar">
        <Wordmark />
        <nav aria-label="Views">
          {VIEWS.filter((entry) => !entry.within && isAllowed(entry, access)).map(({ name, label }) => (
            <a key={name} href={hashOf(name)} aria-current={marked === name ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
        <div class="who">
          <span class="service" title={`Version ${session.version}, process ${session.instance}`}>
            <span class="host">{location.host}</span> {session.deployment}
          </span>
          <ThemeSwitch />
          {session.access === 'required' && (
            <>
              <bdi class="client" title={`Scopes: ${session.scopes.join(', ')}`}>
                {session.client}
              </bdi>
              <button type="button" class="quiet" onClick={signOut}>
                Sign out
              </button>
            </>
          )}
        </div>
      </header>
      <main ref={main} id="content" tabIndex={-1}>
        {route.view !== '' && <ShownView view={view} route={route} access={access} />}
      </main>
    </div>
  );
}
