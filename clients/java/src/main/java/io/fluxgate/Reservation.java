package io.fluxgate;

import java.util.concurrent.*;

/**
 * A request that was decided and is not settled yet. While it is open, the slots of concurrent requests are renewed. Closing it settles
 * the request and releases them.
 */
public final class Reservation implements AutoCloseable {
    private final FluxGate gate;
    private final Decision decision;
    private final long every, estimate;
    private final boolean holds;
    private final CompletableFuture<Void> closed = new CompletableFuture<>();
    private CompletableFuture<?> renewal = CompletableFuture.completedFuture(null);
    private String receipt;
    private boolean lost;
    private Long actual;
    private Usage usage;

    Reservation(FluxGate gate, Decision decision, long cost) {
        this.gate = gate; this.decision = decision; this.receipt = decision.receipt();
        this.estimate = Math.max(1, cost);
        double hold = decision.bands().stream().filter(b -> "concurrency".equals(b.kind()) && b.status().equals("ok") && b.holdMs() > 0)
                .mapToDouble(Decision.Band::holdMs).min().orElse(0);
        this.every = Math.max(1, (long) hold / 3);
        this.holds = hold > 0;
        // A request that has waited took its slots before that.
        if (holds) renewAfter(Math.max(0, every - (long) decision.waitMs()));
    }

    /** Returns the decision. If it is not allowed, the reservation holds nothing. */
    public Decision decision() { return decision; }

    /** Sets the actual cost under rules that count requests; 0 gives everything back. Without a report the estimate stays charged. */
    public synchronized void report(long actual) { this.actual = CheckRequest.count(actual); this.usage = null; }

    /** Sets what the request has used, under all rules. */
    public synchronized void report(Usage usage) { this.usage = usage; }

    private void renewAfter(long ms) {
        closed.copy().orTimeout(ms, TimeUnit.MILLISECONDS).whenComplete((ended, time) -> { if (time != null) renew(); });
    }

    private synchronized void renew() { if (receipt != null) renewal = gate.extendAsync(receipt).handle(this::renewed); }

    private synchronized Void renewed(String next, Throwable thrown) {
        FluxGateException error = thrown == null ? null : FluxGateException.of(thrown);
        boolean notHeld = error != null && error.serverStatus() == 409;
        boolean inPart = notHeld && error.receipt() != null;
        if (error != null && (!notHeld || inPart && !lost)) gate.report(error);
        if (error == null || inPart) receipt = inPart ? error.receipt() : next;
        if (!notHeld || inPart) renewAfter(every); // otherwise all are lost, or the request was settled meanwhile
        lost |= inPart;
        return null;
    }

    /** Settles the request. A failure goes to the function of the client for failures, unless the request was settled before. */
    @Override public void close() { FluxGate.await(closeAsync()); }

    /** Like {@link #close}. The future does not fail. */
    public synchronized CompletableFuture<Void> closeAsync() {
        closed.complete(null);
        return renewal.thenCompose(renewed -> settle()).handle((settled, error) -> {
            if (error != null && FluxGateException.of(error).serverStatus() != 409) gate.report(FluxGateException.of(error));
            return null;
        });
    }

    /** Closes it at the end of a request, unless it has neither slots nor a report: then nothing is to be settled. */
    synchronized void end() { if (holds || actual != null || usage != null) closeAsync(); }

    private synchronized CompletableFuture<?> settle() {
        String last = receipt;
        receipt = null;
        if (last == null) return CompletableFuture.completedFuture(null);
        return usage == null ? gate.settleAsync(last, actual == null ? estimate : actual) : gate.settleAsync(last, usage);
    }
}
