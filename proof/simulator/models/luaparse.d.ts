/** Its parse tree, as far as `lua.ts` reads it: the nodes' own types are not published with it. */
declare module 'luaparse' {
  // biome-ignore lint/suspicious/noExplicitAny: a node has the members of its type, and the code generator asks for those.
  export type Node = { type: string } & Record<string, any>;
  const luaparse: { parse(text: string, options: { luaVersion: '5.1'; encodingMode: 'pseudo-latin1' }): Node };
  export default luaparse;
}
