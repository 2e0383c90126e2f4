import { Component } from 'preact';

/** A component that is drawn again only when one of its properties is another value. */
export abstract class Pure<P> extends Component<P> {
  shouldComponentUpdate(next: Readonly<P>): boolean {
    const before = this.props as Record<string, unknown>;
    const after = next as Record<string, unknown>;
    return Object.keys(after).some(name => before[name] !== after[name]);
  }
}
