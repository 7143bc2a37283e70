import { useEffect, useState } from 'preact/hooks';

/** The file is in the memory of the tab: nobody is asked for it. */
export function Download({ file, name, label }: { file: Blob; name: string; label: string }) {
  const [address, setAddress] = useState<string>();
  useEffect(() => {
    const made = URL.createObjectURL(file);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [file]);
  return (
    <a class="button" href={address} download={name}>
      {label}
    </a>
  );
}
