package io.fluxgate;

import jakarta.servlet.*;
import jakarta.servlet.http.*;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.*;
import java.util.*;
import java.util.function.BiConsumer;

/**
 * A servlet filter that limits requests. It answers a rejected request with 429 (or 403, 400, 503: by the reason), {@code Retry-After}, the
 * {@code RateLimit} headers and a problem document. A request counts once, also if it is forwarded, dispatched again or ends with an error
 * page. A slot of concurrent requests is held until the request has ended, also if it is asynchronous: register the filter with support
 * for these. Configure the filter before its first request.
 */
public final class FluxGateFilter implements Filter {
    /** The attribute of a request with its {@link Reservation}: its decision, and what the app reports to be settled at the end. */
    public static final String RESERVATION = "io.fluxgate.reservation";

    private static final Set<String> CREDENTIALS = Set.of("authorization", "cookie", "proxy-authorization");

    private final FluxGate gate;
    private final String counted = RESERVATION + "." + UUID.randomUUID();
    private ClientIp clientIp = new ClientIp("X-Forwarded-For");
    private List<String> only;
    private String parameters = ";[^/]*";
    private BiConsumer<HttpServletRequest, CheckRequest> amend = (http, request) -> { };

    /** Makes a filter that trusts no proxy: the client is the peer. */
    public FluxGateFilter(FluxGate gate) { this.gate = gate; }

    /**
     * Trusts proxies to name the client in a header: {@code X-Forwarded-For}, or another one with a single address that
     * each of them overwrites. Proxies are addresses and networks, such as 192.0.2.10 and 10.1.0.0/16.
     */
    public FluxGateFilter trustedProxies(String header, String... proxies) { clientIp = new ClientIp(header, proxies); return this; }

    /** Sets the function that adds what the service knows: the user, the API key, attributes, the cost. It may change everything. */
    public FluxGateFilter amend(BiConsumer<HttpServletRequest, CheckRequest> amend) { this.amend = amend; return this; }

    /** Sends path parameters too, for apps that route by them. Rules for /login then do not apply to /login;x. */
    public FluxGateFilter keepPathParameters() { parameters = ""; return this; }

    /** Sets the names of the headers that are sent to the server. The default is all but those with credentials. */
    public FluxGateFilter headers(String... names) { only = Arrays.stream(names).map(FluxGateFilter::lower).toList(); return this; }

    private static String lower(String name) { return name.toLowerCase(Locale.ROOT); }

    @Override public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain) throws IOException, ServletException {
        DispatcherType type = request.getDispatcherType();
        boolean part = type == DispatcherType.ERROR || type == DispatcherType.INCLUDE || request.getAttribute(counted) != null;
        if (part || !(request instanceof HttpServletRequest http && response instanceof HttpServletResponse answer)) {
            chain.doFilter(request, response);
            return;
        }
        request.setAttribute(counted, true);
        Reservation reservation = decide(http, answer);
        if (reservation != null) pass(http, answer, chain, reservation);
    }

    /** Returns the reservation of a request that passes, or answers it and returns null. */
    private Reservation decide(HttpServletRequest http, HttpServletResponse answer) throws IOException {
        try {
            Reservation reservation = gate.reserve(describe(http));
            Decision decision = reservation.decision();
            http.setAttribute(RESERVATION, reservation);
            Answers.headers(decision).forEach(answer::setHeader);
            if (decision.allowed()) return reservation;
            refuse(http, answer, Answers.problem(decision));
        } catch (FluxGateException e) {
            if (e.code() != FluxGateException.Code.INVALID) throw e;
            gate.report(e);
            refuse(http, answer, Answers.problem(e));
        }
        return null;
    }

    /** Serves a request, and holds its slots until it has ended. */
    private static void pass(HttpServletRequest http, HttpServletResponse answer, FilterChain chain, Reservation reservation) throws IOException, ServletException {
        boolean goesOn = false;
        try {
            chain.doFilter(http, answer);
            goesOn = http.isAsyncStarted();
        } finally { // a request that has failed has ended, and Tomcat does not always say so
            if (goesOn) new End(reservation).listen(http.getAsyncContext());
            else reservation.end();
        }
    }

    private CheckRequest describe(HttpServletRequest http) {
        // HTTP/2 has no header Host.
        String port = http.getServerPort() == (http.isSecure() ? 443 : 80) ? "" : ":" + http.getServerPort();
        String host = http.getHeader("Host") == null ? http.getServerName() + port : http.getHeader("Host");
        CheckRequest check = new CheckRequest().method(http.getMethod()).path(path(http)).host(host);
        check.ip(clientIp.resolve(http.getRemoteAddr(), Collections.list(http.getHeaders(clientIp.header))));
        for (String name : Collections.list(http.getHeaderNames())) {
            boolean sent = only == null ? !CREDENTIALS.contains(lower(name)) : only.contains(lower(name));
            if (sent) check.header(name, Collections.list(http.getHeaders(name)).stream().map(FluxGateFilter::decode).toList());
        }
        amend.accept(http, check);
        return check;
    }

    /**
     * The path as the client has sent it, without path parameters: servlet containers route /login;x to /login, and rules must not see
     * another path than the one that is served.
     */
    private String path(HttpServletRequest http) {
        Object forwarded = http.getAttribute(RequestDispatcher.FORWARD_REQUEST_URI), dispatched = http.getAttribute(AsyncContext.ASYNC_REQUEST_URI);
        Object sent = forwarded != null ? forwarded : dispatched != null ? dispatched : http.getRequestURI();
        return sent.toString().replaceAll(parameters, "");
    }

    /** Containers make a character of each byte of a header. Rules and other middlewares read UTF-8. */
    private static String decode(String line) {
        if (!line.chars().allMatch(c -> c < 0x100)) return line;
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(line.getBytes(StandardCharsets.ISO_8859_1))).toString();
        } catch (CharacterCodingException notUtf8) { return line; }
    }

    private static void refuse(HttpServletRequest http, HttpServletResponse answer, Map<String, Object> problem) throws IOException {
        byte[] body = Json.write(problem).getBytes(StandardCharsets.UTF_8);
        answer.setStatus((Integer) problem.get("status"));
        answer.setHeader("Cache-Control", "no-store");
        answer.setHeader("X-Content-Type-Options", "nosniff");
        answer.setContentType("application/problem+json");
        answer.setContentLength(body.length);
        if (!http.getMethod().equals("HEAD")) answer.getOutputStream().write(body);
    }

    /** Closes a reservation at the end of an asynchronous request. onComplete follows onTimeout and onError. */
    private record End(Reservation reservation) implements AsyncListener {
        void listen(AsyncContext context) {
            try {
                context.addListener(this);
            } catch (IllegalStateException ended) { reservation.end(); }
        }

        @Override public void onComplete(AsyncEvent event) { reservation.end(); }

        @Override public void onTimeout(AsyncEvent event) { }

        @Override public void onError(AsyncEvent event) { }

        /** The request is asynchronous again, and has lost its listeners. */
        @Override public void onStartAsync(AsyncEvent event) { listen(event.getAsyncContext()); }
    }
}
