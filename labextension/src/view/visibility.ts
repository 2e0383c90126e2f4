/** Call `listener` now and whenever `element` comes into anyone's sight or leaves it. */
export function watchVisibility(
  element: Element,
  listener: (visible: boolean) => void
): () => void {
  const page = element.ownerDocument;
  // Where the browser cannot tell, the element counts as in sight.
  let inSight = typeof IntersectionObserver === 'undefined';
  const tell = (): void =>
    listener(inSight && page.visibilityState === 'visible');
  page.addEventListener('visibilitychange', tell);
  const observer = inSight
    ? null
    : new IntersectionObserver(entries => {
        inSight = entries[entries.length - 1].isIntersecting;
        tell();
      });
  observer?.observe(element);
  tell();
  return () => {
    page.removeEventListener('visibilitychange', tell);
    observer?.disconnect();
  };
}
