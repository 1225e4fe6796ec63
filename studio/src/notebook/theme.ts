// Follows the notebook's colour theme. Each kind of notebook announces it in its own way, so it is
// read from the background behind the view.

/** Sets the host's theme from its background; returns the function that stops it. */
export function followTheme(host: HTMLElement): () => void {
  const update = () => {
    host.dataset.theme = isDark(host) ? "dark" : "light";
  };
  const observer = new MutationObserver(update);
  for (const element of [document.documentElement, document.body]) {
    observer.observe(element, { attributes: true });
  }
  // A theme's style sheet may load after its attribute is set.
  observer.observe(document.head, { childList: true, subtree: true });
  document.head.addEventListener("load", update, true);
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", update);
  update();
  // The host is attached to the page only after this call.
  const frame = requestAnimationFrame(update);
  return () => {
    cancelAnimationFrame(frame);
    observer.disconnect();
    document.head.removeEventListener("load", update, true);
    system.removeEventListener("change", update);
  };
}

/** Whether the first opaque background behind an element is dark; else the system's theme. */
function isDark(element: Element): boolean {
  for (let at: Element | null = element; at !== null; at = parentOf(at)) {
    const brightness = brightnessOf(getComputedStyle(at).backgroundColor);
    if (brightness !== undefined) return brightness < 0.5;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function parentOf(element: Element): Element | null {
  const root = element.getRootNode();
  return element.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}

/** Brightness from 0 (black) to 1; undefined if transparent. Takes any CSS colour syntax. */
function brightnessOf(color: string): number | undefined {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d");
  if (pixel === null) return undefined;
  pixel.fillStyle = color;
  pixel.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0, opacity = 0] = pixel.getImageData(0, 0, 1, 1).data;
  if (opacity < 128) return undefined;
  return (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
}
