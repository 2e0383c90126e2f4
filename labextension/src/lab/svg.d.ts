/** An icon, bundled as its text. */
declare module '*.svg' {
  const text: string;
  export default text;
}
