import { useEffect, useState } from 'preact/hooks';

const THEMES = ['system', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];
const SYMBOLS: Readonly<Record<Theme, string>> = { system: '◐', light: '○', dark: '●' };

/**
 * The theme of the system, until another one is chosen; kept as long as the page. `themechange` is sent for parts that draw their own
 * colours.
 */
export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>('system');
  useEffect(() => {
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    dispatchEvent(new Event('themechange'));
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'system';
  return (
    <button
      type="button"
      class="quiet theme"
      aria-label={`Theme: ${theme}. Change to ${next}`}
      title={`Theme: ${theme}`}
      onClick={() => setTheme(next)}
    >
      {SYMBOLS[theme]}
    </button>
  );
}

/** Calls when colours may have changed, by the system or by the switch. Returns what ends that. */
export function onThemeChange(changed: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', changed);
  addEventListener('themechange', changed);
  return () => {
    system.removeEventListener('change', changed);
    removeEventListener('themechange', changed);
  };
}
