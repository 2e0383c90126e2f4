/** Calls `callback` once, later: at the next frame in a page. */
export type Schedule = (callback: () => void) => void;

export const nextFrame: Schedule = callback => {
  requestAnimationFrame(callback);
};

/** Listeners that hear of any number of changes at most once per frame. */
export class FrameSignal {
  private readonly listeners = new Set<() => void>();
  private scheduled = false;

  constructor(private readonly schedule: Schedule) {}

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  emit(): void {
    if (this.scheduled) {
      return;
    }
    this.scheduled = true;
    this.schedule(() => {
      this.scheduled = false;
      [...this.listeners].forEach(listener => listener());
    });
  }
}
