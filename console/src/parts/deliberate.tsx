import { useState } from 'preact/hooks';

/** A word that must be typed before something final is done, so that no stray click does it. */
export function useDeliberate(word: string) {
  const [typed, setTyped] = useState('');
  return { word, typed, setTyped, isTyped: typed.trim().toLowerCase() === word };
}

/** `purpose`: the beginning of the sentence, such as "To close it". */
export function DeliberateField({ purpose, deliberate }: Properties) {
  return (
    <>
      <label for="deliberate">
        {purpose}, type <kbd>{deliberate.word}</kbd>
      </label>
      <input
        id="deliberate"
        autocomplete="off"
        value={deliberate.typed}
        onInput={(event) => deliberate.setTyped(event.currentTarget.value)}
      />
    </>
  );
}

interface Properties {
  readonly purpose: string;
  readonly deliberate: ReturnType<typeof useDeliberate>;
}
