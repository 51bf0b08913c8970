import { expect, it } from "vitest";
import { editableFields, KEPT } from "./saving";

it("edits the fields of the body, and neither secrets nor a sign that there is one", () => {
  expect(editableFields("users", { user_id: "ann", name: "Ann", role: "admin", disabled: false, password: true, revision: 3 })).toEqual({ user_id: "ann", name: "Ann", role: "admin", disabled: false });
  expect(editableFields("channels", { channel_id: "room", url: "https://example.org", secret: KEPT, bot: null, revision: 1 })).toEqual({ channel_id: "room", url: "https://example.org" });
});
