import { readdir, readlink } from 'node:fs/promises';

/** How many sockets a process has open. Files do not count, because stores open more readers while lists are read. */
export async function openSockets({ pid }: { readonly pid: number }): Promise<number> {
  const folder = `/proc/${pid}/fd`;
  const links = await Promise.all((await readdir(folder)).map((name) => readlink(`${folder}/${name}`).catch(() => '')));
  return links.filter((link) => link.startsWith('socket:')).length;
}
