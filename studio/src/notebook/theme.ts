// Whether the notebook is dark. Each kind of notebook says so in its own way; what all have in
// common is what lies behind the view.

/** Follows the notebook's colours; gives what ends that. */
export function followTheme(host: HTMLElement): () => void {
  const look = () => {
    host.dataset.theme = isDark(host) ? "dark" : "light";
  };
  const watcher = new MutationObserver(look);
  for (const element of [document.documentElement, document.body]) {
    watcher.observe(element, { attributes: true });
  }
  // A theme may be a sheet that comes later than the word for it.
  watcher.observe(document.head, { childList: true, subtree: true });
  document.head.addEventListener("load", look, true);
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", look);
  look();
  // What is drawn into is part of the page only after this.
  const frame = requestAnimationFrame(look);
  return () => {
    cancelAnimationFrame(frame);
    watcher.disconnect();
    document.head.removeEventListener("load", look, true);
    system.removeEventListener("change", look);
  };
}

/** Whether the first colour behind an element is dark; without one, what the system has. */
function isDark(element: Element): boolean {
  for (let at: Element | null = element; at !== null; at = above(at)) {
    const brightness = brightnessOf(getComputedStyle(at).backgroundColor);
    if (brightness !== undefined) return brightness < 0.5;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function above(element: Element): Element | null {
  const root = element.getRootNode();
  return element.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}

/** From black to white; nothing, if it can be seen through. However the colour is written. */
function brightnessOf(color: string): number | undefined {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d");
  if (pixel === null) return undefined;
  pixel.fillStyle = color;
  pixel.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0, opacity = 0] = pixel.getImageData(0, 0, 1, 1).data;
  if (opacity < 128) return undefined;
  return (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
}
