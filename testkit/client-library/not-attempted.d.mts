export function isNotAttempted(fault: unknown): boolean;
