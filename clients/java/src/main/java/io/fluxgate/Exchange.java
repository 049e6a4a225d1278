package io.fluxgate;

import io.fluxgate.FluxGateException.Code;
import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;

/** Sends requests to a server, each once. */
record Exchange(HttpClient http, String base, String token) {
    /** The longest answer in bytes. One of 64 rules with 16 bands is shorter. */
    private static final int MAX_ANSWER = 1 << 20;
    /** Statuses of requests that cannot be decided, or settled, as they are. */
    private static final Set<Integer> INVALID = Set.of(400, 413, 422, 500);

    /** Errors do not contain the address: it may have a password. */
    Exchange {
        base = base.replaceAll("/+$", "");
        if (!base.matches("https?://[\\w.:\\[\\]-]+(/[\\w.~%/-]*)?")) {
            throw new IllegalArgumentException("the server's address must be http://host:port or https://host:port, without a user and a query");
        }
        if (!token.matches("[!-~]*")) throw new IllegalArgumentException("the token has characters that are not allowed in a bearer token");
    }

    /**
     * Sends a body. The result is the answer, or a FluxGateException for any status but 200. If the caller completes the result with an
     * error, the exchange ends.
     */
    void post(String path, String body, CompletableFuture<String> result) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + path)).POST(HttpRequest.BodyPublishers.ofString(body))
                .version(HttpClient.Version.HTTP_1_1).header("Content-Type", "application/json").header("User-Agent", "fluxgate-java");
        if (!token.isEmpty()) request.header("Authorization", "Bearer " + token);
        CompletableFuture<?> sent = http.sendAsync(request.build(), info -> new Answer(this, info, result));
        sent.whenComplete((response, error) -> {
            if (error != null) result.completeExceptionally(FluxGateException.of(error));
        });
        // An answer with another status has ended by itself: its connection is reused.
        result.whenComplete((text, error) -> {
            if (error != null && !(error instanceof FluxGateException e && e.serverStatus() != 0)) sent.cancel(true);
        });
    }

    /** The error of a status other than 200. */
    private FluxGateException refusal(HttpResponse.ResponseInfo info, String text) {
        int status = info.statusCode();
        boolean isProblem = info.headers().firstValue("Content-Type").orElse("").startsWith("application/problem+json");
        Map<?, ?> problem = Map.of();
        try {
            if (isProblem && Json.read(text) instanceof Map<?, ?> read) problem = read;
        } catch (IllegalArgumentException unreadable) {
            // The status is known.
        }
        // Proxies answer 404 and 503 too. A server that is busy has taken nothing.
        boolean invalid = INVALID.contains(status) || status == 404 && "no-rule-set".equals(problem.get("reason"));
        boolean busy = isProblem && status == 503 && info.headers().firstValue("Retry-After").isPresent();
        String message = "the server answers " + status;
        if (problem.get("detail") instanceof String detail && !detail.isEmpty()) {
            String safe = token.isEmpty() ? detail : detail.replace(token, "…");
            message += ": " + safe.substring(0, Math.min(400, safe.length())).replaceAll("[\\p{C}\\p{Z}]", " ");
        }
        String receipt = problem.get("receipt") instanceof String renewed ? renewed : null;
        return new FluxGateException(invalid ? Code.INVALID : busy ? Code.BUSY : Code.REFUSED, message, status, receipt);
    }

    /** Reads an answer and completes the result itself: the future of the HTTP client would do it in a pool of the whole process. */
    private record Answer(Exchange exchange, HttpResponse.ResponseInfo info, CompletableFuture<String> result, CompletableFuture<Void> end,
            ByteArrayOutputStream bytes) implements HttpResponse.BodySubscriber<Void> {
        Answer(Exchange exchange, HttpResponse.ResponseInfo info, CompletableFuture<String> result) {
            this(exchange, info, result, new CompletableFuture<>(), new ByteArrayOutputStream());
        }

        @Override public CompletionStage<Void> getBody() { return end; }

        @Override public void onSubscribe(Flow.Subscription subscription) { subscription.request(Long.MAX_VALUE); }

        @Override public void onNext(List<ByteBuffer> buffers) {
            for (ByteBuffer buffer : buffers) {
                byte[] chunk = new byte[buffer.remaining()];
                buffer.get(chunk);
                if (bytes.size() <= MAX_ANSWER) bytes.writeBytes(chunk);
            }
            if (bytes.size() > MAX_ANSWER) onError(new FluxGateException(Code.ANSWER, "the answer is longer than " + MAX_ANSWER + " bytes"));
        }

        @Override public void onError(Throwable error) {
            end.completeExceptionally(error);
            result.completeExceptionally(FluxGateException.of(error)); // which ends the exchange
        }

        @Override public void onComplete() {
            end.complete(null);
            String text = bytes.toString(StandardCharsets.UTF_8);
            if (info.statusCode() == 200) result.complete(text);
            else result.completeExceptionally(exchange.refusal(info, text));
        }
    }
}
