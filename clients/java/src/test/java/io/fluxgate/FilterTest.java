package io.fluxgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import org.apache.tomcat.util.descriptor.web.ErrorPage;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The filter on Tomcat, in front of a real server. */
class FilterTest {
    private static FluxGate gate;
    private static Servers.App app;

    /** A servlet that does what the last part of the path says. */
    private static final class Acts extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException, ServletException {
            String act = request.getHeader("X-Act") == null ? "" : request.getHeader("X-Act");
            if (request.getAttribute("inner") != null) act = "";
            request.setAttribute("inner", true);
            switch (act) {
                case "forward" -> request.getRequestDispatcher("/other/place").forward(request, response);
                case "include" -> request.getRequestDispatcher("/other/place").include(request, response);
                case "error" -> response.sendError(500);
                case "throw" -> throw new ServletException("of the app");
                case "dispatch" -> request.startAsync().dispatch("/other/place");
                case "twice" -> {
                    request.removeAttribute("inner");
                    AsyncContext async = request.startAsync();
                    request.setAttribute("again", request.getAttribute("again") == null ? 1 : 2);
                    if (request.getAttribute("again").equals(1)) async.dispatch();
                    else later(async, 300);
                }
                case "report" -> ((Reservation) request.getAttribute(FluxGateFilter.RESERVATION)).report(0);
                case "timeout" -> request.startAsync().setTimeout(200);
                case "later" -> later(request.startAsync(), 300);
                case "long" -> later(request.startAsync(), 3_000);
                case "started and thrown" -> {
                    request.startAsync();
                    throw new ServletException("of the app");
                }
                default -> response.getWriter().print("hello");
            }
        }

        private static void later(AsyncContext async, long ms) {
            new Thread(() -> {
                try {
                    Thread.sleep(ms);
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                async.complete();
            }).start();
        }
    }

    @BeforeAll
    static void start() throws Exception {
        gate = FluxGate.builder(new Servers.Gate(Servers.startRedis()).url, FluxGate.OnFailure.THROW).token(Servers.TOKEN).timeout(Duration.ofSeconds(20)).build();
        FluxGateFilter filter = new FluxGateFilter(gate).amend((http, request) -> request.userId(http.getHeader("X-User")));
        app = new Servers.App(filter, false).servlet("/*", new Acts());
        ErrorPage page = new ErrorPage();
        page.setErrorCode(500);
        page.setLocation("/error/page");
        app.context.addErrorPage(page);
        app.start();
    }

    @AfterAll
    static void stop() throws Exception {
        app.close();
    }

    private static long remaining(String user) {
        return gate.check(new CheckRequest().userId(user).path("/api/a").peek(true)).remaining();
    }

    /** However a request goes on inside the container, it counts once. */
    @Test
    void countsOnce() throws Exception {
        for (String act : List.of("plain", "forward", "include", "error", "throw", "dispatch", "twice", "timeout", "later", "started and thrown")) {
            HttpResponse<String> answer = Servers.get(app.url() + "/api/a", "X-User", "once-" + act, "X-Act", act);
            boolean fails = List.of("error", "throw", "timeout", "started and thrown").contains(act);
            assertEquals(fails ? 500 : 200, answer.statusCode(), act);
            assertEquals(9, remaining("once-" + act), act);
            assertEquals("9", answer.headers().firstValue("X-RateLimit-Remaining").orElse(fails ? "9" : ""), act);
        }
    }

    /** What the app reports is settled when the request has ended, and does no harm without the server. */
    @Test
    void settlesReports() throws Exception {
        assertEquals(200, Servers.get(app.url() + "/settled", "X-User", "reports", "X-Act", "report").statusCode());
        Servers.eventually("the token is back", () -> gate.check(new CheckRequest().userId("reports").path("/settled").peek(true)).remaining() == 100);
        assertEquals(200, Servers.get(app.url() + "/settled", "X-User", "keeps").statusCode());
        assertEquals(99, gate.check(new CheckRequest().userId("keeps").path("/settled").peek(true)).remaining());
        FluxGate none = FluxGate.builder("http://127.0.0.1:" + Servers.freePort(), FluxGate.OnFailure.ALLOW).build();
        try (Servers.App other = new Servers.App(new FluxGateFilter(none), false).servlet("/*", new Acts()).start()) {
            assertEquals(200, Servers.get(other.url() + "/settled", "X-Act", "report").statusCode());
        }
    }

