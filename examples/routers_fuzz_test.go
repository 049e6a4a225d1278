package examples_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// A route is a handler. In its path {name} is one segment and {name...} the rest.
type route struct {
	name, path string
	exempt     bool // not limited: by a rule that allows, or left out by the middleware
}

// routes meet each other: what one router gives to the route of one segment, another
// may give to an exempt one. All limited ones have a rule of the same name.
var routes = []route{
	{"login", "/api/login", false},
	{"export", "/api/{x}/export", false},
	{"search", "/search/{q}", false},
	{"strict", "/items/{id}", false},
	{"generous", "/items/special", false},
	{"files", "/files/{rest...}", false},
	{"pair", "/pairs/{left}/{right}", false},
	{"top", "/{name}", false},
	{"health", "/healthz", true},
	{"public", "/public/{rest...}", true},
	{"static", "/static/{rest...}", true},
}

// pattern is the path as rules write it. last is one segment at its end.
func (r route) pattern(last string) string {
	segments := strings.Split(r.path, "/")
	for i, s := range segments {
		switch {
		case strings.HasSuffix(s, "...}") && r.exempt:
			segments[i] = "*/**" // what is below: /public/** would exempt /public, which another route serves
		case strings.HasSuffix(s, "...}"):
			segments[i] = "**"
		case s != "" && s[0] == '{' && i == len(segments)-1:
			segments[i] = last
		case s != "" && s[0] == '{':
			segments[i] = "*"
		}
	}
	return strings.Join(segments, "/")
}

// withColons is the path as gin and echo write it; rest is how they spell the rest.
func (r route) withColons(rest string) string {
	segments := strings.Split(r.path, "/")
	for i, s := range segments {
		if strings.HasSuffix(s, "...}") {
			segments[i] = rest
		} else if s != "" && s[0] == '{' {
			segments[i] = ":" + s[1:len(s)-1]
		}
	}
	return strings.Join(segments, "/")
}

// A limitedRouter is a router behind the middleware. It notes which routes a request
// reached and which rules counted it.
type limitedRouter struct {
	name             string
	handler          http.Handler
	engine           *fluxgate.Engine
	reached, counted []string
}

// newLimitedRouter puts the middleware in front of what build makes of a handler for
// each route.
func newLimitedRouter(name, last string, build func(handler func(route) http.HandlerFunc) http.Handler) *limitedRouter {
	l := &limitedRouter{name: name}
	var list []rules.Rule
	for _, r := range routes {
		if r.name == "static" {
			continue
		}
		rule := rules.Rule{ID: r.name, Paths: []string{r.pattern(last)}, Methods: []string{"GET"}}
		if rule.Bands = []rules.Band{rules.PerSecond(1_000_000)}; r.exempt {
			rule.Action, rule.Priority, rule.Bands, rule.Methods = rules.ActionAllow, 100, nil, nil
		}
		switch r.name {
		case "strict":
			rule.Group = "items"
		case "generous":
			rule.Group, rule.Priority = "items", 1
		}
		list = append(list, rule)
	}
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	l.engine = fluxgate.Must(fluxgate.New(store, fluxgate.Static(fluxgate.Must(rules.NewSet("api", list...)))))
	limit := fluxgate.Must(httplimit.New(l, httplimit.WithoutPaths("/static/*/**")))
	l.handler = limit(build(func(r route) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { l.reached = append(l.reached, r.name) }
	}))
	return l
}

// Check asks the engine and notes what counted.
func (l *limitedRouter) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	d, err := l.engine.Check(ctx, req)
	for b := range d.Bands() {
		l.counted = append(l.counted, b.Rule.ID)
	}
	return d, err
}

func (l *limitedRouter) Extend(ctx context.Context, receipt *fluxgate.Receipt) error {
	return l.engine.Extend(ctx, receipt)
}

func (l *limitedRouter) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual int64) (store.Settlement, error) {
	return l.engine.Settle(ctx, receipt, actual)
}

