/**
 * An element that scrolls sideways is a stop of the tab key while it has more than is in sight. In a narrow window the
 * rows of tables in elements of the class `stacks` are lists of names and values: cells get the name of their column.
 */

import type { Attachment } from "svelte/attachments";

const NARROW = "(max-width: 600px)"; // as in base.css

function nameCells(element: HTMLElement): void {
  for (const table of element.querySelectorAll("table")) {
    const names = Array.from(table.tHead?.rows[0]?.cells ?? [], (cell) => cell.textContent.trim());
    for (const row of Array.from(table.tBodies).flatMap((body) => Array.from(body.rows))) {
      for (const [place, cell] of Array.from(row.cells).entries()) {
        cell.dataset.name = names[place] ?? "";
        cell.toggleAttribute("data-empty", ["", "–"].includes(cell.textContent.trim()));
      }
    }
  }
}

export const scrollable: Attachment<HTMLElement> = (element) => {
  const update = (): void => {
    if (element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  };
  const narrow = matchMedia(NARROW);
  const stack = (): void => {
    if (narrow.matches && element.classList.contains("stacks")) nameCells(element);
  };
  const sizes = new ResizeObserver(update);
  sizes.observe(element);
  for (const child of element.children) sizes.observe(child);
  const changes = new MutationObserver(stack);
  changes.observe(element, { childList: true, characterData: true, subtree: true });
  narrow.addEventListener("change", stack);
  stack();
  return () => {
    sizes.disconnect();
    changes.disconnect();
    narrow.removeEventListener("change", stack);
  };
};
