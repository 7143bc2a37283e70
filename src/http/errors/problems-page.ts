import { type Problem, reasonPhrase } from './public-error.js';
import { PROBLEMS } from './public-errors.js';

/** What the types of RFC 9457 refer to (rule P20): every public error, made of the catalogue. It has no style and no script. */
export function problemsPage(): string {
  const entries = Object.values(PROBLEMS).map(entryOf).sort();
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Idempay: errors</title>
<link rel="icon" href="data:,">
</head>
<body>
<h1>Errors</h1>
<p>A request with <code>Accept: application/problem+json</code> gets an error as RFC 9457. Its <code>type</code> is <code>/problems#</code> and one of these
names, which never change. Its <code>detail</code> says what happened to this request. An error of a payment has <code>charge</code>, which speaks of the key, or
of all attempts at the reference if one is named or the key is computed from one: <code>made</code>, <code>none</code> (nothing was charged, and nothing will be without another attempt) or <code>unknown</code>.
An error without it is <code>unknown</code>.</p>
<dl>
${entries.join('\n')}
</dl>
</body>
</html>
`;
}

function entryOf({ name, status, title, action }: Problem): string {
  const said = status === 'several' ? 'several statuses' : `${status} ${reasonPhrase(status)}`;
  return `<dt id="${name}"><a href="#${name}"><code>${name}</code></a> (${said})</dt>\n<dd>${title} ${action}</dd>`;
}
