import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { pagePatience, startChromium } from '../servers/chromium.js';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
export const THEMES = ['light', 'dark'] as const;
export const PHONE = { width: 390, height: 844 };
export const LAPTOP = { width: 1280, height: 800 };

interface Opening {
  /** An API key or token to sign in with. Omitted if the service asks for none, or if the test signs in itself. */
  readonly secret?: string;
  /** The view that opens first: `#/payments`. */
  readonly hash?: string;
  readonly viewport?: { readonly width: number; readonly height: number };
  /** The locale in which the browser formats numbers and times; `timezoneId` is its time zone. */
  readonly locale?: string;
  readonly timezoneId?: string;
}

/** The console in a tab, and what it did there. */
export interface OpenConsole {
  readonly page: Page;
  /** The messages in the browser's console: among them each violation of the page's policy. */
  readonly complaints: readonly string[];
  /** The address of each request. */
  readonly asked: readonly string[];
  signIn(secret: string): Promise<void>;
}

/** One Chromium for the suite; tabs are closed after each test. Its members are used in hooks and tests. */
export function consoles() {
  let browser: Browser;
  const contexts: BrowserContext[] = [];
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterEach(() => Promise.all(contexts.splice(0).map((context) => context.close())));
  afterAll(() => browser?.close());

  return {
    async open(url: string, { secret, hash = '', viewport = LAPTOP, ...locale }: Opening = {}): Promise<OpenConsole> {
      const context = await browser.newContext({ viewport, ...locale });
      contexts.push(context);
      context.setDefaultTimeout(pagePatience());
      const page = await context.newPage();
      const complaints: string[] = [];
      const asked: string[] = [];
      page.on('console', (message) => complaints.push(message.text()));
      page.on('pageerror', (error) => complaints.push(String(error)));
      page.on('request', (request) => asked.push(request.url()));
      await page.goto(`${url}/console${hash}`);
      const signIn = async (given: string) => {
        await page.getByLabel('API key or token').fill(given);
        await page.getByRole('button', { name: 'Sign in' }).click();
      };
      if (secret !== undefined) await signIn(secret);
      return { page, complaints, asked, signIn };
    },
  };
}

/** Fails if the page asked anybody but its service, broke its policy, or wrote an error; refusals that are meant match `expected`. */
export function expectClean({ complaints, asked }: OpenConsole, url: string, expected?: RegExp): void {
  expect(asked.filter((address) => !address.startsWith(`${url}/`))).toEqual([]);
  expect(complaints.filter((text) => !expected?.test(text))).toEqual([]);
}

/** The value that a view shows next to this name. */
export const factOf = (page: Page, name: string) => page.locator(`.facts dt:text-is("${name}") + dd`);

/** The violations that axe finds in both themes, in words; none is good. */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  // Evaluated, and not added as a script: the policy of the page would refuse that.
  await page.evaluate(await readFile(AXE, 'utf8'));
  const problems: string[] = [];
  for (const theme of THEMES) {
    await page.emulateMedia({ colorScheme: theme });
    problems.push(
      ...(await page.evaluate(async (shown) => {
        const { axe } = window as unknown as { axe: typeof import('axe-core') };
        const { violations } = await axe.run(document);
        return violations.flatMap(({ id, nodes }) =>
          nodes.map(({ html, failureSummary }) => `${shown} ${id}: ${html} ${failureSummary}`),
        );
      }, theme)),
    );
  }
  return problems;
}
