/** Return the trace id in a text that people paste: plain, with dashes, or as a `traceparent`. */
export function findTraceId(text: string): string | undefined {
  const said = text.trim().toLowerCase();
  const parent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/.exec(said);
  if (parent) return parent[1];
  const digits = said.replace(/^0x/, "").replaceAll("-", "");
  return /^[0-9a-f]{32}$/.test(digits) ? digits : undefined;
}
