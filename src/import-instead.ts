// The entry of the package, for `import 'idempay'`: the service is a program, so the import fails, and says what to import.
throw new Error(
  "The package idempay is a program (npx idempay) and exports nothing under this name. Import '@idempay/client' to call the service, or 'idempay/testing' for your tests.",
);
