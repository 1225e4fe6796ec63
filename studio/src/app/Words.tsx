// What modules say of themselves: text, with code between backticks. Nothing else of Markdown is
// used there, and nothing of it ever becomes HTML.

export function Words({ text }: { readonly text: string }) {
  let at = 0;
  return text.split("`").map((part, i) => {
    const key = at;
    at += part.length + 1;
    return i % 2 === 1 ? <code key={key}>{part}</code> : part;
  });
}
