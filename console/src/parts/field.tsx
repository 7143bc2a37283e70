interface FieldProperties {
  readonly id: string;
  readonly label: string;
  readonly hint: string;
  readonly note?: string;
  /** Offered while typing. */
  readonly choices?: readonly string[];
  readonly value: string;
  /** Shown, and not to be changed. */
  readonly isFixed?: boolean;
  set(value: string): void;
}

/** A line of text in a form, with its label and what to know about it. */
export function Field({ id, label, hint, note, choices, value, isFixed = false, set }: FieldProperties) {
  return (
    <>
      <label for={id}>{label}</label>
      <input
        id={id}
        autocomplete="off"
        spellcheck={false}
        placeholder={hint}
        list={choices && `${id}-choices`}
        value={value}
        readOnly={isFixed}
        aria-describedby={note === undefined ? undefined : `${id}-note`}
        onInput={(event) => set(event.currentTarget.value)}
      />
      {choices && (
        <datalist id={`${id}-choices`}>
          {choices.map((choice) => (
            <option key={choice} value={choice} />
          ))}
        </datalist>
      )}
      {note !== undefined && (
        <p id={`${id}-note`} class="muted note">
          {note}
        </p>
      )}
    </>
  );
}