func (l *limitedRouter) SettleUsage(ctx context.Context, receipt *fluxgate.Receipt, usage *fluxgate.Usage) (map[string]store.Settlement, error) {
	return l.engine.SettleUsage(ctx, receipt, usage)
}

// limitedRouters are the routers that people use. All get GET routes alone.
func limitedRouters() []*limitedRouter {
	gin.SetMode(gin.ReleaseMode)
	return []*limitedRouter{
		newLimitedRouter("net/http", "*", func(handler func(route) http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			for _, r := range routes {
				mux.Handle("GET "+r.path, handler(r))
			}
			return mux
		}),
		newLimitedRouter("chi", "*", func(handler func(route) http.HandlerFunc) http.Handler {
			router := chi.NewRouter()
			for _, r := range routes {
				router.Get(strings.Replace(r.path, "{rest...}", "*", 1), handler(r))
			}
			return router
		}),
		newLimitedRouter("gin", "*", func(handler func(route) http.HandlerFunc) http.Handler {
			router := gin.New()
			for _, r := range routes {
				router.GET(r.withColons("*rest"), gin.WrapF(handler(r)))
			}
			return router
		}),
		// A parameter at the end of a path takes the rest of it in echo.
		newLimitedRouter("echo", "**", func(handler func(route) http.HandlerFunc) http.Handler {
			router := echo.New()
			for _, r := range routes {
				router.GET(r.withColons("*"), echo.WrapHandler(handler(r)))
			}
			return router
		}),
	}
}

// Whatever route a router finds for a request target, a request to a limited
// route was counted.
func FuzzRouters_Counted(f *testing.F) {
	for _, target := range []string{
		"/", "/healthz", "/healthz/", "/api/login", "/api/login/", "/api/%2e%2e/healthz", "/api/..%2fhealthz", "/api/../healthz", "/api/..%2fexport",
		"/api/x/export", "/search/a%2Fb", "/search/", "/search/a//b", "/search/x/..", "/%68ealthz", "/h%65althz", "/items/special", "/items/speci%61l",
		"/items/special/", "/items/x/../special", "/public/../api/login", "/public/..%2fapi/login", "/public%2f..%2fapi%2flogin", "/static/../api/login",
		"/static/%2e%2e/api/login", "/static%2f%2e%2e%2fapi%2flogin", "/files/..%2fhealthz", "/files/", "/files", "/static", "/static/", "/public", "/public/", "/public//x", "//", "//api//login", "/./api/login",
		"/api/login#/../../healthz", "/api/login?/../../healthz", `/search/a%2Fb"`, "/search/a%2Fb#", "/pairs/a/b", "/pairs/a%2Fb/c", "/pairs//b", "/pairs/a/",
		"http://host/api/login", "http:healthz", "*", "/healthz;x", "/search/%00", "/search/caf%C3%A9", "/search/caf%c3%a9", "/search/%zz", "/search/a b", "/..", "/%2e",
		"/healthz%2f..", "/public/x/%2e%2e/%2e%2e/api/login", "/items/../healthz", "/api/./export", "/api//export", "/api/%2f/export",
	} {
		for _, method := range []string{"GET", "HEAD"} {
			f.Add(method, target)
		}
	}
	routers := limitedRouters()
	f.Fuzz(func(t *testing.T, method, target string) {
		for _, l := range routers {
			request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: example.com\r\n\r\n")))
			if err != nil {
				return // a server answers it with a 400
			}
			l.reached, l.counted = nil, nil
			l.handler.ServeHTTP(httptest.NewRecorder(), request)
			for _, name := range l.reached {
				r := routes[slices.IndexFunc(routes, func(r route) bool { return r.name == name })]
				if !r.exempt && !slices.Contains(l.counted, name) {
					t.Errorf("%s serves %s %q by the route %s, which counted under %q alone", l.name, method, target, r.path, l.counted)
				}
			}
		}
	})
}