    /** A slot is free again when the request has ended, however it ends, and not before. */
    @Test
    void releasesSlots() throws Exception {
        for (String act : List.of("plain", "error", "throw", "dispatch", "twice", "timeout", "later", "started and thrown")) {
            String user = "slot-" + act;
            assertTrue(Servers.get(app.url() + "/slots", "X-User", user, "X-Act", act).statusCode() != 429, act);
            Servers.eventually(act, () -> gate.check(new CheckRequest().userId(user).path("/slots").peek(true)).remaining() == 1);
        }
        var running = Servers.HTTP.sendAsync(java.net.http.HttpRequest.newBuilder(java.net.URI.create(app.url() + "/slots")).headers("X-User", "held", "X-Act", "long").build(),
                HttpResponse.BodyHandlers.ofString());
        Servers.eventually("the slot is held", () -> gate.check(new CheckRequest().userId("held").path("/slots").peek(true)).remaining() == 0);
        assertEquals(429, Servers.get(app.url() + "/slots", "X-User", "held").statusCode());
        assertEquals(200, running.get().statusCode());
    }

    /** The rule that denies /blocked applies to every spelling that Tomcat routes there. */
    @Test
    void spellingsOfAPath() throws Exception {
        for (String path : List.of("/blocked", "/blocked;x=1", "/blocked;jsessionid=1A", "/;a/blocked", "/blocked/", "//blocked", "/%62locked", "/a/../blocked", "/a/..;b=c/blocked", "/a/%2e%2e/blocked",
                "/./blocked;", "/a%2F..%2Fblocked", "/blocked?x;y", "/blocked;a;b=/c/..")) {
            String answer = Servers.raw(app.port(), "GET " + path + " HTTP/1.1\r\nHost: a\r\nX-User: spelling\r\nConnection: close\r\n\r\n");
            assertTrue(answer.startsWith("HTTP/1.1 403 "), path + ": " + answer);
        }
        for (String path : List.of("/blocked\\", "/blocked#", "/a\\..\\blocked")) {
            String answer = Servers.raw(app.port(), "GET " + path + " HTTP/1.1\r\nHost: a\r\nX-User: spelling\r\nConnection: close\r\n\r\n");
            assertTrue(answer.startsWith("HTTP/1.1 4"), path + ": " + answer);
        }
    }

    /** Headers that are as large as Tomcat accepts, not UTF-8, or forged neither fail a request nor change whose it is. */
    @Test
    void hostileHeaders() throws Exception {
        List<String> headers = List.of("X-Big: " + "a\"\\".repeat(2_000), "X-Latin: \u00e9\u00ff", "X-Utf8: \u00c3\u00a9", "X-Forwarded-For: 192.0.2.1", "Forwarded: for=\"" + "\\a".repeat(3_000),
                "X-Many: 1\r\n".repeat(40) + "X-Last: 1", "X-Forwarded-For: " + "10.0.0.1,".repeat(700) + "1");
        for (int i = 0; i < headers.size(); i++) {
            String answer = Servers.raw(app.port(), "GET /api/a HTTP/1.1\r\nHost: a\r\nX-User: hostile\r\nConnection: close\r\n" + headers.get(i) + "\r\n\r\n");
            assertTrue(answer.startsWith("HTTP/1.1 200 ") && answer.contains("X-RateLimit-Remaining: " + (9 - i)), headers.get(i) + answer);
        }
    }

    /** An unknown rule set and a request that cannot be sent are answered, and never pass. */
    @Test
    void invalidRequests() throws Exception {
        for (String set : List.of("unknown", "not an id", "\ud83d")) {
            try (Servers.App other = new Servers.App(new FluxGateFilter(gate).amend((http, request) -> request.ruleSet(set)), false).servlet("/*", new Acts()).start()) {
                HttpResponse<String> answer = Servers.get(other.url() + "/api/a");
                assertEquals(set.equals("unknown") ? 503 : 500, answer.statusCode());
                assertEquals("application/problem+json", answer.headers().firstValue("Content-Type").orElse(""));
                assertTrue(answer.body().contains(set.equals("unknown") ? "There is no rule set for this request." : "Internal Server Error"), answer.body());
            }
        }
    }
}
