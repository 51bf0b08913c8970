import { ApiError, type TriedModel } from "@bollard/client";

/** The answer of a test. A model that did not answer is an error with the words of the host. */
export function checked(answer: TriedModel): TriedModel {
  if (answer.ok) return answer;
  const { message = "", hint = "", cause, base_url } = answer;
  throw new ApiError({ code: cause?.code ?? "model_failed", message, hint, details: { ...cause?.details, model: answer.model_id, base_url } }, 200);
}
