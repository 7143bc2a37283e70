import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { patience } from '../time/patience.js';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/** For `setDefaultTimeout` of a page: what a test waits for in a page at most. */
export const pagePatience = () => patience(30_000);

/** The machine's Chromium. It needs dozens of libraries, so it is not unpacked alongside the tests as servers are. */
export async function startChromium(): Promise<Browser> {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const program = folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find((path) => existsSync(path));
  if (program === undefined) throw new Error('Chromium is needed for the tests in a browser: apt-get install chromium');
  // Its sandbox does not start as root, which containers run tests as. Only pages of our own are opened.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath: program, args });
}
