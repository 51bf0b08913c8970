/** What the host said about a request that failed. `code` and `reason` are stable; `message` and `hint` are for people. */
export interface ErrorBody {
  code: string;
  message: string;
  hint?: string;
  retryable?: boolean;
  details?: Record<string, unknown>;
}

export class ApiError extends Error {
  readonly code: string;
  readonly hint: string | undefined;
  readonly retryable: boolean;
  readonly details: Record<string, unknown>;
  /** The HTTP status; 0 if no answer arrived. */
  readonly status: number;

  constructor(body: ErrorBody, status: number) {
    super(body.message);
    this.name = "ApiError";
    this.code = body.code;
    this.hint = body.hint;
    this.retryable = body.retryable ?? false;
    this.details = body.details ?? {};
    this.status = status;
  }

  get reason(): string | undefined {
    return typeof this.details.reason === "string" ? this.details.reason : undefined;
  }
}

/** The error of an answer. A body that is not ours, for example of a proxy, becomes `bad_answer`. */
export function errorOf(body: unknown, status: number): ApiError {
  const inner = isObject(body) && isObject(body.error) ? body.error : body;
  if (isObject(inner) && typeof inner.code === "string" && typeof inner.message === "string") {
    return new ApiError(inner as unknown as ErrorBody, status);
  }
  return new ApiError({ code: "bad_answer", message: `The host answered with status ${String(status)}.`, retryable: status >= 500 }, status);
}

/** The error of a request without an answer: the host is down, or the network is. */
export function unreachable(): ApiError {
  return new ApiError({ code: "unreachable", message: "The host does not answer.", retryable: true }, 0);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
