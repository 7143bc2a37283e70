/** Shown as it is in the text of a page, and in the value of an attribute. */
export const escaped = (text: string) => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
