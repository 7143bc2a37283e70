let name = 'idempay';

/** How the command is called in examples and advice: `idempay`, which has the commands of the service as well, unless this package runs alone. */
export const commandName = (): string => name;

export function nameCommand(own: string): void {
  name = own;
}
