import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Access } from '../access/session.js';
import { EmptyState, ErrorState, LoadingState } from '../parts/states.js';
import type { Route } from './route.js';
import { hashOf, type ViewProperties } from './route.js';
import { VIEWS, type View } from './views.js';

/** The view of an address, or why it is not shown. */
export function ShownView({ view, route, access }: { view: View | undefined; route: Route; access: Access }) {
  if (!view) {
    return (
      <EmptyState title={`There is no view “${route.view}”`}>
        <a href={hashOf(firstView(access).name)}>Open {firstView(access).label}</a>
      </EmptyState>
    );
  }
  if (!isAllowed(view, access)) {
    return (
      <EmptyState title={`${view.label} needs another scope`}>
        Your credential needs {view.scopes.length > 1 ? 'one of the scopes' : 'the scope'}{' '}
        {view.scopes.map((scope, index) => (
          <>
            {index > 0 && ' or '}
            <code>{scope}</code>
          </>
        ))}
        . Ask who issues them, and sign in again.
      </EmptyState>
    );
  }
  return <Loaded key={view.name} view={view} properties={{ ...access, route }} />;
}

/** Views are files of their own, loaded when they are first opened. */
function Loaded({ view, properties }: { view: View; properties: ViewProperties }) {
  const [Component, setComponent] = useState<ComponentType<ViewProperties>>();
  const [hasFailed, setFailed] = useState(false);
  useEffect(() => {
    view.load().then(
      (module) => setComponent(() => module.default),
      () => setFailed(true),
    );
  }, [view]);
  if (hasFailed) {
    // A newer version of the service has files of other names.
    return (
      <ErrorState
        sentence="This part of the console could not be loaded. The service may have been updated: reload the page."
        action={{ label: 'Reload', run: () => location.reload() }}
      />
    );
  }
  return Component ? <Component {...properties} /> : <LoadingState what={view.label} />;
}

export function isAllowed({ scopes }: View, { may }: Access): boolean {
  return scopes.length === 0 || may(...scopes);
}

export function firstView(access: Access): View {
  const view = VIEWS.find((view) => !view.within && isAllowed(view, access));
  if (!view) throw new Error('no view is for every credential');
  return view;
}
