package io.fluxgate;

import io.fluxgate.FluxGateException.Code;
import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.CompletableFuture;

/** Sends requests to a server, each once. */
record Exchange(HttpClient http, String base, String token) {
    /** The longest answer in bytes. One of 64 rules with 16 bands is shorter. */
    private static final int MAX_ANSWER = 1 << 20;
    /** Statuses of requests that cannot be decided, or settled, as they are. */
    private static final Set<Integer> INVALID = Set.of(400, 413, 422, 500);

    /** An answer with any status. */
    record Answer(HttpResponse.ResponseInfo info, String text) { }

    /** Errors do not contain the address: it may have a password. */
    Exchange {
        base = base.replaceAll("/+$", "");
        if (!base.matches("https?://[\\w.:\\[\\]-]+(/[\\w.~%/-]*)?")) {
            throw new IllegalArgumentException("the server's address must be http://host:port or https://host:port, without a user and a query");
        }
        if (!token.matches("[!-~]*")) throw new IllegalArgumentException("the token has characters that are not allowed in a bearer token");
    }

    /** Sends a body. If the caller cancels the answer, the exchange ends. */
    CompletableFuture<Answer> post(String path, String body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + path)).POST(HttpRequest.BodyPublishers.ofString(body))
                .header("Content-Type", "application/json").header("User-Agent", "fluxgate-java");
        if (!token.isEmpty()) request.header("Authorization", "Bearer " + token);
        CompletableFuture<Answer> answer = new CompletableFuture<>();
        CompletableFuture<?> sent = http.sendAsync(request.build(), info -> receive(info, answer));
        sent.whenComplete((response, error) -> { if (error != null) answer.completeExceptionally(FluxGateException.of(error)); });
        answer.whenComplete((received, error) -> { if (error != null) sent.cancel(true); });
        return answer;
    }

    /** Receives an answer and completes it here: the future of the HTTP client would do it in a pool of the whole process. */
    private static HttpResponse.BodySubscriber<Void> receive(HttpResponse.ResponseInfo info, CompletableFuture<Answer> answer) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        return HttpResponse.BodySubscribers.ofByteArrayConsumer(chunk -> {
            if (bytes.size() > MAX_ANSWER) answer.completeExceptionally(new FluxGateException(Code.ANSWER, "the answer is longer than " + MAX_ANSWER + " bytes"));
            else chunk.ifPresentOrElse(bytes::writeBytes, () -> answer.complete(new Answer(info, bytes.toString(StandardCharsets.UTF_8))));
        });
    }

    /** Returns the JSON value of an answer, or throws the error that it means. */
    Object read(Answer answer) {
        int status = answer.info.statusCode();
        if (status == 200) return Json.read(answer.text);
        HttpHeaders headers = answer.info.headers();
        boolean isProblem = headers.firstValue("Content-Type").orElse("").startsWith("application/problem+json");
        Map<?, ?> problem = Map.of();
        try {
            if (isProblem && Json.read(answer.text) instanceof Map<?, ?> read) problem = read;
        } catch (IllegalArgumentException unreadable) { } // the status is known
        // Proxies answer 404 and 503 too. A server that is busy has taken nothing.
        boolean invalid = INVALID.contains(status) || status == 404 && "no-rule-set".equals(problem.get("reason"));
        boolean busy = isProblem && status == 503 && headers.firstValue("Retry-After").isPresent();
        String message = "the server answers " + status;
        if (problem.get("detail") instanceof String detail && !detail.isEmpty()) {
            String safe = token.isEmpty() ? detail : detail.replace(token, "…");
            message += ": " + safe.substring(0, Math.min(400, safe.length())).replaceAll("[\\p{C}\\p{Z}]", " ");
        }
        String receipt = problem.get("receipt") instanceof String renewed ? renewed : null;
        throw new FluxGateException(invalid ? Code.INVALID : busy ? Code.BUSY : Code.REFUSED, message, status, receipt);
    }
}
