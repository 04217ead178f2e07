/** Who looks at the page: the organization, its scopes, and the other organizations of this browser. */

import { ApiError, call } from "./api.ts";
import type { IdentityDocument } from "./documents.ts";

export type Identity = IdentityDocument;

class Session {
  identity = $state.raw<Identity | undefined>();
  isSignedOut = $state(false);
  error = $state.raw<ApiError | undefined>();

  async load(): Promise<void> {
    try {
      this.identity = await call<Identity>("/sign-in");
      this.isSignedOut = false;
      this.error = undefined;
    } catch (error) {
      this.identity = undefined;
      if (error instanceof ApiError && error.status === 401) this.isSignedOut = true;
      else this.error = error instanceof ApiError ? error : new ApiError(0, "failed", String(error));
    }
  }

  async signIn(key: string): Promise<void> {
    this.identity = await call<Identity>("/sign-in", { method: "POST", body: { key } });
    this.isSignedOut = false;
  }

  async switchTo(keyId: string): Promise<void> {
    this.identity = await call<Identity>("/sign-in", { method: "POST", body: { key_id: keyId } });
  }

  async signOut(): Promise<void> {
    await call("/sign-in", { method: "DELETE" });
    this.identity = undefined;
    this.isSignedOut = true;
  }

  /** Whether the caller may see what belongs to the whole lake. A server without keys shows it to everyone. */
  get mayAdmin(): boolean {
    return this.identity?.auth === "open" || Boolean(this.identity?.scopes.includes("admin"));
  }

  get mayOperate(): boolean {
    return Boolean(this.identity?.may_operate);
  }
}

export const session = new Session();
