export { FluxGate, type CallOptions, type FluxGateOptions, type OnFailure } from "./client.js";
export { FluxGateError, type ErrorCode } from "./errors.js";
export type { Cost, Reservation, Reserved, Work } from "./reservation.js";
export type { Actual, Band, CheckRequest, Decision, Settlement, Settlements, Usage } from "./types.js";
