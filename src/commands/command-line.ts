/** Does what the arguments ask for: without any it serves. An argument that is not known ends the process. */
export async function run(parameters: readonly string[]): Promise<void> {
  if (parameters.length === 0) {
    // Serving loads nothing of the other commands.
    const { serve } = await import('../serve.js');
    return serve();
  }
  const [{ runCommand }, { createProgram }] = await Promise.all([
    import('#idempay/cli/run-command.js'),
    import('./program.js'),
  ]);
  await runCommand(parameters, async (isHelp) =>
    createProgram(isHelp ? (await import('../config.js')).settingDefaults() : undefined),
  );
}
