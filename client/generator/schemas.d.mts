export function descriptionSchemas(): Record<string, object>;
export function digestOf(schemas: Record<string, object>): string;
