/** Saved views of the organization: addresses under short names. */

import { call } from "./api.ts";
import type { ViewDocument, ViewsDocument } from "./documents.ts";

export type View = Pick<ViewDocument, "name" | "address">;

class Views {
  all = $state.raw<View[]>([]);

  async load(): Promise<void> {
    try {
      this.all = (await call<ViewsDocument>("/views")).views;
    } catch {
      this.all = []; // the palette works without them
    }
  }

  async save(name: string, address: string): Promise<void> {
    await call(`/views/${encodeURIComponent(name)}`, { method: "PUT", body: { address } });
    await this.load();
  }

  async remove(name: string): Promise<void> {
    await call(`/views/${encodeURIComponent(name)}`, { method: "DELETE" });
    await this.load();
  }
}

export const views = new Views();
