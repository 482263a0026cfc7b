// Panels that a single explorer has.

export const SPECIAL = {};
