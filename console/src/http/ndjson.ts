/** The objects of an `application/x-ndjson` body, one for each line, as they arrive. Ends with the body. */
export async function* readLines(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<unknown, void, void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line !== '') yield JSON.parse(line);
    }
    if (rest !== '') yield JSON.parse(rest);
  } finally {
    // Also when the caller leaves early: the request ends with it.
    await reader.cancel().catch(() => {});
  }
}
