package io.fluxgate;

import java.util.concurrent.CompletionException;

/** Why a call has no answer. The message never contains the address of the server, the token or values of the request. */
public final class FluxGateException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /**
     * The kind of failure:
     * <ul>
     * <li>INVALID: the request itself cannot be decided, or names a rule set that does not exist. No failure mode allows it.
     * <li>REFUSED: the server answers with a status other than 200, see {@link #serverStatus}.
     * <li>TIMEOUT: there was no answer in time. A check that was sent may have taken its tokens.
     * <li>NETWORK: the server cannot be reached, or the connection broke.
     * <li>ANSWER: the answer is not one of a FluxGate server.
     * <li>BUSY: too many checks are under way in this client, or the server was busy until the deadline. Nothing was taken.
     * </ul>
     */
    public enum Code { INVALID, REFUSED, TIMEOUT, NETWORK, ANSWER, BUSY }

    private final Code code;
    private final int serverStatus;
    private final transient String receipt;

    FluxGateException(Code code, String message, int serverStatus, String receipt) {
        super(message);
        this.code = code; this.serverStatus = serverStatus; this.receipt = receipt;
    }

    FluxGateException(Code code, String message) { this(code, message, 0, null); }

    static FluxGateException notAnswer() { return new FluxGateException(Code.ANSWER, "the answer is not one of a FluxGate server"); }

    /** The error of a call, which futures wrap. */
    static FluxGateException of(Throwable error) {
        Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
        if (cause instanceof FluxGateException e) return e;
        // The message of another error may contain the address.
        return new FluxGateException(Code.NETWORK, "the server cannot be reached: " + cause.getClass().getSimpleName());
    }

    /** Returns the kind of failure. */
    public Code code() { return code; }

    /** Returns the HTTP status of the server's answer, or 0 if there was none. */
    public int serverStatus() { return serverStatus; }

    /** Returns the receipt to use from then on if {@code extend} has renewed a part of the slots and the others are lost, or null. */
    public String receipt() { return receipt; }
}
