// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text

const POSTGRES = 'src/stores/postgres/webhooks';
const EMBEDDED = 'src/stores/embedded/webhooks';

/** A mistake in each condition on the deliveries to webhooks, as in `mutants.ts`. Each is given to the tests of its room (`checks.ts`). */
export const WEBHOOKS: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>> = {
  [`${POSTGRES}/endpoint-row-statements.ts`]: {
    'webhooks: an earlier owner writes, in PostgreSQL':
      "'name = $1 AND owner = $2 AND stopped_by IS NULL'; → 'name = $1 AND $2::text IS NOT NULL AND stopped_by IS NULL';",
    'webhooks: a stopped endpoint is served, in PostgreSQL':
      'IS NOT DISTINCT FROM $3::text AND stopped_by IS NULL AND → IS NOT DISTINCT FROM $3::text AND',
    'webhooks: an endpoint has two owners, in PostgreSQL':
      'OR endpoint.lease_until <= clock_timestamp() OR → OR endpoint.lease_until > clock_timestamp() OR',
    'webhooks: a lease stays after the clock was set back, in PostgreSQL':
      ' OR endpoint.lease_until > ${later(`2 * ${leaseMs}`)})`; →  AND ${leaseMs}::float8 > 0)`;',
    'webhooks: an endpoint begins anew while somebody serves it, in PostgreSQL':
      "AND ${isFree('$6')}\n → AND $6::float8 > 0\n",
  },
  [`${EMBEDDED}/endpoint-row-writes.ts`]: {
    'webhooks: an earlier owner writes, in SQLite':
      "row.owner === owner && row.stopped_by → (row.owner === owner || owner !== '') && row.stopped_by",
    'webhooks: a stopped endpoint is served, in SQLite':
      'isFree && row.client === client && row.stopped_by === null; → isFree && row.client === client;',
    'webhooks: an endpoint has two owners, in SQLite': 'row.lease_until <= now; → row.lease_until > now;',
    'webhooks: an endpoint begins anew while somebody serves it, in SQLite':
      ' AND (owner IS NULL OR lease_until <= ?6) →  AND lease_until < ?6 * 2',
  },
  'src/webhooks/delivery-window.ts': {
    'webhooks: the position passes a message that was not taken': 'place && !place.open; place = → place; place =',
    'webhooks: a receiver that is down sets everything aside':
      'if (this.lastTakenAt >= open.comparedSince) → if (this.lastTakenAt >= open.comparedSince || open.refusals > 0)',
    'webhooks: a message is set aside within a minute':
      'now - open.countedSince >= SET_ASIDE_AFTER_MS; → now - open.countedSince >= SET_ASIDE_AFTER_MS / 10;',
    'webhooks: any number is under way': 'this.open.size < MOST_OPEN && this → this',
  },
  'src/webhooks/endpoint-run.ts': {
    'webhooks: the position passes what could not be set aside':
      '      this.isFull = true;\n      return; →       this.isFull = true;\n      this.window.pass(delivery);\n      return;',
    'webhooks: a refused message is passed before it is set aside':
      '    const kept = await this.parts.rows.setAside(this.lease, refused); →     this.window.pass(delivery);\n    await this.save().catch(() => {});\n    const kept = await this.parts.rows.setAside({ ...this.lease, name: `${this.lease.name}.` }, refused);',
    'webhooks: a process whose lease has ended goes on sending':
      'return !this.isOver && this.now() < this.leaseEndsAt; → return !this.isOver;',
    'webhooks: a run that begins earlier goes on with what it had read':
      'this.window = new DeliveryWindow(this.parts.random);\n    this.toSave = undefined; → this.toSave = undefined;',
    'webhooks: a refusal counts as taken':
      "if (result.state === 'taken') {\n      this.window → if (result.state === 'taken' || (result.state === 'refused' && endpoint.name !== '')) {\n      this.window",
    'webhooks: a refused probe counts as taken': "result.state !== 'taken' || this.buffer[0] → this.buffer[0]",
  },
  'src/webhooks/addresses.ts': {
    'webhooks: an address of IPv6 that carries one of IPv4 is public':
      ' && !found.match(GLOBAL) →  && !found.match(GLOBAL) && found.match(NAT64)',
    'webhooks: NAT64 leads anywhere':
      "if (METADATA.has(found.toString())) → if (range !== 'unicast' && address.startsWith('64:')) return undefined;\n  if (METADATA.has(found.toString()))",
    'webhooks: a private address is public':
      'return isPrivate ? undefined : → return isPrivate !== undefined ? undefined :',
  },
  'src/webhooks/receivers.ts': {
    'webhooks: an address in the URL is not judged':
      'isIP(host) === 0 ? undefined : refusalOf(host); → isIP(host) >= 0 ? undefined : refusalOf(host);',
    'webhooks: names are looked up at once': 'if (isBusy) return; → if (isBusy && slow.size < 0) return;',
  },
};
