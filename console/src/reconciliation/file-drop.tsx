import { useState } from 'preact/hooks';
import { bytesText } from '../parts/numbers.js';

/** A place to drop one file on, or to choose it from. */
export function FileDrop({ file, take }: { file: File | undefined; take(file: File): void }) {
  const [isOver, setOver] = useState(false);
  return (
    <label
      class={isOver ? 'drop over' : 'drop'}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        const dropped = event.dataTransfer?.files[0];
        if (dropped) take(dropped);
      }}
    >
      <input
        type="file"
        class="visually-hidden"
        accept=".csv,.tsv,.txt,.ndjson,.jsonl,text/csv"
        onChange={({ currentTarget }) => {
          const chosen = currentTarget.files?.[0];
          if (chosen) take(chosen);
          // The same file may be chosen again after it was changed.
          currentTarget.value = '';
        }}
      />
      {file ? (
        <>
          <strong>
            <bdi>{file.name}</bdi>
          </strong>
          <span class="muted">{bytesText(file.size)}. Drop another one here, or choose it.</span>
        </>
      ) : (
        <>
          <strong>Drop the processor’s statement here, or choose the file</strong>
          <span class="muted">CSV with a header, or one JSON object for each line.</span>
        </>
      )}
    </label>
  );
}
