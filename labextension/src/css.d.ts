/** A style sheet, bundled as its text. */
declare module '*.css' {
  const text: string;
  export default text;
}
