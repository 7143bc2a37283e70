import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { LAPTOP, PHONE, THEMES } from './console.js';

/** A folder: set, the tests of the console write an image of each view there, light and dark, for a desktop and a phone. */
const FOLDER = process.env.IDEMPAY_SCREENSHOTS;
const WIDE = { width: 1920, height: 1080 };
const SIZES = Object.entries({ phone: PHONE, desktop: LAPTOP, wide: WIDE });

/** Does nothing if no folder is named. Leaves the page as it was. */
export async function takeScreenshots(page: Page, view: string): Promise<void> {
  if (FOLDER === undefined) return;
  mkdirSync(FOLDER, { recursive: true });
  const before = page.viewportSize();
  for (const theme of THEMES) {
    await page.emulateMedia({ colorScheme: theme });
    for (const [name, size] of SIZES) {
      await page.setViewportSize(size);
      await page.evaluate(() => scrollTo(0, 0));
      // Charts draw in the next frame.
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      await page.screenshot({ path: join(FOLDER, `${view}-${theme}-${name}.png`), fullPage: true });
    }
  }
  await page.emulateMedia({ colorScheme: null });
  if (before) await page.setViewportSize(before);
}
