// Renders text with code between backticks, the only Markdown that module descriptions use. Nothing
// becomes HTML.

export function InlineMarkdown({ text }: { readonly text: string }) {
  let at = 0;
  return text.split("`").map((part, i) => {
    const key = at;
    at += part.length + 1;
    return i % 2 === 1 ? <code key={key}>{part}</code> : part;
  });
}
