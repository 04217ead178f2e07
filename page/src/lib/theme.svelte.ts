/** Light, dark, or what the system says. `version` grows when colours change, so that canvas is drawn again. */

export type Theme = "system" | "light" | "dark";

class Appearance {
  theme = $state<Theme>((document.documentElement.dataset.theme as Theme) ?? "system");
  version = $state(0);

  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (this.version += 1));
  }

  set(theme: Theme): void {
    this.theme = theme;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      if (theme === "system") localStorage.removeItem("neve.theme");
      else localStorage.setItem("neve.theme", theme);
    } catch {
      // Storage may be disabled: the choice holds until the page is closed.
    }
    this.version += 1;
  }
}

export const appearance = new Appearance();
