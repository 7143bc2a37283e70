// A file of its own, because the policy of the page allows no script that stands in it.
window.SwaggerUIBundle({
  dom_id: '#reference',
  url: new URLSearchParams(location.search).has('all') ? 'openapi-all.json' : 'openapi.json',
  // The badge of a validator on the internet.
  validatorUrl: null,
  deepLinking: true,
  docExpansion: 'list',
  // Credentials are forgotten when the page is left.
  persistAuthorization: false,
});
