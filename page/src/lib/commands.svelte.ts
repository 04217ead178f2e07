/** Commands of the palette. Screens add theirs while they are open. */

import { untrack } from "svelte";

export interface Command {
  words: string;
  keys?: string;
  run: () => void;
}

class CommandGroups {
  all = $state.raw<{ name: string; commands: Command[] }[]>([]);
}

export const commandGroups = new CommandGroups();

/** Offer commands while a component lives. Call it while the component is set up. */
export function offerCommands(name: string, commands: () => Command[]): void {
  $effect(() => {
    const group = { name, commands: commands() };
    untrack(() => (commandGroups.all = [...commandGroups.all, group]));
    return () => {
      commandGroups.all = commandGroups.all.filter((one) => one !== group);
    };
  });
}
