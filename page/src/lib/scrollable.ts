/** An element that scrolls sideways is a stop of the tab key while it has more than is in sight. */

import type { Attachment } from "svelte/attachments";

export const scrollable: Attachment<HTMLElement> = (element) => {
  const update = (): void => {
    if (element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver(update);
  observer.observe(element);
  for (const child of element.children) observer.observe(child);
  return () => observer.disconnect();
};
